"""Somebody who may only edit Workspaces and Projects tries to run code with rights of others; on a real API server.

The controllers run under the accounts that the base gives them, and the attacker under one of his own.
"""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from magos.api.labels import RUNNER, WORKSPACE
from magos.api.names import JobType
from magos.errors import MagosError
from magos.local.controlplane.kubectl import Kubectl, KubectlFailed, find_kubectl
from tests.envtest.cluster import Cluster, eventually
from tests.envtest.workspaces import GROUP, NODE, SYSTEM, Stage, controllers

PLAN, APPLY = JobType.PLAN, JobType.APPLY
_RBAC = "/apis/rbac.authorization.k8s.io/v1"

Json = dict[str, Any]


@pytest.fixture(scope="module")
def magos(control_plane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The controllers that a run needs, and a node for the pods."""
    control_plane.request("POST", "/api/v1/nodes", {"metadata": {"name": NODE}})
    with controllers(control_plane, tmp_path_factory.mktemp("magos"), "workspace", "project"):
        yield control_plane
    control_plane.request("DELETE", f"/api/v1/nodes/{NODE}")


@pytest.fixture
def stage(magos: Cluster, namespace: str) -> Stage:
    """A namespace in which permission is the test's to give."""
    return Stage(magos, namespace)


@pytest.fixture
def attacker(stage: Stage, tmp_path: Path) -> Kubectl:
    """kubectl of an account that may edit Workspaces and Projects, here and beside the controllers; no more."""
    cluster, name = stage.cluster, f"attacker-{stage.namespace}"
    stage.account("attacker", runner=False)
    rule = {"apiGroups": ["magosproject.io"], "resources": ["workspaces", "projects"], "verbs": ["*"]}
    subject = {"kind": "ServiceAccount", "name": "attacker", "namespace": stage.namespace}
    for namespace in (stage.namespace, SYSTEM):
        cluster.request("POST", f"{_RBAC}/namespaces/{namespace}/roles", {"metadata": {"name": name}, "rules": [rule]})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
        binding = {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]}
        cluster.request("POST", f"{_RBAC}/namespaces/{namespace}/rolebindings", binding)
    kubeconfig = cluster.service_account_kubeconfig(stage.namespace, "attacker", tmp_path / "attacker.kubeconfig")
    return Kubectl(find_kubectl(), kubeconfig)


def workspace(namespace: str, account: str) -> str:
    """Return the manifest of a Workspace that gives itself permission."""
    annotations = {"magosproject.io/detected-revision": "a" * 40}
    spec = {
        "projectRef": {"name": "platform"},
        "source": {"repoURL": "https://git.example.com/evil.git", "targetRevision": "main"},
        "terraform": {"version": "1.9.8"},
        "serviceAccountName": account,
    }
    metadata = {"name": "ws", "namespace": namespace, "annotations": annotations}
    return yaml.safe_dump(
        {"apiVersion": "magosproject.io/v1alpha1", "kind": "Workspace", "metadata": metadata, "spec": spec}
    )


def permit(kubectl: Kubectl, namespace: str) -> None:
    kubectl.run("annotate", "workspace", "ws", f"--namespace={namespace}", "magosproject.io/execution-allowed=true")


def test_the_controllers_accounts_are_out_of_reach_of_whoever_may_edit_workspaces_beside_them(
    stage: Stage, attacker: Kubectl
) -> None:
    path = f"{GROUP}/namespaces/{SYSTEM}/workspaces/ws"

    def status() -> Json:
        found: Json = stage.cluster.request("GET", path).get("status", {})
        return found

    attacker.run("apply", "--filename=-", stdin=workspace(SYSTEM, "magos-workspace"))
    try:
        eventually(lambda: status().get("phase") == "Pending")
        permit(attacker, SYSTEM)
        eventually(lambda: status().get("reason") == "NamespaceNotAllowed")
        assert status()["phase"] == "Failed"
        runs = f"/apis/batch/v1/namespaces/{SYSTEM}/jobs?labelSelector={WORKSPACE}"
        assert stage.cluster.request("GET", runs)["items"] == []
    finally:
        stage.cluster.request("DELETE", path)


def test_a_strong_account_is_used_only_after_somebody_who_may_has_labelled_it(stage: Stage, attacker: Kubectl) -> None:
    stage.account("deployer", runner=False)
    attacker.run("apply", "--filename=-", stdin=workspace(stage.namespace, "deployer"))
    stage.reaches("Pending")
    permit(attacker, stage.namespace)
    message = stage.reaches("Failed", "ServiceAccountNotAllowed").status.message
    assert stage.jobs() == []
    command = re.search(r"`kubectl (.*)`", message)
    assert command is not None, message
    with pytest.raises(KubectlFailed, match="orbidden"):
        attacker.run(*shlex.split(command[1]))
    stage.cluster.kubectl.run(*shlex.split(command[1]))
    stage.reaches("Pending")
    permit(attacker, stage.namespace)
    name = stage.starts(PLAN).metadata.name
    pod = stage.cluster.request("GET", f"/api/v1/namespaces/{stage.namespace}/pods/{name}")
    assert pod["spec"]["serviceAccountName"] == "deployer"


def test_a_missing_account_is_told_before_anything_is_created_and_heals_by_itself(stage: Stage) -> None:
    stage.declare(serviceAccountName="nobody")
    stage.reaches("Pending")
    stage.annotate(execution_allowed="true")
    found = stage.reaches("Failed", "ServiceAccountNotFound")
    assert f"ServiceAccount {stage.namespace}/nobody does not exist" in found.status.message
    assert stage.jobs() == []
    stage.account("nobody", runner=True)
    stage.reaches("Pending")


def test_an_account_that_loses_its_label_after_the_plan_applies_nothing_until_it_is_back(stage: Stage) -> None:
    path = f"/api/v1/namespaces/{stage.namespace}/serviceaccounts/magos-job"

    def label(value: str | None) -> None:
        account = stage.cluster.request("GET", path)
        labels = {} if value is None else {RUNNER: value}
        stage.cluster.request("PUT", path, {**account, "metadata": {**account["metadata"], "labels": labels}})

    stage.declare()
    stage.reaches("Pending")
    stage.annotate(execution_allowed="true")
    stage.starts(PLAN)
    label(None)
    stage.ends(PLAN)
    run = stage.reaches("Planned", "ServiceAccountNotAllowed").status.current_run_id
    assert len(stage.jobs()) == 1
    label("true")
    stage.applies()
    assert stage.run_id == run


def test_the_api_server_refuses_what_is_no_name_of_an_account(stage: Stage) -> None:
    with pytest.raises(MagosError, match="serviceAccountName must be the name of a ServiceAccount"):
        stage.declare(serviceAccountName="../secrets")
