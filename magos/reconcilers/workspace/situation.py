"""Where a Workspace stands: in one word, the second half of the key into the machine's table, and by what it is seen.

Situations are tried from top to bottom; the first that holds is the answer, so each may rely on the ones above it not
holding. The classification looks at the observation only and is total. What it has found out goes to the handler with
the word, so that nothing is judged twice.
"""

from enum import StrEnum
from typing import ClassVar, TypeAlias

from msgspec import Struct

from magos.api.annotations import APPROVED, execution_allowed
from magos.api.kube import Job, Pod
from magos.api.labels import FINALIZER
from magos.api.names import JobType
from magos.api.phases import RUNNING, TERMINAL, WITH_PLAN, Phase
from magos.api.triggers import Trigger
from magos.api.workspace import AwaitingApproval
from magos.reconcilers.workspace.evidence.leftovers import earlier_jobs, leftovers
from magos.reconcilers.workspace.evidence.progress import abandoned_jobs, has_ended, pod_started, running_type
from magos.reconcilers.workspace.evidence.triggers import (
    JUDGED_AGAIN,
    Cause,
    amendment_cause,
    find_cause,
    named_cause,
    refused_start,
)
from magos.reconcilers.workspace.observation import Observation

__all__ = [
    "NO_RUN",
    "Abandoned",
    "Approved",
    "Found",
    "HalfReset",
    "JobEnded",
    "JobMissing",
    "JobPresent",
    "JobRunning",
    "JobUnstarted",
    "Leftovers",
    "Plain",
    "RefusedStart",
    "Situation",
    "Triggered",
    "phase_of",
    "situation_of",
]

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


class Plain(Struct, frozen=True, kw_only=True):
    """A situation that the observation alone explains."""

    kind: Situation


class JobPresent(Struct, frozen=True, kw_only=True):
    """The Job of the waiting run is there; None if only its pod is."""

    kind: ClassVar[Situation] = Situation.JOB_PRESENT
    job: Job | None


class HalfReset(Struct, frozen=True, kw_only=True):
    """Jobs of earlier runs that a reset has left."""

    kind: ClassVar[Situation] = Situation.HALF_RESET
    jobs: tuple[Job, ...]


class Leftovers(Struct, frozen=True, kw_only=True):
    """Keys of annotations that a Workspace in a terminal phase must not carry."""

    kind: ClassVar[Situation] = Situation.LEFTOVERS
    annotations: tuple[str, ...]


class Abandoned(Struct, frozen=True, kw_only=True):
    """Jobs whose start was given up."""

    kind: ClassVar[Situation] = Situation.ABANDONED
    jobs: tuple[Job, ...]


class RefusedStart(Struct, frozen=True, kw_only=True):
    """The last start was refused and may be judged again; ``cause`` is what calls for a run besides."""

    kind: ClassVar[Situation] = Situation.REFUSED_START
    cause: Cause | None


class Triggered(Struct, frozen=True, kw_only=True):
    """Something calls for a run, or for the amendment of the one that waits."""

    kind: ClassVar[Situation] = Situation.TRIGGERED
    cause: Cause


class Approved(Struct, frozen=True, kw_only=True):
    """Exactly this run is approved; ``gate`` is what it waited at."""

    kind: ClassVar[Situation] = Situation.APPROVED
    gate: AwaitingApproval


class JobMissing(Struct, frozen=True, kw_only=True):
    """The Job that status names is not there; its pods may be."""

    kind: ClassVar[Situation] = Situation.JOB_MISSING
    pods: tuple[Pod, ...]


class _OfJob(Struct, frozen=True, kw_only=True):
    job: Job
    pods: tuple[Pod, ...]


class JobEnded(_OfJob, frozen=True, kw_only=True):
    """The Job of the phase has ended."""

    kind: ClassVar[Situation] = Situation.JOB_ENDED


class JobRunning(_OfJob, frozen=True, kw_only=True):
    """A container of the Job has started, and the Job has not ended."""

    kind: ClassVar[Situation] = Situation.JOB_RUNNING


class JobUnstarted(_OfJob, frozen=True, kw_only=True):
    """No container of the Job has started."""

    kind: ClassVar[Situation] = Situation.JOB_UNSTARTED


Found: TypeAlias = (
    Plain
    | JobPresent
    | HalfReset
    | Leftovers
    | Abandoned
    | RefusedStart
    | Triggered
    | Approved
    | JobMissing
    | JobEnded
    | JobRunning
    | JobUnstarted
)
"""A situation with its evidence; ``kind`` is its word."""


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
    if phase in RUNNING:
        return _running(seen)
    if phase in TERMINAL:
        return _terminal(seen)
    return _waiting(seen)


def _general(seen: Observation) -> Found | None:
    meta = seen.subject.metadata
    if seen.stale:
        return Plain(kind=Situation.UNCERTAIN)
    if meta.deletion_timestamp is not None:
        return Plain(kind=Situation.DELETING)
    if seen.refusal is not None or seen.failure is not None:
        return Plain(kind=Situation.REFUSED)
    if FINALIZER not in meta.finalizers:
        return Plain(kind=Situation.UNCLAIMED)
    return None


def _waiting(seen: Observation) -> Found:
    """Pending, or a plan that waits to be applied."""
    pending = seen.phase is Phase.PENDING
    job = seen.job_named(seen.run.plan_job if pending else seen.run.apply_job)
    # A pod tells of a Job that was created and then deleted before status had seen it: it is not created again.
    if job is not None or seen.pods_of_run(running_type(seen)):
        return JobPresent(job=job)
    earlier = earlier_jobs(seen) if pending else ()
    if earlier:
        return HalfReset(jobs=earlier)
    cause = amendment_cause(seen) if pending else find_cause(seen)
    if cause is not None:
        return Triggered(cause=cause)
    annotations = seen.subject.metadata.annotations
    waiting = seen.subject.status.awaiting_approval
    if not pending and waiting is not None:
        approved = annotations.get(APPROVED) == waiting.run_id == seen.run_id
        return Approved(gate=waiting) if approved else Plain(kind=Situation.GATED)
    return Plain(kind=Situation.PERMITTED if execution_allowed(annotations) else Situation.FORBIDDEN)


def _running(seen: Observation) -> Found:
    job_type = running_type(seen)
    job = seen.job_named(seen.run.plan_job if job_type is JobType.PLAN else seen.run.apply_job)
    pods = seen.pods_of_run(job_type)
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
