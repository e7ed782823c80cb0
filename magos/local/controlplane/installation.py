"""Magos as it is installed on a cluster, but for the Deployments: the programs run beside the cluster."""

from typing import Final

import yaml

from magos.local.controlplane.kubectl import Kubectl
from magos.local.controlplane.manifests import manifest_folder

__all__ = ["APPLY", "install", "installation"]

APPLY: Final = ("apply", "--server-side", "--validate=false", "-f", "-")
"""kubectl's arguments for what is shipped and has its tests: that it fetches all schemas first would take a second."""

_POLICIES_CRD: Final = "kustomize/components/kyverno-crd/validatingpolicies.yaml"


def installation(kubectl: Kubectl) -> str:
    """Return what an installation applies, as one text; needs no API server."""
    crds = kubectl.run("kustomize", str(manifest_folder("crds")))
    policies = (manifest_folder("deploy") / _POLICIES_CRD).read_text()
    base = kubectl.run("kustomize", str(manifest_folder("deploy") / "kustomize" / "base"))
    documents = [document for document in yaml.safe_load_all(base) if document]
    rest = yaml.safe_dump_all([document for document in documents if document["kind"] != "Deployment"])
    return "\n---\n".join((crds, policies, rest))


def install(kubectl: Kubectl, manifests: str) -> None:
    """Apply ``manifests`` and wait until the API server serves the custom resources; ``KubectlFailed``."""
    kubectl.run(*APPLY, stdin=manifests)
    kubectl.run("wait", "--for=condition=Established", "crd", "--all")
