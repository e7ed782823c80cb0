"""The runner's result: from the pod's termination message to the Job's annotation, and only from there to an outcome.

1. A Job that carries ``mp/result`` has its evidence; the pod is not looked at any more.
2. Otherwise a readable message of the pod's ``job`` container is saved on the Job, in a decision of its own.
3. Of a pod that is being deleted it is saved when the pod has ended: Kubernetes lets such a pod go before its Job ends.
4. That there is no result is concluded from live reads only.

A message counts if it is well formed and names exactly this run and this phase; no other container's message and
nothing on stdout is ever parsed.
"""

import msgspec
from msgspec import Struct

from magos.api.annotations import RESULT
from magos.api.kube import JOBS, Job, Pod
from magos.api.names import JobType
from magos.api.reasons import Reason
from magos.api.result import Outcome, Result, decode_result
from magos.reconcilers.workspace.move import Move, ask_live
from magos.reconcilers.workspace.observation import Observation
from magos.reconcilers.workspace.podproblems import EndCause, end_cause
from magos.reconcilers.workspace.stages import Stage
from magos.runtime.decision import PatchAnnotations

__all__ = ["OUTCOME_UNKNOWN", "Evidence", "gather", "result_of_pods", "secure"]

OUTCOME_UNKNOWN = "The outcome of the apply is unknown; the next run plans again."
_TERMINATED = 143


class Evidence(Struct, frozen=True, kw_only=True):
    """What is known about the end of a Job; ``problem`` says why there is no result."""

    result: Result | None
    problem: str = ""


def gather(seen: Observation, job_type: JobType, job: Job) -> Evidence | Move:
    """Return the evidence, or the move that secures it first."""
    saved = job.metadata.annotations.get(RESULT)
    if saved is not None:
        return _judge(saved, seen.run_id, job_type)
    pods = seen.pods_of_run(job_type)
    found = result_of_pods(pods, seen.run_id, job_type)
    if found.result is None:
        return found if seen.live else ask_live(seen)
    return _save(job, _message(pods))


def secure(seen: Observation, job_type: JobType, job: Job) -> Move | None:
    """Return the move that saves what a deleted pod leaves, None while or if there is nothing to save.

    Where the runner left no result, it is what Kubernetes says about the pod's end: nobody can read that later.
    """
    pods = seen.pods_of_run(job_type)
    deleted = [pod for pod in pods if pod.metadata.deletion_timestamp is not None]
    if RESULT in job.metadata.annotations or not deleted or not all(pod.ended for pod in pods):
        return None
    message = _message(pods)
    if not message and any(pod.status.phase == "Failed" for pod in deleted):
        result = _told(_deletion(deleted[0], end_cause(job, pods)), seen.run_id, job_type)
        message = msgspec.json.encode(result).decode()
    return _save(job, message) if message else None


def _deletion(pod: Pod, cause: EndCause | None) -> EndCause:
    """Whatever ended a deleted pod, exhausted memory or an eviction excepted, was the deletion."""
    if cause is not None and (cause.decisive or cause.interrupted):
        return cause
    text = f"pod {pod.metadata.name} was deleted"
    return EndCause(word="Interrupted", text=text if cause is None else f"{cause.text}: {text}", interrupted=True)


def _told(cause: EndCause, run_id: str, job_type: JobType) -> Result:
    general, unknown = Reason.PLAN_FAILED, ""
    if job_type is JobType.APPLY:
        general, unknown = Reason.APPLY_FAILED, f". {OUTCOME_UNKNOWN}"
    return Result(
        run_id=run_id,
        phase=job_type,
        result=Outcome.FAILED,
        exit_code=_TERMINATED if cause.interrupted else 1,
        reason=Reason.INTERRUPTED if cause.interrupted else general,
        message=f"{cause.word}: {cause.text.rstrip('.')}{unknown}",
    )


def _save(job: Job, message: str) -> Move:
    meta = job.metadata
    saved = {RESULT: message}
    effect = PatchAnnotations(kind=JOBS, namespace=meta.namespace, name=meta.name, uid=meta.uid, annotations=saved)
    return Move(effects=(effect,))


def result_of_pods(pods: tuple[Pod, ...], run_id: str, job_type: JobType) -> Evidence:
    """Return what the pods themselves say, without a Job to keep it."""
    message = _message(pods)
    if not message:
        return Evidence(result=None, problem="the pod left no result" if pods else "its pod is gone")
    return _judge(message, run_id, job_type)


def _message(pods: tuple[Pod, ...]) -> str:
    for pod in pods:
        for status in pod.status.container_statuses:
            if status.name == Stage.JOB and status.state.terminated is not None and status.state.terminated.message:
                return status.state.terminated.message
    return ""


def _judge(text: str, run_id: str, job_type: JobType) -> Evidence:
    try:
        result = decode_result(text)
    except ValueError as error:
        return Evidence(result=None, problem=str(error))
    if result.run_id != run_id or result.phase is not job_type:
        return Evidence(result=None, problem=f"the result belongs to the {result.phase} of run {result.run_id or '?'}")
    return Evidence(result=result)
