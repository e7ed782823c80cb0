"""Deletion of a Workspace (spec §6.2.10): what it waits for, and the release of the finalizer.

1. A plan that runs is cancelled gracefully and its pod waited for.
2. An apply that runs is waited for, unless a person set ``mp/force-delete``. One of which no container has started does
   nothing yet: it is waited for as long as a start may take, and then its Job is deleted.
3. Nothing is created any more, and nothing in the cloud is destroyed. Jobs and volume go by their owner reference.

What runs is decided by the Jobs and pods that are really there, read live, never by the phase. A cancellation that the
API server refuses is told and tried again a minute later: the status that tells of it must not bring about the next.
"""

from datetime import datetime, timedelta

from msgspec.structs import replace

from magos.api.annotations import force_delete
from magos.api.kube import Job, Pod
from magos.api.labels import FINALIZER, JOB_TYPE, RUN_ID
from magos.api.names import JobType
from magos.api.phases import Phase
from magos.api.reasons import Reason
from magos.api.workspace import WORKSPACES
from magos.reconcilers.storedtimes import due_at
from magos.reconcilers.workspace.evidence.held import is_held
from magos.reconcilers.workspace.evidence.podproblems import start_problem
from magos.reconcilers.workspace.evidence.progress import awaits_archive, is_of, pod_started, unstarted
from magos.reconcilers.workspace.handlers.recording import handed_on, opened
from magos.reconcilers.workspace.handlers.reset import delete_job
from magos.reconcilers.workspace.inputs.probes import events_probe, live_probes
from magos.reconcilers.workspace.move import Move, ask_live, to, warning
from magos.reconcilers.workspace.observation import Observation
from magos.runtime.decision import Create, Effect, Outcome, QueryFailure, Refusal, RemoveFinalizer

_PATIENCE = timedelta(minutes=1)
_FORCE = "set magosproject.io/force-delete=true"
_REFUSED = "The API server refused to go on"


def delete(seen: Observation) -> Move:
    """Take the next step of a deletion."""
    workspace = seen.subject
    meta = workspace.metadata
    if FINALIZER not in meta.finalizers:
        return Move(outcome=Outcome.GONE)
    if seen.denial is not None and not (_parcel_refused(seen) and force_delete(meta.annotations)):
        return _trouble(seen, seen.denial)
    if not force_delete(meta.annotations):
        waiting = _wait(seen)
        if waiting is not None:
            return waiting
    if not (seen.live or _judged_live(seen)):
        return ask_live(seen) if seen.phase is Phase.DELETING else _announce(seen)
    release = RemoveFinalizer(
        kind=WORKSPACES,
        namespace=meta.namespace,
        name=meta.name,
        resource_version=meta.resource_version,
        finalizer=FINALIZER,
    )
    return Move(effects=(*_parcel(seen), release))


def _parcel(seen: Observation) -> tuple[Effect, ...]:
    """What is not stored yet goes first; a person who does not want to wait loses it if it cannot go."""
    return () if _parcel_refused(seen) else handed_on(seen)


def _judged_live(seen: Observation) -> bool:
    """The pass just before was live and handed on what is not stored; behind a question it would do so again."""
    return seen.phase is Phase.DELETING and _parcel_refused(seen)


def _parcel_refused(seen: Observation) -> bool:
    return seen.refusal is not None and isinstance(seen.refusal.effect, Create)


