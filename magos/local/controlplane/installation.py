"""What an installation of Magos applies to a cluster, except what runs there: the programs run beside the cluster.

The manifests are the folders at the top of a checkout; an installed package carries copies.
"""

from pathlib import Path
from typing import Final

import yaml

import magos
from magos.errors import MagosError
from magos.local.controlplane.kubectl import Kubectl

APPLY: Final = ("apply", "--server-side", "--validate=false", "-f", "-")
"""kubectl's arguments for our own manifests; fetching the schemas to validate them would take a second each time."""

_PROGRAMS: Final = frozenset({"Deployment", "StatefulSet", "Job", "Service"})
"""Kinds of the base that stand for a program or its address."""

_POLICIES_CRD: Final = "kustomize/components/kyverno-crd/validatingpolicies.yaml"


def manifest_folder(name: str) -> Path:
    """Return the folder ``crds``, ``samples`` or ``deploy``; raise ``MagosError`` where the installation lacks it."""
    package = Path(str(magos.__file__)).parent
    for parent in (package / "manifests", package.parent):
        if (parent / name).is_dir():
            return parent / name
    raise MagosError(f"this installation of Magos has no folder {name}; reinstall the package or use a checkout")


def installation(kubectl: Kubectl) -> str:
    """Return the manifests of an installation as one text; needs no API server."""
    crds = kubectl.run("kustomize", str(manifest_folder("crds")))
    policies = (manifest_folder("deploy") / _POLICIES_CRD).read_text()
    base = kubectl.run("kustomize", str(manifest_folder("deploy") / "kustomize" / "base"))
    documents = [document for document in yaml.safe_load_all(base) if document]
    rest = yaml.safe_dump_all([document for document in documents if document["kind"] not in _PROGRAMS])
    return "\n---\n".join((crds, policies, rest))


def install(kubectl: Kubectl, manifests: str) -> None:
    """Apply ``manifests`` and wait until the API server serves the custom resources; raises ``KubectlFailed``."""
    kubectl.run(*APPLY, stdin=manifests)
    kubectl.run("wait", "--for=condition=Established", "crd", "--all")
