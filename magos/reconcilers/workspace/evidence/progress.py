"""How far a Job of the Workspace is: whether a container of it has started, whether it has ended, who needs it.

A start may take ``MAGOS_JOB_START_TIMEOUT`` (spec §6.2.9). After that it is given up, whoever waits for it: the run, or
the deletion of the Workspace. It counts from the Job's creation. Where that cannot be believed, as the clock was set
back, it counts from a mark on the Job that says when it was seen; so it ends whatever the clocks do.
"""

from datetime import datetime, timedelta

from msgspec import Struct

from magos.api.annotations import RECORD
from magos.api.kube import Job, Pod
from magos.api.labels import ARCHIVE_FINALIZER, FOREGROUND
from magos.api.meta import controller_of
from magos.api.names import JobType
from magos.api.phases import WITH_PLAN, Phase
from magos.durations import format_duration
from magos.reconcilers.storedtimes import begun_at, mark_seen
from magos.reconcilers.workspace.observation import Observation
from magos.reconcilers.workspace.pod.record import decode_record
from magos.runtime.decision import Effect

_PATIENCE = timedelta(seconds=10)
"""An ordinary start takes this long; only then is a cause looked for and shown."""

_LOOK_AGAIN = timedelta(seconds=15)


class Unstarted(Struct, frozen=True, kw_only=True):
    """Where a Job stands of which no container has started.

    ``early``: nothing is odd yet. ``expired``: the start is to be given up. ``again_at`` is when the next look is
    due, None once the start has expired.
    """

    early: bool
    expired: bool
    again_at: datetime | None
    given_up: str
    """The beginning of what is said when the start is given up."""

    mark: tuple[Effect, ...] = ()
    """The write that says on the Job when it was seen, where nothing that is believed says when the start began."""


def running_type(seen: Observation) -> JobType:
    """Return which Job the current phase is about."""
    return JobType.APPLY if seen.phase is Phase.APPLYING or seen.phase in WITH_PLAN else JobType.PLAN


def pod_started(pod: Pod) -> bool:
    """True once any container of the pod has run."""
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return any(each.state.running is not None or each.state.terminated is not None for each in statuses)


def has_ended(job: Job, pods: tuple[Pod, ...]) -> bool:
    """Only conditions say that a Job ended, never its counters; a Job that is being deleted ends with its pod."""
    return job.ended or (job.metadata.deletion_timestamp is not None and all(pod.ended for pod in pods))


def awaits_archive(job: Job, pods: tuple[Pod, ...]) -> bool:
    """True for a deleted Job that is there for the archive alone: it has no pod that works and gets none any more."""
    meta = job.metadata
    kept = meta.deletion_timestamp is not None and ARCHIVE_FINALIZER in meta.finalizers
    return kept and FOREGROUND not in meta.finalizers and all(pod.ended for pod in pods if is_of(pod, job))


def is_of(pod: Pod, job: Job) -> bool:
    """Tell whether exactly this Job controls the pod."""
    owner = controller_of(pod.metadata)
    return owner is not None and owner.uid == job.metadata.uid


def abandoned_jobs(seen: Observation) -> tuple[Job, ...]:
    """Return the Jobs of a run that is over although no container of theirs has started: their start was given up."""
    runs = ((seen.job_named(seen.run.plan_job), JobType.PLAN), (seen.job_named(seen.run.apply_job), JobType.APPLY))
    return tuple(
        job
        for job, job_type in runs
        if job is not None
        and not has_ended(job, seen.pods_of_run(job_type))
        and job.metadata.deletion_timestamp is None
        and not any(map(pod_started, seen.pods_of_run(job_type)))
    )


def unstarted(seen: Observation, job: Job) -> Unstarted:
    """Return how far the start of ``job`` is; its age counts from its creation, never from the future."""
    record = decode_record(job.metadata.annotations.get(RECORD, ""))
    begun = begun_at(job, seen.now, record.created_at if record is not None else "")
    limit = seen.settings.start_timeout
    age = timedelta(0) if begun is None else max(seen.now - begun, timedelta(0))
    patience = min(_PATIENCE, limit)
    waited = format_duration(timedelta(seconds=int(age.total_seconds())))
    early, expired = age < patience, age >= limit
    again = seen.now + (patience - age if early else min(limit - age, _LOOK_AGAIN))
    return Unstarted(
        early=early,
        expired=expired,
        again_at=None if expired else again,
        given_up=f"No container of Job {job.metadata.name} started within {waited}.",
        mark=(mark_seen(job, seen.now),) if begun is None else (),
    )
