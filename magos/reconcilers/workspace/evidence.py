"""The runner's result: from the pod's termination message to the Job's annotation, and only from there to an outcome.

1. A Job that carries ``mp/result`` has its evidence; the pod is not looked at any more.
2. Otherwise a readable message of the pod's ``job`` container is saved on the Job, in a decision of its own.
3. That there is no result is concluded from live reads only.

A message counts if it is well formed and names exactly this run and this phase; no other container's message and
nothing on stdout is ever parsed.
"""

from msgspec import Struct

from magos.api.annotations import RESULT
from magos.api.kube import JOBS, Job, Pod
from magos.api.names import JobType
from magos.api.result import Result, decode_result
from magos.reconcilers.workspace.move import Move, ask_live
from magos.reconcilers.workspace.observation import Observation
from magos.reconcilers.workspace.stages import Stage
from magos.runtime.decision import PatchAnnotations

__all__ = ["Evidence", "gather", "result_of_pods"]


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
    return Move(
        effects=(
            PatchAnnotations(
                kind=JOBS,
                namespace=job.metadata.namespace,
                name=job.metadata.name,
                uid=job.metadata.uid,
                annotations={RESULT: _message(pods)},
            ),
        )
    )


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