def _wait(seen: Observation) -> Move | None:
    """What the deletion has to wait for, None if there is nothing."""
    unfinished = [job for job in seen.own_jobs if not job.ended and not awaits_archive(job, seen.pods)]
    applying = next((j for j in unfinished if j.metadata.labels.get(JOB_TYPE) != JobType.PLAN and not is_held(j)), None)
    if applying is not None:
        return _await_apply(seen, applying)
    cancel: tuple[Effect, ...] = tuple(
        map(delete_job, (j for j in unfinished if j.metadata.deletion_timestamp is None))
    )
    pod = next((pod for pod in seen.pods if not pod.ended and _ours(pod, seen)), None)
    cooling = _cooling_until(seen) if cancel else seen.now
    if cooling > seen.now:
        return Move(again_at=cooling, outcome=Outcome.WAITING)
    if cancel or unfinished or pod is not None:
        what = f"pod {pod.metadata.name}" if pod is not None else f"Job {unfinished[0].metadata.name}"
        return _say(seen, f"Waiting for {what} to stop; {_FORCE} not to wait.", *cancel)
    return None


def _await_apply(seen: Observation, job: Job) -> Move:
    """Wait for the end of an apply; give up one of which no container has started when its time is over."""
    name, run = job.metadata.name, job.metadata.labels.get(RUN_ID, "")
    waiting = f"Waiting for the apply of run {run} (Job {name}) to end; {_FORCE} not to wait."
    pods = tuple(pod for pod in seen.pods if is_of(pod, job))
    if job.metadata.deletion_timestamp is not None or any(map(pod_started, pods)):
        return _say(seen, waiting)
    start = unstarted(seen, job)
    if start.early:
        return replace(_say(seen, waiting, *start.mark), again_at=start.again_at)
    current = name == seen.run.apply_job
    if not seen.live or (current and seen.warnings is None):
        meta = seen.subject.metadata
        events = (events_probe(job, seen.pods_of_run(JobType.APPLY)),) if current else ()
        return Move(
            probes=(*live_probes(meta.namespace, meta.name), *events), again_at=start.again_at, outcome=Outcome.WAITING
        )
    problem = start_problem(job, pods, seen.warnings or (), seen.subject.spec.service_account_name).message
    if not start.expired:
        message = f"{waiting} No container of it has started yet. {problem}"
        return replace(_say(seen, message), again_at=start.again_at)
    cooling = _cooling_until(seen)
    if cooling > seen.now:
        return Move(again_at=cooling, outcome=Outcome.WAITING)
    return _say(seen, f"{start.given_up} Nothing was applied; the Job is deleted. {problem}", delete_job(job))


def _trouble(seen: Observation, answer: Refusal | QueryFailure) -> Move:
    """Say what was refused, and come back in a minute."""
    what = _REFUSED if isinstance(answer, Refusal) else "What still runs cannot be read"
    text = f"{what}: {answer.message.rstrip('.')}."
    said = _say(seen, f"{text} Check the rights of the workspace controller and admission policies.")
    return replace(said, again_at=seen.now + _PATIENCE)


def _cooling_until(seen: Observation) -> datetime:
    status = seen.subject.status
    if seen.phase is not Phase.DELETING or not status.message.startswith(_REFUSED):
        return seen.now
    return due_at(status.last_reconcile_time, _PATIENCE, seen.now)


def _ours(pod: Pod, seen: Observation) -> bool:
    runs = {seen.run_id, *(job.metadata.labels.get(RUN_ID, "") for job in seen.own_jobs)}
    return pod.metadata.labels.get(RUN_ID, "") in runs


def _announce(seen: Observation) -> Move:
    """Show the phase, and ask live in the same pass."""
    asked = ask_live(seen)
    said = _say(seen, "Nothing runs any more; the finalizer is being released.")
    return Move(status=said.status, probes=asked.probes, outcome=Outcome.WAITING)


def _say(seen: Observation, message: str, *effects: Effect) -> Move:
    """Say in status what the deletion waits for, and tell each such cause once as an Event."""
    status = to(seen, Phase.DELETING, Reason.DELETING, message, awaiting_approval=None, history_outbox=opened(seen))
    told = seen.phase is Phase.DELETING and seen.subject.status.message == status.message
    return Move(
        status=status,
        effects=effects,
        events=() if told else (warning(seen, Reason.DELETING, "Delete", message),),
        outcome=Outcome.WAITING,
    )
