"""When a Job may lose the finalizer that keeps it and its pod for the archive (spec §8.2).

1. The Workspace decides by its Jobs, so a Job is due only when the Workspace has acted on its end, or is gone.
2. A due Job keeps the finalizer until its record and its log are stored or given up.
3. A held apply Job that somebody deletes never had a pod and was no part of its run: there is nothing to keep.
4. Whoever deletes a plan Job that works wants its pod to stop, and garbage collection would stop it only when the Job
   is gone. So the pod is deleted, gracefully. An apply works to its end (invariant I9), unless its Workspace is gone
   (``mp/force-delete``): then nothing else waits for it, and it is stopped as garbage collection would.

The release works whether or not the Workspace exists, and whether or not history is still switched on.
"""

from enum import StrEnum

from msgspec import Struct

from magos.api.annotations import RELEASED
from magos.api.kube import JOBS, PODS, Job, Pod
from magos.api.labels import ARCHIVE_FINALIZER, JOB_TYPE, RUN_ID
from magos.api.meta import controller_of
from magos.api.names import JobType
from magos.api.phases import WITH_PLAN, Phase
from magos.api.workspace import WORKSPACES, Workspace
from magos.reconcilers.archive.keeping import GIVEN_UP, Archived, Keeping, Loss
from magos.runtime.decision import Decision, Delete, Event, EventType, Outcome, RemoveFinalizer

_NEEDED = {
    JobType.PLAN: frozenset({Phase.PENDING, Phase.PLANNING}),
    JobType.APPLY: WITH_PLAN | {Phase.APPLYING},
}


class Due(StrEnum):
    """What is to be stored of a Job."""

    BEGINNING = "beginning"
    ALL = "all"
    STOPPING = "stopping"
    NOTHING = "nothing"


class JobTask(Struct, frozen=True, kw_only=True):
    """A Job with the finalizer, and what is to be stored of it. ``uid`` is that of the Workspace, whoever has its name
    now."""

    job: Job
    job_type: JobType
    run_id: str
    uid: str
    workspace: str
    due: Due
    working: tuple[Pod, ...] = ()
    """Pods to stop, where that is due."""


def judge(job: Job, pods: tuple[Pod, ...], workspace: Workspace | None, keeping: Keeping) -> JobTask | None:
    """Return what is to be done about a Job, None if it does not carry the finalizer.

    ``pods`` are those that the Job controls; ``workspace`` is the one of its owner's name, if there is one.
    """
    meta, owner = job.metadata, controller_of(job.metadata)
    if ARCHIVE_FINALIZER not in meta.finalizers:
        return None
    named = meta.labels.get(JOB_TYPE, "")
    job_type = JobType(named) if named in set(JobType) else JobType.PLAN
    ours = owner is not None and owner.kind == WORKSPACES.name
    living = workspace if owner is not None and workspace is not None and workspace.metadata.uid == owner.uid else None
    due = _due(job, job_type, pods, living) if keeping.on and ours and named else Due.NOTHING
    working = (pod for pod in pods if not pod.ended and pod.metadata.deletion_timestamp is None)
    return JobTask(
        job=job,
        job_type=job_type,
        run_id=meta.labels.get(RUN_ID, ""),
        uid=owner.uid if owner is not None else "",
        workspace=owner.name if owner is not None else "",
        due=due,
        working=tuple(working) if due is Due.STOPPING else (),
    )


def _due(job: Job, job_type: JobType, pods: tuple[Pod, ...], workspace: Workspace | None) -> Due:
    deleting = job.metadata.deletion_timestamp is not None
    if deleting and job.spec.suspend and RELEASED not in job.metadata.annotations and not job.ended:
        return Due.NOTHING
    if job.ended or (deleting and all(pod.ended for pod in pods)):
        return Due.BEGINNING if workspace is not None and _needs(workspace, job, job_type) else Due.ALL
    return Due.STOPPING if deleting and (job_type is JobType.PLAN or workspace is None) else Due.BEGINNING


def _needs(workspace: Workspace, job: Job, job_type: JobType) -> bool:
    """The run of the Job is the one that status is about, and has not come past it."""
    status = workspace.status
    return job.metadata.labels.get(RUN_ID) == status.current_run_id and status.phase in _NEEDED[job_type]


def release(task: JobTask, archived: Archived | None, workspace: Workspace | None) -> Decision:
    """Return the release of a Job that has been archived, or of which there is nothing to archive."""
    meta = task.job.metadata
    if task.due is Due.STOPPING:
        return Decision(effects=tuple(map(_stop, task.working)), outcome=Outcome.WAITING)
    if task.due is Due.BEGINNING:
        return Decision(outcome=Outcome.WAITING)
    if task.due is not Due.NOTHING and archived is None:
        return Decision(outcome=Outcome.WAITING)
    effect = RemoveFinalizer(
        kind=JOBS,
        namespace=meta.namespace,
        name=meta.name,
        resource_version=meta.resource_version,
        finalizer=ARCHIVE_FINALIZER,
    )
    told = archived if archived is not None and archived.loss not in (None, Loss.NEVER_STARTED) else None
    events = (_event(task, told.note, workspace),) if told is not None else ()
    return Decision(effects=(effect,), events=events)


def _stop(pod: Pod) -> Delete:
    meta = pod.metadata
    return Delete(kind=PODS, namespace=meta.namespace, name=meta.name, uid=meta.uid)


def _event(task: JobTask, note: str, workspace: Workspace | None) -> Event:
    kind, meta = (WORKSPACES, workspace.metadata) if workspace is not None else (JOBS, task.job.metadata)
    return Event(
        regarding=kind.ref(meta.namespace, meta.name),
        uid=meta.uid,
        type=EventType.WARNING,
        reason=GIVEN_UP,
        action="Archive",
        note=note,
        api_version=kind.api_version,
        resource_version=meta.resource_version,
    )
