"""What a finished run leaves on the Workspace, and its removal (spec §6.2.9, step 2).

One conditional patch behind the status that makes it right; whatever a crash leaves is removed by any later pass.
"""

from magos.api.annotations import (
    APPROVED,
    APPROVED_BY,
    DETECTED_REVISION,
    DETECTED_SOURCE,
    EXECUTION_ALLOWED,
    RECONCILE_REQUEST,
    REQUESTED_BY,
    reconcile_request,
)
from magos.api.phases import Phase
from magos.api.workspace import Workspace, WorkspaceStatus
from magos.reconcilers.revisions import detected_revision
from magos.reconcilers.workspace.handlers.reset import remove_annotations
from magos.reconcilers.workspace.move import Move
from magos.reconcilers.workspace.observation import Observation

__all__ = ["clean_up", "leftovers"]


def leftovers(workspace: Workspace, status: WorkspaceStatus | None = None) -> tuple[str, ...]:
    """Return the annotations that a Workspace in a terminal phase must no longer carry.

    ``status`` is the status that is just being written, by default the one that is there.
    """
    status = status or workspace.status
    values = workspace.metadata.annotations
    keys = [EXECUTION_ALLOWED, APPROVED, APPROVED_BY]
    request = status.current_run.request if status.current_run is not None else ""
    if request and reconcile_request(values) == request:
        keys += [RECONCILE_REQUEST, REQUESTED_BY]
    detected = detected_revision(workspace)
    if status.phase is Phase.APPLIED and detected and detected == status.observed_revision:
        keys += [DETECTED_REVISION, DETECTED_SOURCE]
    return tuple(key for key in keys if key in values)


def clean_up(seen: Observation) -> Move:
    """Remove what is left."""
    return Move(effects=remove_annotations(seen, *leftovers(seen.subject)))
