"""Which phase may follow which is one table, and a status that breaks it is never written."""

import itertools

import pytest
from msgspec.structs import replace

from magos.api.labels import FINALIZER
from magos.api.phases import WORKSPACE_TRANSITIONS, Phase, may_follow
from magos.api.reasons import WORKSPACE_REASONS
from magos.api.timestamps import format_time
from magos.api.workspace import WORKSPACES, Workspace
from magos.errors import InvariantViolation
from magos.reconcilers.workspace.machine import reconcile
from magos.reconcilers.workspace.move import Move, conclude, to
from magos.reconcilers.workspace.observation import Observation
from magos.runtime.decision import AddFinalizer, Refusal
from tests.unit.reconcilers.cluster import Cluster
from tests.unit.reconcilers.model import NAME, NAMESPACE, SETTINGS, workspace_manifest

PAIRS = [(before, after) for before in (None, *Phase) for after in WORKSPACE_REASONS]
REFUSAL = Refusal(
    effect=AddFinalizer(kind=WORKSPACES, namespace=NAMESPACE, name=NAME, resource_version="1", finalizer=FINALIZER),
    code=403,
    reason="Forbidden",
    message="no",
)


def observation(workspace: Workspace, **changes: object) -> Observation:
    seen = Observation(now=Cluster().now, settings=SETTINGS, entropy=bytes(4), workspace=workspace)
    return replace(seen, **changes)


def in_phase(workspace: Workspace, phase: Phase | None, *, deleted: bool = False) -> Workspace:
    when = format_time(Cluster().now) if deleted else None
    meta = replace(workspace.metadata, finalizers=(FINALIZER,), deletion_timestamp=when)
    return replace(workspace, metadata=meta, status=replace(workspace.status, phase=phase, reason="Whatever"))


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_only_a_listed_transition_is_concluded(before: Phase | None, after: Phase) -> None:
    deleted = before is Phase.DELETING
    seen = observation(in_phase(workspace_manifest(), before, deleted=deleted))
    move = Move(status=to(seen, after, min(WORKSPACE_REASONS[after]), "something"))
    if may_follow(before if before in WORKSPACE_TRANSITIONS else None, after):
        assert conclude(seen, move).status is not None
    else:
        with pytest.raises(InvariantViolation, match=f"Workspace {NAMESPACE}/{NAME}: phase {after} must not follow"):
            conclude(seen, move)


@pytest.mark.parametrize("phase", [None, *Phase])
@pytest.mark.parametrize("deleted", [False, True])
@pytest.mark.parametrize("refusal", [None, REFUSAL])
def test_no_phase_that_anybody_has_written_leads_to_an_unlisted_transition(
    phase: Phase | None, deleted: bool, refusal: Refusal | None
) -> None:
    """With a run and without one, whatever is known: a stranger's status stops no controller (I17)."""
    cluster = Cluster()
    cluster.to_applied()
    for workspace in (workspace_manifest(), cluster.workspace):
        found = in_phase(workspace, phase, deleted=deleted)
        for live, complete in itertools.product((False, True), (False, True)):
            reconcile(observation(found, refusal=refusal, live=live, complete=complete and live))
