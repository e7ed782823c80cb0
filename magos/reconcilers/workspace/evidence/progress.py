"""How far a Job of the Workspace is: whether a container of it has started, whether it has ended, who needs it."""

from magos.api.kube import Job, Pod
from magos.api.names import JobType
from magos.api.phases import WITH_PLAN, Phase
from magos.reconcilers.workspace.observation import Observation

__all__ = ["abandoned_jobs", "has_ended", "pod_started", "running_type"]


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
