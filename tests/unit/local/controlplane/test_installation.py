"""The manifests of an installation."""

from pathlib import Path

import pytest
import yaml

from magos.errors import MagosError
from magos.local.controlplane.installation import installation, manifest_folder
from magos.local.controlplane.kubectl import Kubectl, find_kubectl


@pytest.mark.parametrize("name", ["crds", "samples", "deploy"])
def test_a_checkout_has_every_folder_of_manifests(name: str) -> None:
    assert any(manifest_folder(name).iterdir())


def test_a_missing_folder_is_an_error_with_the_next_step() -> None:
    with pytest.raises(MagosError, match=r"has no folder charts; reinstall the package or use a checkout"):
        manifest_folder("charts")


def test_what_runs_on_a_cluster_is_not_applied_but_its_accounts_and_rights_are(tmp_path: Path) -> None:
    kubectl = Kubectl(find_kubectl(), tmp_path / "none")
    applied = {(each["kind"], each["metadata"]["name"]) for each in yaml.safe_load_all(installation(kubectl))}
    assert {kind for kind, _ in applied}.isdisjoint({"Deployment", "StatefulSet", "Job", "Pod", "Service"})
    assert {("ServiceAccount", "magos-api"), ("ClusterRoleBinding", "magos-api")} <= applied
    assert ("CustomResourceDefinition", "workspaces.magosproject.io") in applied
