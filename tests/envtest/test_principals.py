"""Who asked and who approved, with the component ``principals`` on a real API server: none speaks for another."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from magos.local.controlplane.kubectl import Kubectl, KubectlFailed, find_kubectl
from tests.envtest.cluster import Cluster, eventually

_FOLDER = Path(__file__).parents[2] / "deploy" / "kustomize"
_POLICIES = "/apis/admissionregistration.k8s.io/v1"
_RBAC_KINDS = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding")
_SYSTEM = "magos-system"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_ANN = json.dumps({"runID": "20260101T000000-00000000", "principal": "ann"})

Json = dict[str, Any]


@pytest.fixture(scope="module")
def guarded(control_plane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The control plane with the policy in force; gone afterwards, because other modules share the control plane."""
    folder = tmp_path_factory.mktemp("principals")
    items = [each for each in _built(control_plane.kubectl, folder) if "Admission" in each["kind"]]
    (folder / "policy.yaml").write_text(yaml.safe_dump_all(items))
    control_plane.kubectl.run("apply", f"--filename={folder / 'policy.yaml'}")
    yield control_plane
    control_plane.kubectl.run("delete", f"--filename={folder / 'policy.yaml'}")


def _built(kubectl: Kubectl, folder: Path, prefix: str = "") -> list[Json]:
    content = {
        "namePrefix": prefix,
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(_FOLDER / "base", folder)],
        "components": [os.path.relpath(_FOLDER / "components" / "principals", folder)],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(content))
    return [dict(each) for each in yaml.safe_load_all(kubectl.run("kustomize", str(folder)))]


def _user(cluster: Cluster, namespace: str, name: str, tmp_path: Path, *further: Json) -> Kubectl:
    """kubectl of an account that may do everything with Workspaces, and what ``further`` rules say."""
    cluster.request("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}})
    rules = [{"apiGroups": ["magosproject.io"], "resources": ["workspaces"], "verbs": ["*"]}, *further]
    roles, meta = f"{_RBAC}/namespaces/{namespace}", {"metadata": {"name": name}}
    cluster.request("POST", f"{roles}/roles", {**meta, "rules": rules})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    cluster.request("POST", f"{roles}/rolebindings", {**meta, "roleRef": role, "subjects": [subject]})
    kubeconfig = cluster.service_account_kubeconfig(namespace, name, tmp_path / f"{name}.kubeconfig")
    return Kubectl(find_kubectl(), kubeconfig)


@pytest.fixture
def user(guarded: Cluster, namespace: str, tmp_path: Path) -> Kubectl:
    """Somebody who may edit Workspaces; the namespace has one, ``ws``, and the policy is known to be in force."""
    spec = {
        "projectRef": {"name": "shop"},
        "source": {"repoURL": "https://git.example.com/shop/infra.git", "targetRevision": "main"},
        "terraform": {"version": "1.9.8"},
    }
    body = {"apiVersion": "magosproject.io/v1alpha1", "kind": "Workspace", "metadata": {"name": "ws"}, "spec": spec}
    guarded.request("POST", f"/apis/magosproject.io/v1alpha1/namespaces/{namespace}/workspaces", body)
    kubectl = _user(guarded, namespace, "user", tmp_path)
    eventually(lambda: _refusal(kubectl, namespace, f"magosproject.io/approved-by={_ANN}", "--dry-run=server"))
    return kubectl


def _annotate(kubectl: Kubectl, namespace: str, *arguments: str) -> None:
    kubectl.run("annotate", "workspace", "ws", f"--namespace={namespace}", "--overwrite", *arguments)


def _refusal(kubectl: Kubectl, namespace: str, *arguments: str) -> str:
    try:
        _annotate(kubectl, namespace, *arguments)
    except KubectlFailed as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("key", "advice"), [("approved-by", "approved alone"), ("requested-by", "reconcile-request alone")]
)
@pytest.mark.parametrize("manager", ["kubectl-annotate", "magos-api"])
def test_who_may_edit_a_workspace_cannot_speak_for_somebody_else(
    user: Kubectl, namespace: str, key: str, advice: str, manager: str
) -> None:
    refused = _refusal(user, namespace, f"magosproject.io/{key}={_ANN}", f"--field-manager={manager}")
    assert f"Workspace {namespace}/ws is written by Magos" in refused
    assert advice in refused


