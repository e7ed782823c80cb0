"""The kind ValidatingPolicy as the component brings it, on the real API server, and what Magos reads of it."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from magos.api.project import PROJECTS, Project
from magos.api.selectors import compile_selector
from magos.api.validatingpolicy import VALIDATING_POLICIES, ValidatingPolicy, policy_text, read_policy
from magos.errors import MagosError
from magos.reconcilers.workspace.inputs.policies import select_policies
from tests.envtest.cluster import Cluster, eventually

_ROOT = Path(__file__).parents[2]
_COMPONENT = _ROOT / "deploy" / "kustomize" / "components" / "kyverno-crd"
_SAMPLES = _ROOT / "samples"
_GROUP = "/apis/policies.kyverno.io"
_EVERYTHING: dict[str, Any] = {
    "evaluation": {"mode": "JSON", "admission": {"enabled": False}, "background": {"enabled": True}},
    "failurePolicy": "Ignore",
    "matchConditions": [{"name": "c", "expression": "true"}],
    "matchConstraints": {"resourceRules": [{"apiGroups": [""], "operations": ["CREATE"], "resources": ["pods"]}]},
    "variables": [{"name": "v", "expression": "1"}],
    "validations": [{"expression": "true", "message": "m\n---\n1e3", "messageExpression": "'x'", "reason": "Invalid"}],
    "auditAnnotations": [{"key": "k", "valueExpression": "'v'"}],
    "validationActions": ["Audit", "Deny"],
    "webhookConfiguration": {"timeoutSeconds": 5},
    "autogen": {"podControllers": {"controllers": ["jobs"]}, "validatingAdmissionPolicy": {"enabled": False}},
}


@pytest.fixture(scope="module")
def cluster(control_plane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The control plane with the component applied, twice, in the way its own comment describes."""
    folder = tmp_path_factory.mktemp("kyverno")
    content = {"kind": "Kustomization", "components": [os.path.relpath(_COMPONENT, folder)]}
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(content))
    control_plane.kubectl.run("apply", f"--kustomize={folder}")
    assert control_plane.kubectl.run("apply", f"--kustomize={folder}").strip().endswith(" unchanged")
    control_plane.kubectl.run("wait", "--for=condition=Established", "crd/validatingpolicies.policies.kyverno.io")
    eventually(lambda: "validatingpolicies" in control_plane.kubectl.run("api-resources", "--categories=kyverno"))
    yield control_plane
    control_plane.kubectl.run("delete", "validatingpolicies", "--all")


def manifest(name: str, version: str = "v1", **spec: object) -> dict[str, Any]:
    return {
        "apiVersion": f"policies.kyverno.io/{version}",
        "kind": "ValidatingPolicy",
        "metadata": {"name": name, "labels": {"team": "a"}},
        "spec": spec,
    }


def create(cluster: Cluster, written: dict[str, Any]) -> Any:
    version = written["apiVersion"].rpartition("/")[2]
    return cluster.request("POST", f"{_GROUP}/{version}/validatingpolicies", written)


def read(cluster: Cluster, name: str) -> ValidatingPolicy:
    path = f"/apis/{VALIDATING_POLICIES.api_version}/{VALIDATING_POLICIES.plural}/{name}"
    return msgspec.convert(cluster.request("GET", path), ValidatingPolicy)


def test_three_versions_are_served_and_one_is_stored(cluster: Cluster) -> None:
    definition = cluster.request(
        "GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/validatingpolicies.policies.kyverno.io"
    )["spec"]
    assert definition["scope"] == "Cluster"
    assert (definition["names"]["shortNames"], definition["names"]["categories"]) == (["vpol"], ["kyverno"])
    served = {each["name"]: (each["served"], each["storage"]) for each in definition["versions"]}
    assert served == {"v1": (True, False), "v1alpha1": (True, False), "v1beta1": (True, True)}
    schemas = [each["schema"] for each in definition["versions"]]
    assert schemas[0] == schemas[1] == schemas[2]


@pytest.mark.parametrize("version", ["v1", "v1alpha1", "v1beta1"])
def test_a_policy_of_any_version_is_read_whole(cluster: Cluster, version: str) -> None:
    create(cluster, manifest(f"whole-{version}", version, **_EVERYTHING))
    policy = read(cluster, f"whole-{version}")
    assert policy.spec == _EVERYTHING
    assert (policy.mode, policy.action) == ("JSON", "Deny")
    assert read_policy(policy_text(policy)).spec == _EVERYTHING


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"validationActions": ["deny"]}, "validationActions"),
        ({"validationActions": ["Deny", "Deny"]}, "Duplicate value"),
        ({"validations": [{"message": "m"}]}, "validations.*expression"),
        ({"failurePolicy": "Maybe"}, "failurePolicy"),
    ],
)
def test_what_is_no_policy_is_refused(cluster: Cluster, changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(MagosError, match=problem):
        create(cluster, manifest("refused", **(_EVERYTHING | changes)))


def test_the_samples_apply_and_their_project_selects_their_policies(cluster: Cluster, namespace: str) -> None:
    names = {path.name for path in (_SAMPLES / "policies").glob("*.yaml")} - {"project.yaml"}
    files = [f"--filename={_SAMPLES / 'policies' / name}" for name in sorted(names)]
    cluster.kubectl.run("apply", *files)
    again = cluster.kubectl.run("apply", *files).splitlines()
    assert [line for line in again if not line.endswith(" unchanged")] == []
    written = yaml.safe_load((_SAMPLES / "policies" / "project.yaml").read_text())
    written["metadata"]["namespace"] = namespace
    path = f"/apis/{PROJECTS.api_version}/namespaces/{namespace}/{PROJECTS.plural}"
    validation = msgspec.convert(cluster.request("POST", path, written), Project).spec.validation
    assert validation is not None
    assert validation.policy_selector is not None
    listed = cluster.request("GET", f"{_GROUP}/v1/validatingpolicies")["items"]
    policies = [msgspec.convert(item, ValidatingPolicy) for item in listed]
    assert set(select_policies(compile_selector(validation.policy_selector), policies).files) == names
