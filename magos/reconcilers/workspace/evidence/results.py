"""The runner's result, and what stands for one that is missing.

A message counts if it is well formed and names exactly this run and this phase; no other container's message and
nothing on stdout is ever parsed.
"""

from msgspec import Struct

from magos.api.kube import Pod
from magos.api.names import JobType
from magos.api.reasons import Reason
from magos.api.result import Outcome, Result, decode_result
from magos.api.runnerpod import TERMINATED, Stage
from magos.reconcilers.workspace.evidence.podproblems import EndCause

OUTCOME_UNKNOWN = "The outcome of the apply is unknown; the next run plans again."


class Evidence(Struct, frozen=True, kw_only=True):
    """What is known about the end of a Job; ``problem`` says why there is no result."""

    result: Result | None
    problem: str = ""


def result_of_deletion(pod: Pod, cause: EndCause | None, run_id: str, job_type: JobType) -> Result:
    """Return the result of a deleted pod that left none; ``cause`` is what Kubernetes says about its end."""
    return _told(_deletion(pod, cause), run_id, job_type)


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
        exit_code=TERMINATED if cause.interrupted else 1,
        reason=Reason.INTERRUPTED if cause.interrupted else general,
        message=f"{cause.word}: {cause.text.rstrip('.')}{unknown}",
    )


def result_of_pods(pods: tuple[Pod, ...], run_id: str, job_type: JobType) -> Evidence:
    """Return what the pods themselves say, without a Job to keep it."""
    message = message_of(pods)
    if not message:
        return Evidence(result=None, problem="the pod left no result" if pods else "its pod is gone")
    return judge(message, run_id, job_type)


def message_of(pods: tuple[Pod, ...]) -> str:
    """Return the termination message of the pods' stage ``job``; empty if there is none."""
    for pod in pods:
        for status in pod.status.container_statuses:
            if status.name == Stage.JOB and status.state.terminated is not None and status.state.terminated.message:
                return status.state.terminated.message
    return ""


def judge(text: str, run_id: str, job_type: JobType) -> Evidence:
    """Return what a message is worth: it has to be well formed and about this run and this Job."""
    try:
        result = decode_result(text)
    except ValueError as error:
        return Evidence(result=None, problem=str(error))
    if result.run_id != run_id or result.phase is not job_type:
        return Evidence(result=None, problem=f"the result belongs to the {result.phase} of run {result.run_id or '?'}")
    return Evidence(result=result)
