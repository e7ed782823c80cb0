"""The situations a Workspace can be in: the word of each, and what it is seen by, for whoever acts in it."""

from enum import StrEnum
from typing import ClassVar, TypeAlias

from msgspec import Struct

from magos.api.kube import Job, Pod
from magos.api.workspace import AwaitingApproval
from magos.reconcilers.workspace.evidence.triggers import Cause
from magos.runtime.decision import QueryFailure, Refusal


class Situation(StrEnum):
    """See ``docs/design/workspace-machine.md``."""

    UNCERTAIN = "Uncertain"
    DELETING = "Deleting"
    REFUSED = "Refused"
    UNCLAIMED = "Unclaimed"
    JOB_PRESENT = "JobPresent"
    HALF_RESET = "HalfReset"
    STRAY_JOBS = "StrayJobs"
    JOB_HELD = "JobHeld"
    LEFTOVERS = "Leftovers"
    ABANDONED = "Abandoned"
    REFUSED_START = "RefusedStart"
    TRIGGERED = "Triggered"
    PAUSED = "Paused"
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


class Denied(Struct, frozen=True, kw_only=True):
    """The API server has refused an effect, or an answer, for good."""

    kind: ClassVar[Situation] = Situation.REFUSED
    answer: Refusal | QueryFailure


class JobPresent(Struct, frozen=True, kw_only=True):
    """The Job of the waiting run is there; None if only its pod is."""

    kind: ClassVar[Situation] = Situation.JOB_PRESENT
    job: Job | None


class HalfReset(Struct, frozen=True, kw_only=True):
    """Jobs of earlier runs that a reset has left."""

    kind: ClassVar[Situation] = Situation.HALF_RESET
    jobs: tuple[Job, ...]


class StrayJobs(Struct, frozen=True, kw_only=True):
    """Jobs that may never start: held, and not the one that status names."""

    kind: ClassVar[Situation] = Situation.STRAY_JOBS
    jobs: tuple[Job, ...]


class JobHeld(Struct, frozen=True, kw_only=True):
    """The apply Job that status names has not been let go yet."""

    kind: ClassVar[Situation] = Situation.JOB_HELD
    job: Job


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
    """The Job of the phase has ended, or somebody deletes it and its pods have ended."""

    kind: ClassVar[Situation] = Situation.JOB_ENDED


class JobRunning(_OfJob, frozen=True, kw_only=True):
    """A container of the Job has started, and the Job has not ended."""

    kind: ClassVar[Situation] = Situation.JOB_RUNNING


class JobUnstarted(_OfJob, frozen=True, kw_only=True):
    """No container of the Job has started."""

    kind: ClassVar[Situation] = Situation.JOB_UNSTARTED


Found: TypeAlias = (
    Plain
    | Denied
    | JobPresent
    | HalfReset
    | StrayJobs
    | JobHeld
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
