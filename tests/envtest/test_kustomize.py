"""What is deployed, against the real API server: it applies cleanly, twice, and grants no more than the spec says."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from magos.api.labels import JOB_SERVICE_ACCOUNT, RUNNER, SYSTEM_ROLE
from magos.errors import MagosError
from magos.local.controlplane.kubectl import Kubectl
from tests.envtest.cluster import Cluster

_ROOT = Path(__file__).parents[2]
_BASE = _ROOT / "deploy" / "kustomize" / "base"
_TENANT = _ROOT / "deploy" / "kustomize" / "components" / "tenant"
_OVERLAYS = _ROOT / "deploy" / "kustomize" / "overlays"
_SAMPLES = _ROOT / "samples"
_SYSTEM = "magos-system"


@pytest.fixture(scope="module")
def deployed(control_plane: Cluster) -> Cluster:
    """The control plane with ``deploy/kustomize/base`` applied; other tests may rely on it, so it stays."""
    control_plane.kubectl.run("apply", f"--kustomize={_BASE}")
    return control_plane


def _built(kubectl: Kubectl, folder: Path) -> list[dict[str, Any]]:
    return [dict(document) for document in yaml.safe_load_all(kubectl.run("kustomize", str(folder)))]


def _may(cluster: Cluster, account: str, request: str, namespace: str) -> bool:
    """Ask the API server; ``request`` is ``<verb> <resource>[.<group>][/<subresource>][=<name>]``."""
    verb, _, rest = request.partition(" ")
    rest, _, name = rest.partition("=")
    rest, _, subresource = rest.partition("/")
    resource, _, group = rest.partition(".")
    attributes = {
        "namespace": namespace,
        "verb": verb,
        "group": group,
        "resource": resource,
        "subresource": subresource,
        "name": name,
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": f"system:serviceaccount:{_SYSTEM}:{account}",
            "groups": ["system:serviceaccounts", f"system:serviceaccounts:{_SYSTEM}", "system:authenticated"],
            "resourceAttributes": attributes,
        },
    }
    answer = cluster.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"].get("allowed", False))


def _each(verbs: str, *resources: str) -> list[str]:
    return [f"{verb} {resource}" for resource in resources for verb in verbs.split()]


_READ = "get list watch"
_WRITE = "create update patch delete deletecollection"
_MAGOS = ("workspaces.magosproject.io", "projects.magosproject.io", "rollouts.magosproject.io")
_KINDS = (*_MAGOS, "variablesets.magosproject.io")
_OTHERS = ("secrets", "configmaps", "jobs.batch", "persistentvolumeclaims", "leases.coordination.k8s.io")
_SYSTEM_ROLES = ("magos-admin", "magos-project-creator", "magos-user", "magos-viewer")

ALLOWED: list[tuple[str, str, str]] = [
    *(
        ("magos-workspace", request, "team-a")
        for request in (
            *_each(f"{_READ} patch update", "workspaces.magosproject.io"),
            *_each("get patch update", "workspaces.magosproject.io/status"),
            *_each("update", "workspaces.magosproject.io/finalizers"),
            *_each(_READ, "projects.magosproject.io", "variablesets.magosproject.io"),
            *_each(f"{_READ} create patch delete", "jobs.batch"),
            *_each(f"{_READ} create", "persistentvolumeclaims"),
            *_each(f"{_READ} delete", "pods"),
            *_each("get", "pods/log"),
            *_each(_READ, "secrets", "serviceaccounts", "validatingpolicies.policies.kyverno.io"),
            *_each(f"{_READ} create delete", "configmaps"),
            *_each(f"{_READ} create patch", "events.events.k8s.io"),
        )
    ),
    *(
        ("magos-project", request, "team-a")
        for request in (
            *_each(f"{_READ} patch update", "projects.magosproject.io"),
            *_each("get patch update", "projects.magosproject.io/status"),
            *_each("update", "projects.magosproject.io/finalizers"),
            *_each(_READ, "rollouts.magosproject.io"),
            *_each(f"{_READ} patch", "workspaces.magosproject.io"),
            *_each("create patch", "events.events.k8s.io"),
        )
    ),
    *(
        ("magos-refwatcher", request, "team-a")
        for request in (
            *_each(f"{_READ} patch", "workspaces.magosproject.io"),
            *_each("patch", "workspaces.magosproject.io/status"),
            *_each("list watch", "secrets"),
            *_each("create patch", "events.events.k8s.io"),
        )
    ),
    *(
        ("magos-variableset", request, "team-a")
        for request in (
            *_each(_READ, "variablesets.magosproject.io", "secrets", "configmaps"),
            *_each("get patch update", "variablesets.magosproject.io/status"),
            *_each("create patch", "events.events.k8s.io"),
        )
    ),
    *(
        ("magos-rollout", request, "team-a")
        for request in (
            *_each(_READ, "rollouts.magosproject.io"),
            *_each("get patch update", "rollouts.magosproject.io/status"),
            *_each(f"{_READ} patch", "workspaces.magosproject.io"),
            *_each("create patch", "events.events.k8s.io"),
        )
    ),
    *(
        (f"magos-{name}", request, _SYSTEM)
        for name in ("workspace", "project", "rollout", "variableset", "refwatcher")
        for request in (
            "create leases.coordination.k8s.io",
            *_each("get update patch", f"leases.coordination.k8s.io={name}-controller"),
        )
    ),
    ("magos-workspace", "update configmaps=magos-outbox-x", _SYSTEM),
    *(
        ("magos-api", request, "team-a")
        for request in (
            *_each(_READ, *_KINDS),
            *_each("patch", "workspaces.magosproject.io"),
            *_each("get list", "pods"),
            *_each("get", "pods/log"),
            *_each(_READ, "serviceaccounts", "namespaces"),
            *_each("create", "tokenreviews.authentication.k8s.io", "subjectaccessreviews.authorization.k8s.io"),
        )
    ),
    ("magos-bootstrap", "create secrets", _SYSTEM),
    *(("magos-admin", request, "team-a") for request in _each(f"{_READ} {_WRITE}", *_KINDS)),
    ("magos-admin", "patch workspaces.magosproject.io/status", "team-a"),
    *(
        ("magos-admin", request, "team-a")
        for request in _each(
            _READ,
            "events",
            "events.events.k8s.io",
            "namespaces",
            "serviceaccounts",
            "roles.rbac.authorization.k8s.io",
            "rolebindings.rbac.authorization.k8s.io",
        )
    ),
    *(("magos-viewer", request, "team-a") for request in _each(_READ, *_KINDS, "namespaces", "events.events.k8s.io")),
    *(("magos-user", request, "team-a") for request in _each(_READ, "projects.magosproject.io", "namespaces")),
    *(
        ("magos-project-creator", request, "team-a")
        for request in _each(f"{_READ} create", "projects.magosproject.io") + _each(_READ, "namespaces")
    ),
]

DENIED: list[tuple[str, str, str]] = [
    *(
        ("magos-workspace", request, "team-a")
        for request in (
            *_each("create delete", "workspaces.magosproject.io"),
            *_each(_WRITE, "projects.magosproject.io", "rollouts.magosproject.io", "variablesets.magosproject.io"),
            *_each(_WRITE, "secrets", "serviceaccounts", "roles.rbac.authorization.k8s.io"),
            *_each("update patch delete", "persistentvolumeclaims"),
            *_each("create update patch", "pods"),
            *_each("create", "pods/exec", "pods/eviction", "serviceaccounts/token"),
            *_each("update patch", "configmaps"),
            *_each("get list create", "leases.coordination.k8s.io"),
            "deletecollection jobs.batch",
        )
    ),
    *(
        ("magos-project", request, "team-a")
        for request in (
            *_each("create update delete", "workspaces.magosproject.io"),
            *_each("patch update", "workspaces.magosproject.io/status"),
            *_each("create delete", "projects.magosproject.io"),
            *_each(_WRITE, "rollouts.magosproject.io"),
            *_each(f"{_READ} {_WRITE}", "jobs.batch", "secrets", "pods", "configmaps", "persistentvolumeclaims"),
        )
    ),
    *(
        ("magos-variableset", request, "team-a")
        for request in (
            *_each(_WRITE, "variablesets.magosproject.io", "secrets", "configmaps"),
            *_each(f"{_READ} {_WRITE}", *_MAGOS, "jobs.batch", "pods", "persistentvolumeclaims"),
            *_each("create", "pods/exec", "serviceaccounts/token"),
        )
    ),
    *(
        ("magos-refwatcher", request, "team-a")
        for request in (
            *_each("create update delete", "workspaces.magosproject.io"),
            *_each("update", "workspaces.magosproject.io/status", "workspaces.magosproject.io/finalizers"),
            *_each(f"get {_WRITE}", "secrets"),
            *_each(f"{_READ} {_WRITE}", "projects.magosproject.io", "rollouts.magosproject.io"),
            *_each(f"{_READ} {_WRITE}", "jobs.batch", "pods", "configmaps", "persistentvolumeclaims"),
        )
    ),
    ("magos-refwatcher", "update leases.coordination.k8s.io=workspace-controller", _SYSTEM),
    ("magos-variableset", "update leases.coordination.k8s.io=workspace-controller", _SYSTEM),
    *(
        ("magos-rollout", request, "team-a")
        for request in (
            *_each("create update delete", "workspaces.magosproject.io"),
            *_each("patch update", "workspaces.magosproject.io/status"),
            *_each(_WRITE, "rollouts.magosproject.io"),
            *_each(f"{_READ} {_WRITE}", "projects.magosproject.io", "jobs.batch", "secrets", "pods", "configmaps"),
        )
    ),
    ("magos-rollout", "update leases.coordination.k8s.io=project-controller", _SYSTEM),
    ("magos-workspace", "update leases.coordination.k8s.io=project-controller", _SYSTEM),
    ("magos-project", "update leases.coordination.k8s.io=workspace-controller", _SYSTEM),
    *(("magos-bootstrap", f"{verb} secrets", _SYSTEM) for verb in f"{_READ} update patch delete".split()),
    ("magos-bootstrap", "create secrets", "team-a"),
    *(
        ("magos-api", request, namespace)
        for namespace in (_SYSTEM, "team-a")
        for request in (
            *_each("create update delete deletecollection", "workspaces.magosproject.io"),
            *_each("patch update", "workspaces.magosproject.io/status"),
            *_each(_WRITE, "projects.magosproject.io", "rollouts.magosproject.io", "variablesets.magosproject.io"),
            *_each(f"{_READ} {_WRITE}", *_OTHERS, "roles.rbac.authorization.k8s.io"),
            *_each(f"watch {_WRITE}", "pods"),
            *_each(_WRITE, "serviceaccounts", "namespaces"),
            *_each("create", "pods/exec", "serviceaccounts/token"),
            *_each("impersonate", "users", "groups", "serviceaccounts"),
            "assert principals.magosproject.io",
        )
    ),
    *(
        (role, request, namespace)
        for role in _SYSTEM_ROLES
        for namespace in (_SYSTEM, "team-a")
        for request in (
            *_each(f"{_READ} {_WRITE}", *_OTHERS, "pods"),
            *_each(_WRITE, "serviceaccounts", "namespaces", "roles.rbac.authorization.k8s.io"),
            *_each("create", "serviceaccounts/token"),
            *_each("impersonate", "users", "serviceaccounts"),
            "assert principals.magosproject.io",
        )
    ),
    *(("magos-viewer", request, "team-a") for request in _each(_WRITE, *_KINDS)),
    *(
        (role, request, "team-a")
        for role in ("magos-user", "magos-project-creator")
        for request in (
            *_each(f"{_READ} {_WRITE}", "workspaces.magosproject.io", "rollouts.magosproject.io"),
            *_each("update patch delete", "projects.magosproject.io"),
        )
    ),
    ("magos-user", "create projects.magosproject.io", "team-a"),
    *(
        ("magos-job", request, namespace)
        for namespace in (_SYSTEM, "team-a")
        for request in _each(f"{_READ} {_WRITE}", *_MAGOS, "secrets", "configmaps", "pods", "jobs.batch")
    ),
]


def test_the_base_is_idempotent(deployed: Cluster) -> None:
    again = deployed.kubectl.run("apply", f"--kustomize={_BASE}").splitlines()
    assert again
    assert [line for line in again if not line.endswith(" unchanged")] == []


def test_every_account_has_what_its_duty_takes(deployed: Cluster) -> None:
    assert [case for case in ALLOWED if not _may(deployed, case[0], case[1], case[2])] == []


def test_no_account_has_more_than_its_duty_takes(deployed: Cluster) -> None:
    assert [case for case in DENIED if _may(deployed, case[0], case[1], case[2])] == []


def test_kubectl_says_the_same_about_the_project_controller(deployed: Cluster) -> None:
    user = f"--as=system:serviceaccount:{_SYSTEM}:magos-project"
    answers = {
        " ".join(question): deployed.kubectl.run("auth", "can-i", *question, user, check=False).strip()
        for question in (("patch", "workspaces.magosproject.io"), ("create", "jobs.batch"), ("get", "secrets"))
    }
    assert answers == {"patch workspaces.magosproject.io": "yes", "create jobs.batch": "no", "get secrets": "no"}


def test_all_pods_are_admitted_under_restricted(deployed: Cluster) -> None:
    items = _built(deployed.kubectl, _OVERLAYS / "demo")
    templates = {
        item["metadata"]["name"]: item["spec"]["template"] for item in items if "template" in item.get("spec", {})
    }
    assert set(templates) == {
        "magos-workspace",
        "magos-project",
        "magos-rollout",
        "magos-variableset",
        "magos-refwatcher",
        "magos-api",
        "magos-bootstrap",
        "magos-postgres",
        "magos-rustfs",
    }
    for name, template in templates.items():
        # A claim of a StatefulSet's template becomes a volume of the pod.
        volumes = [*template["spec"]["volumes"], {"name": "data", "emptyDir": {}}]
        # The namespace may have no account "default" yet.
        spec = {"serviceAccountName": JOB_SERVICE_ACCOUNT, **template["spec"], "volumes": volumes}
        metadata = {"name": name, "labels": template["metadata"]["labels"]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        deployed.request("POST", f"/api/v1/namespaces/{_SYSTEM}/pods?dryRun=All", pod)


@pytest.mark.parametrize("name", ["demo", "production"])
def test_the_overlays_apply_on_an_empty_cluster_and_over_the_base(deployed: Cluster, name: str) -> None:
    told = deployed.kubectl.run("apply", "--dry-run=server", f"--kustomize={_OVERLAYS / name}").splitlines()
    assert all(line.endswith("(server dry run)") for line in told)


def test_the_stores_of_the_demo_are_those_that_both_programs_use(kubectl: Kubectl) -> None:
    items = {(item["kind"], item["metadata"]["name"]): item for item in _built(kubectl, _OVERLAYS / "demo")}
    for name in ("magos-workspace", "magos-api"):
        [container] = items["Deployment", name]["spec"]["template"]["spec"]["containers"]
        given = {entry["name"]: entry for entry in container["env"]}
        assert ("Service", given["MAGOS_POSTGRES_HOST"]["value"]) in items
        host, port = given["MAGOS_LOGS_S3_ENDPOINT"]["value"].removeprefix("http://").split(":")
        assert int(port) in {each["port"] for each in items["Service", host]["spec"]["ports"]}
        for variable, key in (
            ("MAGOS_POSTGRES_PASSWORD", "password"),
            ("MAGOS_LOGS_S3_SECRET_ACCESS_KEY", "secretKey"),
        ):
            assert given[variable]["valueFrom"]["secretKeyRef"]["key"] == key
    for name in ("magos-project", "magos-rollout", "magos-variableset", "magos-refwatcher"):
        [container] = items["Deployment", name]["spec"]["template"]["spec"]["containers"]
        assert not any(entry["name"].startswith(("MAGOS_POSTGRES", "MAGOS_LOGS")) for entry in container["env"])


def test_an_unrestricted_pod_is_not_admitted_beside_them(deployed: Cluster) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "root"},
        "spec": {"containers": [{"name": "a", "image": "a"}]},
    }
    with pytest.raises(MagosError, match="restricted"):
        deployed.request("POST", f"/api/v1/namespaces/{_SYSTEM}/pods?dryRun=All", pod)


def test_the_apis_service_leads_to_its_pods(kubectl: Kubectl) -> None:
    items = {(item["kind"], item["metadata"]["name"]): item for item in _built(kubectl, _BASE)}
    service, deployment = items["Service", "magos-api"], items["Deployment", "magos-api"]
    template = deployment["spec"]["template"]
    assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
    [port] = service["spec"]["ports"]
    ports = {each["name"]: each["containerPort"] for each in template["spec"]["containers"][0]["ports"]}
    assert (port["port"], ports[port["targetPort"]]) == (80, 8080)


def test_the_api_and_the_workspace_controller_take_history_from_the_same_secret(kubectl: Kubectl) -> None:
    deployments = {item["metadata"]["name"]: item for item in _built(kubectl, _BASE) if item["kind"] == "Deployment"}
    taken = {
        name: item["spec"]["template"]["spec"]["containers"][0].get("envFrom") for name, item in deployments.items()
    }
    history = [{"secretRef": {"name": "magos-history", "optional": True}}]
    assert {name: value for name, value in taken.items() if value} == {
        "magos-api": history,
        "magos-workspace": history,
    }


def test_the_accounts_that_people_act_as_are_labelled_and_run_nothing(kubectl: Kubectl) -> None:
    items = _built(kubectl, _BASE)
    accounts = {
        item["metadata"]["name"]: item.get("automountServiceAccountToken")
        for item in items
        if item["kind"] == "ServiceAccount" and item["metadata"]["labels"].get(SYSTEM_ROLE) == "true"
    }
    assert accounts == dict.fromkeys(_SYSTEM_ROLES, False)
    used = {i["spec"]["template"]["spec"]["serviceAccountName"] for i in items if i["kind"] == "Deployment"}
    assert used.isdisjoint(accounts)
    assert not any("magosproject.io/claim" in key for i in items for key in i["metadata"].get("annotations", {}))


def test_an_image_tag_reaches_the_runner_image_too(kubectl: Kubectl) -> None:
    workspace = next(
        item
        for item in _built(kubectl, _BASE)
        if item["kind"] == "Deployment" and item["metadata"]["name"] == "magos-workspace"
    )
    container = workspace["spec"]["template"]["spec"]["containers"][0]
    environment = {entry["name"]: entry.get("value") for entry in container["env"]}
    tag = container["image"].partition(":")[2]
    assert tag
    assert environment["MAGOS_JOB_IMAGE"] == f"magos-job:{tag}"


def test_a_tenant_namespace_gets_the_runners_account(control_plane: Cluster, namespace: str, tmp_path: Path) -> None:
    content = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": namespace,
        "components": [os.path.relpath(_TENANT, tmp_path)],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(content))
    control_plane.kubectl.run("apply", f"--kustomize={tmp_path}")
    account = control_plane.request("GET", f"/api/v1/namespaces/{namespace}/serviceaccounts/magos-job")
    assert account["automountServiceAccountToken"] is False


def test_every_runner_account_that_is_shipped_carries_the_label_and_no_other_account_does(
    kubectl: Kubectl, tmp_path: Path
) -> None:
    content = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "components": [os.path.relpath(_TENANT, tmp_path)],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(content))
    samples = [dict(each) for each in yaml.safe_load_all((_SAMPLES / "00-namespace.yaml").read_text())]
    shipped = {"base": _built(kubectl, _BASE), "tenant": _built(kubectl, tmp_path), "samples": samples}
    for where, items in shipped.items():
        accounts = {each["metadata"]["name"]: each for each in items if each["kind"] == "ServiceAccount"}
        labelled = {n for n, each in accounts.items() if each["metadata"].get("labels", {}).get(RUNNER) == "true"}
        assert labelled == {JOB_SERVICE_ACCOUNT}, where


def test_crds_and_samples_apply_twice_without_a_change(control_plane: Cluster) -> None:
    for folder in (_ROOT / "crds", _SAMPLES, _SAMPLES / "promotion"):
        control_plane.kubectl.run("apply", f"--filename={folder}")
    for folder in (_ROOT / "crds", _SAMPLES, _SAMPLES / "promotion"):
        again = control_plane.kubectl.run("apply", f"--filename={folder}").splitlines()
        assert [line for line in again if not line.endswith(" unchanged")] == []
    control_plane.kubectl.run("delete", "--wait=false", f"--filename={_SAMPLES / '00-namespace.yaml'}")


def test_the_crds_are_a_kustomization_of_their_own(kubectl: Kubectl) -> None:
    assert _names(_built(kubectl, _ROOT / "crds")) == {
        f"{plural}.magosproject.io" for plural in ("projects", "rollouts", "variablesets", "workspaces")
    }
    assert not any(item["kind"] == "CustomResourceDefinition" for item in _built(kubectl, _BASE))


def _names(items: Iterable[dict[str, Any]]) -> set[str]:
    return {item["metadata"]["name"] for item in items}
