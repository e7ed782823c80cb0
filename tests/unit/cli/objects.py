"""Objects as the command line reads them."""

from magos.api.meta import ObjectMeta
from magos.api.phases import Phase
from magos.api.rollout import Rollout, RolloutSpec, RolloutStatus, RolloutStrategy
from magos.api.status import NameReference
from magos.api.tool import Distribution
from magos.api.workspace import Source, Terraform, Workspace, WorkspaceSpec, WorkspaceStatus

__all__ = ["rollout", "workspace"]


def workspace(name: str, phase: Phase, reason: str = "", message: str = "", revision: str = "") -> Workspace:
    """Return a Workspace of Project ``shop`` with this status."""
    spec = WorkspaceSpec(
        project_ref=NameReference(name="shop"),
        source=Source(repo_url="https://git.example/r", target_revision="main", path=f"env/{name}"),
        terraform=Terraform(version="1.12.6", distribution=Distribution.OPENTOFU),
    )
    status = WorkspaceStatus(phase=phase, reason=reason, message=message, observed_revision=revision)
    return Workspace(metadata=ObjectMeta(name=name), spec=spec, status=status)


def rollout(reason: str) -> Rollout:
    """Return the Rollout ``shop`` with this reason."""
    spec = RolloutSpec(project_ref="shop", strategy=RolloutStrategy(steps=()))
    return Rollout(metadata=ObjectMeta(name="shop"), spec=spec, status=RolloutStatus(reason=reason))
