"""Fixtures of the tests that need a real API server.

Without a control plane these tests fail: a silent skip would read as proof. ``MAGOS_ENVTEST=off`` skips them on
purpose.
"""

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from magos.local.controlplane.kubectl import Kubectl
from tests.envtest.cluster import Cluster, started_cluster

_CRDS = Path(__file__).parents[2] / "crds"


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One control plane for the whole session, with Magos' CRDs established."""
    if os.environ.get("MAGOS_ENVTEST") == "off":
        pytest.skip("MAGOS_ENVTEST=off")
    with started_cluster(tmp_path_factory.mktemp("control-plane")) as cluster:
        definitions = sorted(path for path in _CRDS.glob("*.yaml") if path.name != "kustomization.yaml")
        if definitions:
            cluster.kubectl.run("apply", "--server-side", *(f"--filename={path}" for path in definitions))
            cluster.kubectl.run(
                "wait", "--for=condition=Established", "--timeout=60s", "customresourcedefinition", "--all"
            )
        yield cluster


@pytest.fixture(scope="session")
def kubeconfig(control_plane: Cluster) -> Path:
    """The administrator's kubeconfig."""
    return control_plane.kubeconfig


@pytest.fixture(scope="session")
def kubectl(control_plane: Cluster) -> Kubectl:
    """kubectl as the administrator."""
    return control_plane.kubectl


@pytest.fixture
def namespace(control_plane: Cluster) -> Iterator[str]:
    """A namespace of the test's own, marked for deletion at its end."""
    name = f"test-{secrets.token_hex(4)}"
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    control_plane.request("POST", "/api/v1/namespaces", manifest)
    yield name
    control_plane.request("DELETE", f"/api/v1/namespaces/{name}")