def test_approving_and_asking_by_hand_is_not_hindered(user: Kubectl, namespace: str) -> None:
    _annotate(
        user, namespace, "magosproject.io/approved=20260101T000000-00000000", "magosproject.io/reconcile-request=1"
    )


def test_the_account_with_the_right_names_a_person_whom_others_can_only_take_away(
    guarded: Cluster, user: Kubectl, namespace: str, tmp_path: Path
) -> None:
    rule = {"apiGroups": ["magosproject.io"], "resources": ["principals"], "verbs": ["assert"]}
    api = _user(guarded, namespace, "api", tmp_path, rule)
    _annotate(api, namespace, f"magosproject.io/approved-by={_ANN}")
    _annotate(user, namespace, "note=untouched")
    assert _refusal(user, namespace, f"magosproject.io/approved-by={_ANN.replace('ann', 'ciso')}")
    _annotate(user, namespace, "magosproject.io/approved-by-")


def _asserts(cluster: Cluster, account: str) -> bool:
    attributes = {"verb": "assert", "group": "magosproject.io", "resource": "principals", "namespace": "team-a"}
    spec = {"user": f"system:serviceaccount:{_SYSTEM}:{account}", "resourceAttributes": attributes}
    answer = cluster.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": spec})
    return bool(answer["status"]["allowed"])


def test_the_component_lets_the_api_server_name_a_person_and_no_other_account(
    guarded: Cluster, user: Kubectl, namespace: str, tmp_path: Path
) -> None:
    shipped = [each for each in _built(guarded.kubectl, tmp_path) if each["kind"] in {"Namespace", *_RBAC_KINDS}]
    manifests = yaml.safe_dump_all(shipped)
    assert user.run("get", "workspace", "ws", f"--namespace={namespace}")
    guarded.kubectl.run("apply", "--filename=-", stdin=manifests)
    try:
        path = guarded.service_account_kubeconfig(_SYSTEM, "magos-api", tmp_path / "magos-api.kubeconfig")
        api = Kubectl(find_kubectl(), path)
        eventually(lambda: not _refusal(api, namespace, f"magosproject.io/requested-by={_ANN}"))
        accounts = {each["metadata"]["name"] for each in shipped if each["kind"] == "ServiceAccount"}
        assert {account for account in accounts if _asserts(guarded, account)} == {"magos-api"}
    finally:
        principals = [each for each in shipped if each["metadata"]["name"] == "magos-api-principals"]
        guarded.kubectl.run("delete", "--filename=-", stdin=yaml.safe_dump_all(principals))
    assert len(principals) == 2


def test_a_workspace_cannot_be_created_with_somebodys_name(guarded: Cluster, user: Kubectl, namespace: str) -> None:
    path = f"/apis/magosproject.io/v1alpha1/namespaces/{namespace}/workspaces/ws"
    body = guarded.request("GET", path)
    copied = {
        "apiVersion": body["apiVersion"],
        "kind": body["kind"],
        "metadata": {"name": "copy", "namespace": namespace, "annotations": {"magosproject.io/requested-by": _ANN}},
        "spec": body["spec"],
    }
    with pytest.raises(KubectlFailed, match="is written by Magos"):
        user.run("create", "--filename=-", stdin=yaml.safe_dump(copied))


def test_a_name_prefix_reaches_the_binding(guarded: Cluster, tmp_path: Path) -> None:
    built = {each["kind"]: each for each in _built(guarded.kubectl, tmp_path, "acme-")}
    assert built["ValidatingAdmissionPolicy"]["metadata"]["name"] == "acme-magos-principals"
    assert built["ValidatingAdmissionPolicyBinding"]["spec"]["policyName"] == "acme-magos-principals"


def test_the_component_switches_policy_and_belief_on_together(guarded: Cluster, tmp_path: Path) -> None:
    built = _built(guarded.kubectl, tmp_path)
    deployments = {each["metadata"]["name"]: each for each in built if each["kind"] == "Deployment"}
    workspace = deployments["magos-workspace"]
    (container,) = workspace["spec"]["template"]["spec"]["containers"]
    assert {"name": "MAGOS_VERIFIED_PRINCIPALS", "value": "true"} in container["env"]
    kinds = {each["kind"] for each in built}
    assert {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"} <= kinds
