"""The runner's result: from the pod's termination message to the Job's annotation, and only from there to an outcome.

1. A Job that carries ``mp/result`` has its evidence; the pod is not looked at any more.
2. Otherwise a readable message of the pod's ``job`` container is saved on the Job, in a decision of its own.
3. Of a pod that is being deleted it is saved when the pod has ended: Kubernetes lets such a pod go before its Job ends.
4. That there is no result is concluded from live reads only.
"""

import msgspec

from magos.api.annotations import RESULT
from magos.api.kube import JOBS, Job
from magos.api.names import JobType
from magos.reconcilers.workspace.evidence.podproblems import end_cause
from magos.reconcilers.workspace.evidence.results import (
    Evidence,
    judge,
    message_of,
    result_of_deletion,
    result_of_pods,
)
from magos.reconcilers.workspace.evidence.situations import JobEnded, JobRunning
from magos.reconcilers.workspace.move import Move, ask_live
from magos.reconcilers.workspace.observation import Observation
from magos.runtime.decision import PatchAnnotations


def gather(seen: Observation, job_type: JobType, found: JobEnded) -> Evidence | Move:
    """Return the evidence, or the move that secures it first."""
    saved = found.job.metadata.annotations.get(RESULT)
    if saved is not None:
        return judge(saved, seen.run_id, job_type)
    told = result_of_pods(found.pods, seen.run_id, job_type)
    if told.result is None:
        return told if seen.live else ask_live(seen)
    return _save(found.job, message_of(found.pods))


def secure(seen: Observation, job_type: JobType, found: JobRunning) -> Move | None:
    """Return the move that saves what a deleted pod leaves, None while or if there is nothing to save.

    Where the runner left no result, it is what Kubernetes says about the pod's end: nobody can read that later.
    """
    job, pods = found.job, found.pods
    deleted = [pod for pod in pods if pod.metadata.deletion_timestamp is not None]
    if RESULT in job.metadata.annotations or not deleted or not all(pod.ended for pod in pods):
        return None
    message = message_of(pods)
    if not message and any(pod.status.phase == "Failed" for pod in deleted):
        result = result_of_deletion(deleted[0], end_cause(job, pods), seen.run_id, job_type)
        message = msgspec.json.encode(result).decode()
    return _save(job, message) if message else None


def _save(job: Job, message: str) -> Move:
    meta = job.metadata
    saved = {RESULT: message}
    effect = PatchAnnotations(kind=JOBS, namespace=meta.namespace, name=meta.name, uid=meta.uid, annotations=saved)
    return Move(effects=(effect,))
