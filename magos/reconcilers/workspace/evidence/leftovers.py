"""What a finished run leaves on the Workspace and what earlier runs leave in the cluster: all that is still to go."""

from magos.api.annotations import (
    APPROVAL,
    DETECTED_REVISION,
    DETECTED_SOURCE,
    PERMISSION,
    RECONCILE_REQUEST,
    REQUESTED_BY,
    reconcile_request,
)
from magos.api.kube import Job
from magos.api.labels import JOB_TYPE, RUN_ID
from magos.api.names import JobType
from magos.api.phases import Phase
from magos.api.workspace import Workspace, WorkspaceStatus
from magos.reconcilers.revisions import detected_revision
from magos.reconcilers.workspace.evidence.held import is_held
from magos.reconcilers.workspace.observation import Observation


def leftovers(workspace: Workspace, status: WorkspaceStatus | None = None) -> tuple[str, ...]:
    """Return the annotations that a Workspace in a terminal phase must no longer carry.

    ``status`` is the status that is just being written, by default the one that is there.
    """
    status = status or workspace.status
    values = workspace.metadata.annotations
    keys = [*PERMISSION, *APPROVAL]
    request = status.current_run.request if status.current_run is not None else ""
    if request and reconcile_request(values) == request:
        keys += [RECONCILE_REQUEST, REQUESTED_BY]
    detected = detected_revision(workspace)
    if status.phase is Phase.APPLIED and detected and detected == status.observed_revision:
        keys += [DETECTED_REVISION, DETECTED_SOURCE]
    return tuple(key for key in keys if key in values)


def deletable_jobs(seen: Observation) -> tuple[Job, ...]:
    """Return our Jobs, of whichever run, that a reset may delete."""
    return tuple(job for job in seen.own_jobs if _deletable(job))


def earlier_jobs(seen: Observation) -> tuple[Job, ...]:
    """Return our Jobs of other runs than the current one that are still to be deleted."""
    return tuple(job for job in deletable_jobs(seen) if job.metadata.labels.get(RUN_ID) != seen.run_id)


def _deletable(job: Job) -> bool:
    """A Job that is not going already; an apply that has not ended is nobody's to delete (invariant I9)."""
    applying = job.metadata.labels.get(JOB_TYPE) != JobType.PLAN
    return job.metadata.deletion_timestamp is None and (job.ended or not applying or is_held(job))
