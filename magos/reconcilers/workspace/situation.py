"""Where a Workspace stands: in one word, the second half of the key into the machine's table, and by what it is seen.

Situations are tried from top to bottom; the first that holds is the answer, so each may rely on the ones above it not
holding. The classification looks at the observation only and is total. What it has found out goes to the handler with
the word, so that nothing is judged twice.
"""

from magos.api.annotations import APPROVED
from magos.api.labels import FINALIZER
from magos.api.names import JobType
from magos.api.phases import RUNNING, TERMINAL, WITH_PLAN, Phase
from magos.api.triggers import Trigger
from magos.reconcilers.permission import permitted
from magos.reconcilers.workspace.evidence.held import is_held, stray_jobs
from magos.reconcilers.workspace.evidence.interruptions import paused_until
from magos.reconcilers.workspace.evidence.leftovers import earlier_jobs, leftovers
from magos.reconcilers.workspace.evidence.progress import (
    abandoned_jobs,
    awaits_archive,
    has_ended,
    pod_started,
    running_type,
)
from magos.reconcilers.workspace.evidence.situations import (
    Abandoned,
    Approved,
    Denied,
    Found,
    HalfReset,
    JobEnded,
    JobHeld,
    JobMissing,
    JobPresent,
    JobRunning,
    JobUnstarted,
    Leftovers,
    Plain,
    RefusedStart,
    Situation,
    StrayJobs,
    Triggered,
)
from magos.reconcilers.workspace.evidence.triggers import (
    JUDGED_AGAIN,
    amendment_cause,
    find_cause,
    named_cause,
    refused_start,
)
from magos.reconcilers.workspace.observation import Observation

NO_RUN = ""
"""Stands in the table for a Workspace without a run: no phase yet, a phase it cannot be in, or no run named."""


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


def situation_of(seen: Observation) -> Found:
    """Return the one situation that holds, with what it was seen by."""
    general = _general(seen)
    if general is not None:
        return general
    phase = phase_of(seen)
    if phase == NO_RUN:
        return Triggered(cause=find_cause(seen) or named_cause(Trigger.UNKNOWN))
    strays = stray_jobs(seen)
    if strays:
        return StrayJobs(jobs=strays)
    if phase in RUNNING:
        return _running(seen)
    if phase in TERMINAL:
        return _terminal(seen)
    return _waiting(seen)


def _general(seen: Observation) -> Found | None:
    meta = seen.subject.metadata
    if seen.stale and seen.denial is None:  # what was refused is told first: a live read would let it be tried again
        return Plain(kind=Situation.UNCERTAIN)
    if meta.deletion_timestamp is not None:
        return Plain(kind=Situation.DELETING)
    if seen.denial is not None:
        return Denied(answer=seen.denial)
    if FINALIZER not in meta.finalizers:
        return Plain(kind=Situation.UNCLAIMED)
    return None


def _waiting(seen: Observation) -> Found:
    """Pending, or a plan that waits to be applied."""
    pending = seen.phase is Phase.PENDING
    job = seen.job_named(seen.run.plan_job if pending else seen.run.apply_job)
    if job is not None and is_held(job) and awaits_archive(job, seen.pods):
        job = None  # it goes without having started, so there is nothing to take over
    # A pod tells of a Job that was created and then deleted before status had seen it: it is not created again.
    if job is not None or seen.pods_of_run(running_type(seen)):
        return JobPresent(job=job)
    earlier = earlier_jobs(seen) if pending else ()
    if earlier:
        return HalfReset(jobs=earlier)
    cause = amendment_cause(seen) if pending else find_cause(seen)
    if cause is not None:
        return Triggered(cause=cause)
    if pending and paused_until(seen) is not None:
        return Plain(kind=Situation.PAUSED)
    annotations = seen.subject.metadata.annotations
    waiting = seen.subject.status.awaiting_approval
    if not pending and waiting is not None:
        approved = annotations.get(APPROVED) == waiting.run_id == seen.run_id
        return Approved(gate=waiting) if approved else Plain(kind=Situation.GATED)
    return Plain(kind=Situation.PERMITTED if permitted(seen.subject) else Situation.FORBIDDEN)


def _running(seen: Observation) -> Found:
    job_type = running_type(seen)
    job = seen.job_named(seen.run.plan_job if job_type is JobType.PLAN else seen.run.apply_job)
    pods = seen.pods_of_run(job_type)
    if job is not None and is_held(job) and job.metadata.deletion_timestamp is None:
        return JobHeld(job=job)
    if job is None:
        return JobMissing(pods=pods)
    if has_ended(job, pods):
        return JobEnded(job=job, pods=pods)
    return JobRunning(job=job, pods=pods) if any(map(pod_started, pods)) else JobUnstarted(job=job, pods=pods)


def _terminal(seen: Observation) -> Found:
    left = leftovers(seen.subject)
    if left:
        return Leftovers(annotations=left)
    abandoned = abandoned_jobs(seen)
    if abandoned:
        return Abandoned(jobs=abandoned)
    cause = find_cause(seen)
    if refused_start(seen) and seen.subject.status.reason in JUDGED_AGAIN:
        return RefusedStart(cause=cause)
    return Triggered(cause=cause) if cause is not None else Plain(kind=Situation.SETTLED)
