"""Where a Workspace stands in one word: the second half of the key into the machine's table.

Situations are tried from top to bottom; the first that holds is the answer, so each may rely on the ones above it not
holding. The classification looks at the observation only and is total.
"""

from enum import StrEnum

from magos.api.annotations import APPROVED, execution_allowed
from magos.api.labels import FINALIZER
from magos.api.names import JobType
from magos.api.phases import RUNNING, TERMINAL, WITH_PLAN, Phase
from magos.reconcilers.workspace.evidence.leftovers import earlier_jobs, leftovers
from magos.reconcilers.workspace.evidence.progress import abandoned_jobs, has_ended, pod_started, running_type
from magos.reconcilers.workspace.evidence.triggers import JUDGED_AGAIN, amendment_cause, find_cause, refused_start
from magos.reconcilers.workspace.observation import Observation

__all__ = ["NO_RUN", "Situation", "phase_of", "situation_of"]

NO_RUN = ""
"""Stands in the table for a Workspace without a run: no phase yet, a phase it cannot be in, or no run named."""


class Situation(StrEnum):
    """See ``docs/design/workspace-machine.md``."""

    UNCERTAIN = "Uncertain"
    DELETING = "Deleting"
    REFUSED = "Refused"
    UNCLAIMED = "Unclaimed"
    JOB_PRESENT = "JobPresent"
    HALF_RESET = "HalfReset"
    LEFTOVERS = "Leftovers"
    ABANDONED = "Abandoned"
    REFUSED_START = "RefusedStart"
    TRIGGERED = "Triggered"
    GATED = "Gated"
    APPROVED = "Approved"
    FORBIDDEN = "Forbidden"
    PERMITTED = "Permitted"
    JOB_MISSING = "JobMissing"
    JOB_ENDED = "JobEnded"
    JOB_RUNNING = "JobRunning"
    JOB_UNSTARTED = "JobUnstarted"
    SETTLED = "Settled"


def phase_of(seen: Observation) -> Phase | str:
    """Return the phase as the table's key.

    A status that somebody else has written may claim a phase without the run that belongs to it, or one of another
    kind. Then there is no run: the checks of a start keep that safe whatever really runs.
    """
    phase = seen.phase
    if phase in RUNNING or phase in TERMINAL:
        return phase
    if (phase is Phase.PENDING or phase in WITH_PLAN) and seen.has_run:
        return phase
    return NO_RUN


def situation_of(seen: Observation) -> Situation:
    """Return the one situation that holds."""
    general = _general(seen)
    if general is not None:
        return general
    phase = phase_of(seen)
    if phase == NO_RUN:
        return Situation.TRIGGERED
    if phase in RUNNING:
        return _running(seen)
    if phase in TERMINAL:
        return _terminal(seen)
    return _waiting(seen)


def _general(seen: Observation) -> Situation | None:
    meta = seen.subject.metadata
    if seen.stale:
        return Situation.UNCERTAIN
    if meta.deletion_timestamp is not None:
        return Situation.DELETING
    if seen.refusal is not None or seen.failure is not None:
        return Situation.REFUSED
    if FINALIZER not in meta.finalizers:
        return Situation.UNCLAIMED
    return None


def _waiting(seen: Observation) -> Situation:
    """Pending, or a plan that waits to be applied."""
    pending = seen.phase is Phase.PENDING
    job = seen.job_named(seen.run.plan_job if pending else seen.run.apply_job)
    # A pod tells of a Job that was created and then deleted before status had seen it: it is not created again.
    if job is not None or seen.pods_of_run(running_type(seen)):
        return Situation.JOB_PRESENT
    if pending and earlier_jobs(seen):
        return Situation.HALF_RESET
    if (amendment_cause(seen) if pending else find_cause(seen)) is not None:
        return Situation.TRIGGERED
    annotations = seen.subject.metadata.annotations
    waiting = seen.subject.status.awaiting_approval
    if not pending and waiting is not None:
        approved = annotations.get(APPROVED) == waiting.run_id == seen.run_id
        return Situation.APPROVED if approved else Situation.GATED
    return Situation.PERMITTED if execution_allowed(annotations) else Situation.FORBIDDEN


def _running(seen: Observation) -> Situation:
    job_type = running_type(seen)
    job = seen.job_named(seen.run.plan_job if job_type is JobType.PLAN else seen.run.apply_job)
    if job is None:
        return Situation.JOB_MISSING
    pods = seen.pods_of_run(job_type)
    if has_ended(job, pods):
        return Situation.JOB_ENDED
    return Situation.JOB_RUNNING if any(map(pod_started, pods)) else Situation.JOB_UNSTARTED


def _terminal(seen: Observation) -> Situation:
    if leftovers(seen.subject):
        return Situation.LEFTOVERS
    if abandoned_jobs(seen):
        return Situation.ABANDONED
    if refused_start(seen) and seen.subject.status.reason in JUDGED_AGAIN:
        return Situation.REFUSED_START
    return Situation.TRIGGERED if find_cause(seen) is not None else Situation.SETTLED
