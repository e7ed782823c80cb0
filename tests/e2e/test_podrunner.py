"""The pod runner does for a pod what a kubelet does, as far as a runner pod needs it."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tests.e2e.onemachine import OneMachine
from tests.envtest.cluster import eventually

Document = dict[str, Any]


def pod(namespace: str, name: str, **spec: Any) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "restartPolicy": "Never",
            "serviceAccountName": "magos-job",
            "automountServiceAccountToken": False,
            "securityContext": {"runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532},
            **spec,
        },
    }


def container(name: str, script: str, **fields: Any) -> Document:
    return {"name": name, "image": "any", "command": ["sh", "-euc", script], **fields}


def status(here: OneMachine, namespace: str, name: str) -> Document:
    found: Document = json.loads(here.here.kubectl.run("get", "pod", name, "-n", namespace, "-o", "json"))
    answer: Document = found["status"]
    return answer


def finished(here: OneMachine, namespace: str, name: str) -> Document:
    def ended() -> Document | None:
        found = status(here, namespace, name)
        return found if found.get("phase") in ("Succeeded", "Failed") else None

    answer = eventually(ended, within=60)
    assert answer is not None
    return answer


def waiting(here: OneMachine, namespace: str, name: str) -> Callable[[], str]:
    def message() -> str:
        for entry in status(here, namespace, name).get("containerStatuses", []):
            return str(entry["state"].get("waiting", {}).get("message", ""))
        return ""

    return message


def test_stages_share_volumes_in_order_and_the_last_reports(here: OneMachine, namespace: str) -> None:
    volumes = [
        {"name": "work", "emptyDir": {}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
    ]
    mounts = [{"name": "work", "mountPath": "/work"}, {"name": "data", "mountPath": "/data"}]
    read_only = [{**mount, "readOnly": True} for mount in mounts]
    here.apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": namespace},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        },
        pod(
            namespace,
            "stages",
            volumes=volumes,
            initContainers=[
                container("first", "echo one > /work/x; id -u > /data/user", volumeMounts=mounts),
                container("second", "cat /work/x > /work/y; echo two >> /work/y", volumeMounts=mounts),
            ],
            containers=[
                container(
                    "main",
                    "! touch /work/z 2>/dev/null; ! touch /root-is-read-only 2>/dev/null;"
                    " cat /work/y /data/user > /dev/termination-log; echo hello",
                    volumeMounts=read_only,
                )
            ],
        ),
    )
    found = finished(here, namespace, "stages")
    assert found["phase"] == "Succeeded", found
    assert found["containerStatuses"][0]["state"]["terminated"]["message"] == "one\ntwo\n65532\n"
    assert here.here.kubectl.run("logs", "stages", "-n", namespace) == "hello\n"


def test_an_init_container_that_fails_ends_the_pod_before_the_rest(here: OneMachine, namespace: str) -> None:
    here.apply(
        pod(
            namespace,
            "failing",
            initContainers=[container("first", "exit 143"), container("second", "exit 0")],
            containers=[container("main", "exit 0")],
        )
    )
    found = finished(here, namespace, "failing")
    assert found["phase"] == "Failed"
    assert found["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 143
    assert "waiting" in found["initContainerStatuses"][1]["state"]
    assert "waiting" in found["containerStatuses"][0]["state"]


def test_environment_comes_from_secrets_config_maps_and_references(here: OneMachine, namespace: str) -> None:
    environment = [
        {"name": "PLAIN", "value": "a"},
        {"name": "BUILT", "value": "$(PLAIN)-$(SECRET)"},
        {"name": "GONE", "valueFrom": {"secretKeyRef": {"name": "nobody", "key": "k", "optional": True}}},
    ]
    secret = {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "token"}}}
    here.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "keys", "namespace": namespace},
            "stringData": {"token": "s3cret"},
        },
        pod(
            namespace,
            "env",
            containers=[
                container("main", 'echo "$BUILT ${GONE-unset}" > /dev/termination-log', env=[secret, *environment])
            ],
        ),
    )
    found = finished(here, namespace, "env")
    assert found["containerStatuses"][0]["state"]["terminated"]["message"] == "a-s3cret unset\n"


def test_a_missing_secret_keeps_the_pod_waiting_with_the_reason_until_it_appears(
    here: OneMachine, namespace: str
) -> None:
    late = {"name": "LATE", "valueFrom": {"secretKeyRef": {"name": "late", "key": "k"}}}
    here.apply(pod(namespace, "patient", containers=[container("main", 'test "$LATE" = v', env=[late])]))
    message = waiting(here, namespace, "patient")
    assert eventually(message) == 'secret "late" not found'
    here.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "late", "namespace": namespace},
            "stringData": {"k": "v"},
        }
    )
    assert finished(here, namespace, "patient")["phase"] == "Succeeded"


def test_a_projected_token_acts_as_the_pods_account_and_only_where_it_is_mounted(
    here: OneMachine, namespace: str
) -> None:
    token = {
        "name": "token",
        "projected": {"sources": [{"serviceAccountToken": {"path": "token", "expirationSeconds": 600}}]},
    }
    mount = [{"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": True}]
    path = "/var/run/secrets/kubernetes.io/serviceaccount/token"
    here.apply(
        pod(
            namespace,
            "bearer",
            volumes=[token],
            initContainers=[container("with", f"cut -d. -f1 {path} > /dev/termination-log", volumeMounts=mount)],
            containers=[container("without", f"! test -e {path}")],
        )
    )
    found = finished(here, namespace, "bearer")
    assert found["phase"] == "Succeeded", found
    assert found["initContainerStatuses"][0]["state"]["terminated"]["message"].startswith("eyJ")


def test_deletion_asks_the_first_process_to_end_and_kills_it_after_the_grace(here: OneMachine, namespace: str) -> None:
    polite = "trap 'echo asked > /data/asked; exit 0' TERM; touch /data/up; while :; do sleep 0.1; done"
    stubborn = "trap '' TERM; touch /data/up; while :; do sleep 0.1; done"
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    mounts = [{"name": "data", "mountPath": "/data"}]
    for name, script in (("polite", polite), ("stubborn", stubborn)):
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
        here.apply(
            {**claim, "metadata": {"name": name, "namespace": namespace}},
            pod(namespace, name, volumes=volumes, containers=[container("main", script, volumeMounts=mounts)]),
        )
        uid = yaml.safe_load(here.here.kubectl.run("get", "pvc", name, "-n", namespace, "-o", "yaml"))["metadata"][
            "uid"
        ]
        folder = here.here.pods.folder / "claims" / uid
        eventually((folder / "up").exists)
        here.here.kubectl.run("delete", "pod", name, "-n", namespace, "--grace-period=2")
        assert (folder / "asked").exists() == (name == "polite")


def test_what_a_container_leaves_behind_ends_with_it(here: OneMachine, namespace: str) -> None:
    """A daemon started by one stage must not live on beside the next."""
    script = "setsid nohup sh -c 'while :; do sleep 0.1; echo alive >> /work/beat; done' >/dev/null 2>&1 & sleep 0.3"
    mounts = [{"name": "work", "mountPath": "/work"}]
    check = "before=$(wc -l < /work/beat); sleep 0.5; test $(wc -l < /work/beat) = $before"
    here.apply(
        pod(
            namespace,
            "daemon",
            volumes=[{"name": "work", "emptyDir": {}}],
            initContainers=[container("first", script, volumeMounts=mounts)],
            containers=[container("main", check, volumeMounts=mounts)],
        )
    )
    assert finished(here, namespace, "daemon")["phase"] == "Succeeded"


@pytest.mark.parametrize("policy", ["Always", "OnFailure"])
def test_a_restart_policy_it_cannot_keep_is_said_not_ignored(here: OneMachine, namespace: str, policy: str) -> None:
    here.apply(pod(namespace, "restarting", restartPolicy=policy, containers=[container("main", "exit 0")]))
    found = finished(here, namespace, "restarting")
    assert (found["phase"], found["reason"]) == ("Failed", "UnsupportedRestartPolicy")
    assert "Never" in found["message"]


def test_a_pods_volumes_end_with_it_and_a_claims_content_with_the_claim(here: OneMachine, namespace: str) -> None:
    volumes = [
        {"name": "work", "emptyDir": {}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "kept"}},
    ]
    mounts = [{"name": "work", "mountPath": "/work"}, {"name": "data", "mountPath": "/data"}]
    here.apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "kept", "namespace": namespace},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        },
        pod(
            namespace,
            "passing",
            volumes=volumes,
            containers=[container("main", "echo x > /work/x; echo y > /data/y; echo said", volumeMounts=mounts)],
        ),
    )
    assert finished(here, namespace, "passing")["phase"] == "Succeeded"
    kubectl, folder = here.here.kubectl, here.here.pods.folder
    uid = json.loads(kubectl.run("get", "pod", "passing", "-n", namespace, "-o", "json"))["metadata"]["uid"]
    claim = json.loads(kubectl.run("get", "pvc", "kept", "-n", namespace, "-o", "json"))["metadata"]["uid"]
    eventually(lambda: not (folder / "pods" / uid / "volumes").exists())
    assert (folder / "claims" / claim / "y").read_text() == "y\n"
    assert kubectl.run("logs", "passing", "-n", namespace) == "said\n"
    kubectl.run("delete", "pod,pvc", "--all", "-n", namespace)
    eventually(lambda: not (folder / "claims" / claim).exists())
