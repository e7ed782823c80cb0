"""The Kubernetes types: what we create has the wire form the API server wants, what it sends is understood."""

import base64
from typing import Any

import msgspec
import pytest

from magos.api import kube
from magos.api.kube import (
    Container,
    EnvVar,
    EnvVarSource,
    Job,
    JobManifest,
    JobSpec,
    KeySelector,
    LeaseSpec,
    Pod,
    PodManifest,
    PodSpec,
    PodTemplateSpec,
    ProjectedSource,
    ProjectedVolumeSource,
    Secret,
    ServiceAccountTokenProjection,
    Volume,
)
from magos.api.meta import Kind, ObjectMeta


def _plain(value: object) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def test_a_job_is_written_without_what_is_left_to_the_server() -> None:
    container = Container(
        name="terraform",
        image="runner:1",
        env=(
            EnvVar(name="EMPTY", value=""),
            EnvVar(
                name="SECRET",
                value_from=EnvVarSource(secret_key_ref=KeySelector(name="s", key="k", optional=True)),
            ),
        ),
    )
    token = ServiceAccountTokenProjection(path="token", expiration_seconds=3600)
    volume = Volume(
        name="token", projected=ProjectedVolumeSource(sources=(ProjectedSource(service_account_token=token),))
    )
    spec = PodSpec(containers=(container,), volumes=(volume,), automount_service_account_token=False)
    job = JobManifest(
        metadata=ObjectMeta(name="network-plan", namespace="team-a"),
        spec=JobSpec(
            template=PodTemplateSpec(spec=spec), backoff_limit=0, pod_replacement_policy="Failed", completions=1
        ),
    )
    assert _plain(job) == {
        "metadata": {"name": "network-plan", "namespace": "team-a"},
        "spec": {
            "backoffLimit": 0,
            "completions": 1,
            "podReplacementPolicy": "Failed",
            "template": {
                "spec": {
                    "automountServiceAccountToken": False,
                    "containers": [
                        {
                            "name": "terraform",
                            "image": "runner:1",
                            "env": [
                                {"name": "EMPTY", "value": ""},
                                {
                                    "name": "SECRET",
                                    "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": True}},
                                },
                            ],
                        }
                    ],
                    "volumes": [
                        {
                            "name": "token",
                            "projected": {
                                "sources": [{"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}}]
                            },
                        }
                    ],
                }
            },
        },
    }


def test_a_job_ends_by_its_conditions_and_not_by_its_counters() -> None:
    counting = msgspec.json.decode(b'{"metadata":{"name":"a"},"status":{"failed":1,"active":0}}', type=Job)
    assert not counting.ended
    body = b"""{"metadata":{"name":"a"},"spec":{"template":{}},"status":{"conditions":[
        {"type":"Complete","status":"False"},
        {"type":"Failed","status":"True","reason":"DeadlineExceeded","message":"too long"}]}}"""
    failed = msgspec.json.decode(body, type=Job)
    assert failed.ended
    assert not failed.complete
    assert failed.failed is not None
    assert failed.failed.reason == "DeadlineExceeded"


def test_a_pod_tells_how_each_container_ended() -> None:
    body = b"""{"metadata":{"name":"p"},"spec":{"nodeName":"n","containers":[{"name":"job","image":"i"}]},"status":{
        "phase":"Failed","podIP":"10.0.0.1",
        "initContainerStatuses":[{"name":"fetch","state":{"terminated":{"exitCode":0,"reason":"Completed"}},
            "imageID":"sha"}],
        "containerStatuses":[{"name":"job","state":{"waiting":{"reason":"ImagePullBackOff","message":"no"}}}]}}"""
    pod = msgspec.json.decode(body, type=Pod)
    fetch, job = pod.status.init_container_statuses[0], pod.status.container_statuses[0]
    assert pod.ended
    assert (pod.spec.node_name, pod.status.pod_ip, fetch.image_id) == ("n", "10.0.0.1", "sha")
    assert fetch.state.terminated is not None
    assert fetch.state.terminated.exit_code == 0
    assert job.state.waiting is not None
    assert job.state.waiting.reason == "ImagePullBackOff"
    assert msgspec.json.decode(body, type=PodManifest).spec.containers[0].name == "job"


def test_a_secret_never_shows_its_values() -> None:
    body = msgspec.json.encode(
        {"metadata": {"name": "s", "namespace": "n"}, "data": {"password": base64.b64encode(b"hunter2").decode()}}
    )
    secret = msgspec.json.decode(body, type=Secret)
    assert secret.data["password"] == b"hunter2"
    for text in (repr(secret), str(secret), f"{secret}", repr([secret])):
        assert "hunter2" not in text
        assert "password" in text


def test_an_exit_code_of_zero_is_written() -> None:
    assert _plain(kube.ContainerStateTerminated(exit_code=0)) == {"exitCode": 0}
    assert _plain(LeaseSpec(holder_identity="", lease_transitions=0)) == {"holderIdentity": "", "leaseTransitions": 0}


def test_every_kind_is_exported_and_addressed() -> None:
    kinds = [value for value in vars(kube).values() if isinstance(value, Kind)]
    assert len(kinds) == 14
    assert {kind.api_version for kind in kinds} == {
        "v1",
        "batch/v1",
        "coordination.k8s.io/v1",
        "events.k8s.io/v1",
    }
    assert [kind.name for kind in kinds if kind.metadata_only] == ["ConfigMap", "Secret", "ServiceAccount"]


@pytest.mark.parametrize("kind", [kube.SECRET_METADATA, kube.CONFIG_MAP_METADATA, kube.SERVICE_ACCOUNT_METADATA])
def test_metadata_forms_keep_no_annotation_because_kubectl_writes_whole_manifests_there(kind: Kind[Any]) -> None:
    wire = b'{"metadata":{"name":"a","resourceVersion":"5","labels":{"l":"v"},"annotations":{"last":"CANARY"}}}'
    found = msgspec.json.decode(wire, type=kind.type)
    assert (found.metadata.name, found.metadata.resource_version, found.metadata.labels) == ("a", "5", {"l": "v"})
    assert "CANARY" not in repr(found)
