"""The end of a plan and the end of an apply (spec §6.2.7, §6.2.9): one row of the tables a function.

The outcome is taken from the conditions of the Job and the saved result. Whatever is incomplete fails closed: no plan
without a result, a digest and the pinned revision is ever applied. What an apply did is never guessed: it is either
known, or the message says that it is not.
"""

from msgspec.structs import replace

from magos.api.kube import Job
from magos.api.names import JobType
from magos.api.phases import Phase
from magos.api.reasons import FAILURES, Reason, reason_in
from magos.api.result import Outcome, Result
from magos.api.triggers import Trigger
from magos.reconcilers.workspace.evidence.interruptions import interrupted
from magos.reconcilers.workspace.evidence.podproblems import end_cause
from magos.reconcilers.workspace.evidence.results import OUTCOME_UNKNOWN, Evidence, result_of_pods
from magos.reconcilers.workspace.evidence.situations import JobEnded, JobMissing
from magos.reconcilers.workspace.evidence.triggers import named_cause, unconfirmed, undecidable
from magos.reconcilers.workspace.handlers.finish import finish, observed
from magos.reconcilers.workspace.handlers.plans import findings, plan_succeeded, rejected
from magos.reconcilers.workspace.handlers.repetition import repeat
from magos.reconcilers.workspace.handlers.reset import reset
from magos.reconcilers.workspace.handlers.saving import gather
from magos.reconcilers.workspace.inputs.specification import same_specification
from magos.reconcilers.workspace.move import Move, ask_inputs, ask_live, keep, to
from magos.reconcilers.workspace.observation import Observation
from magos.runtime.decision import Outcome as PassOutcome

_STILL_LOCKED = "Check whether the state is still locked."


def plan_ended(seen: Observation, found: JobEnded) -> Move:
    """The plan Job has ended."""
    evidence = gather(seen, JobType.PLAN, found)
    return evidence if isinstance(evidence, Move) else conclude_plan(seen, found, evidence)


def apply_ended(seen: Observation, found: JobEnded) -> Move:
    """The apply Job has ended."""
    evidence = gather(seen, JobType.APPLY, found)
    return evidence if isinstance(evidence, Move) else conclude_apply(seen, found, evidence)


def plan_missing(seen: Observation, _found: JobMissing) -> Move:
    """Status says that a plan runs, but its Job is not there."""
    if not seen.live:
        return ask_live(seen)
    job = seen.run.plan_job or "(none named)"
    return repeat(seen, f"its Job {job} disappeared before it ended") or finish(
        seen,
        Phase.FAILED,
        Reason.RUN_LOST,
        f"Job {job} of run {seen.run_id or '(none)'} disappeared before it ended.{_often(seen)}"
        " Find out who deleted it; the plan is repeated on the next tick, or by a reconcile request.",
    )


def apply_missing(seen: Observation, found: JobMissing) -> Move:
    """Status says that an apply runs, but its Job is not there: the pod may still work, and its result counts."""
    if not seen.live:
        return ask_live(seen)
    going = next((pod for pod in found.pods if not pod.ended), None)
    if going is not None:
        message = (
            f"Job {seen.run.apply_job} of run {seen.run_id} disappeared; its pod {going.metadata.name} has not ended"
            " yet and is waited for; if its node is dead, delete the pod."
        )
        waiting = to(seen, Phase.APPLYING, reason_in(Phase.APPLYING, seen.subject.status.reason), message)
        return keep(seen, status=waiting, outcome=PassOutcome.WAITING)
    evidence = result_of_pods(found.pods, seen.run_id, JobType.APPLY)
    if evidence.result is not None:
        return conclude_apply(seen, found, evidence)
    return finish(
        seen,
        Phase.FAILED,
        Reason.RUN_LOST,
        f"Job {seen.run.apply_job or '(none named)'} of run {seen.run_id or '(none)'} disappeared before it ended, and"
        f" {evidence.problem}. {OUTCOME_UNKNOWN} Find out who deleted it. {_STILL_LOCKED}",
    )


def conclude_plan(seen: Observation, found: JobEnded, evidence: Evidence) -> Move:
    """Return the outcome of a plan."""
    job, result = found.job, evidence.result
    if result is not None:
        seen = _pin(seen, result)
    elif _vanished(found):
        return plan_missing(seen, JobMissing(pods=found.pods))
    if interrupted(found, evidence):
        return _plan_interrupted(seen, found, evidence)
    if _failed(job, result):
        return _plan_failed(seen, found, evidence)
    if result is None or not _complete(result):
        problem = evidence.problem or "its result names no revision or no plan digest"
        return finish(
            seen,
            Phase.FAILED,
            Reason.RESULT_MISSING,
            f"Job {job.metadata.name} ended, but {problem}. Nothing is applied; request a reconcile, and check the node"
            " and the runner image.",
        )
    return _complete_plan(seen, result)


def _complete_plan(seen: Observation, result: Result) -> Move:
    if result.revision != seen.run.revision:
        return finish(
            seen,
            Phase.FAILED,
            Reason.PLAN_MISMATCH,
            f"Run {seen.run_id} is pinned to commit {seen.run.revision}, but the plan was made of {result.revision}."
            " Nothing is applied; the next run plans again. Check who else writes to the Workspace's volume.",
        )
    if not same_specification(seen.run.spec_hash, seen.subject, seen.project) and not undecidable(
        seen, Trigger.CONFIGURATION
    ):
        return _discard(seen)
    return plan_succeeded(seen, result)


def _plan_interrupted(seen: Observation, found: JobEnded, evidence: Evidence) -> Move:
    _, text = _failure(found, JobType.PLAN, evidence)
    told = f"{text}{_often(seen)} Look at the nodes; the plan is repeated on the next tick, or by a reconcile request."
    return repeat(seen, text.rstrip(".")) or finish(seen, Phase.FAILED, Reason.INTERRUPTED, told)


def _often(seen: Observation) -> str:
    """How often in a row infrastructure has ended this plan, if it was repeated at all."""
    number = seen.run.interruptions
    return f" Infrastructure has ended this plan {number + 1} times in a row." if number else ""


def _discard(seen: Observation) -> Move:
    """The spec is another than the one that was planned; a cached Project alone is no proof of that."""
    if unconfirmed(seen, Trigger.CONFIGURATION):
        return ask_inputs(seen)
    return reset(seen, named_cause(Trigger.CONFIGURATION))


def conclude_apply(seen: Observation, found: JobEnded | JobMissing, evidence: Evidence) -> Move:
    """Return the outcome of an apply; of one whose Job is missing by what its pods have said."""
    result = evidence.result
    if result is None and isinstance(found, JobEnded) and _vanished(found):
        return apply_missing(seen, JobMissing(pods=found.pods))
    job = found.job if isinstance(found, JobEnded) else None
    if not _failed(job, result):
        message = f"Run {seen.run_id} applied commit {seen.run.revision}."
        return finish(
            seen,
            Phase.APPLIED,
            Reason.APPLY_SUCCEEDED,
            message,
            **observed(seen.run),
        )
    reason, text = _failure(found, JobType.APPLY, evidence)
    uncertain = result is None or result.result is Outcome.SUCCEEDED or result.reason == Reason.INTERRUPTED
    unknown = OUTCOME_UNKNOWN.rstrip(".").lower()  # the runner begins it in lower case
    if uncertain and unknown not in text.lower():
        text = f"{text} {OUTCOME_UNKNOWN}"
    lock = f" {_STILL_LOCKED}" if unknown in text.lower() else ""
    return finish(seen, Phase.FAILED, reason, f"{text} Read the apply log.{lock}")


def _failed(job: Job | None, result: Result | None) -> bool:
    """Failed by the Job's condition or by the runner's own word; a Job that was deleted counts by its result alone."""
    if result is not None and result.result is Outcome.FAILED:
        return True
    if job is None or (not job.ended and result is not None):
        return False
    return not job.complete


def _vanished(found: JobEnded) -> bool:
    """A Job that somebody deletes, and whose pod says nothing, is as good as gone."""
    return not found.job.ended and end_cause(found.job, found.pods) is None


def _complete(result: Result) -> bool:
    return bool(result.revision) and (bool(result.plan_digest) or not result.has_changes)


def _pin(seen: Observation, result: Result) -> Observation:
    """A revision that nobody knew before is pinned as reported; a known one never changes."""
    if seen.run.revision or not result.revision:
        return seen
    run = replace(seen.run, revision=result.revision)
    status = replace(seen.subject.status, current_run=run, last_attempted_revision=result.revision)
    # Only the handlers see this copy; what is written is the difference to the status that the server has.
    return replace(seen, workspace=replace(seen.subject, status=status))


def _plan_failed(seen: Observation, found: JobEnded, evidence: Evidence) -> Move:
    result = evidence.result
    fields = findings(result) if result is not None else {}
    if result is not None and result.reason == Reason.POLICY_VIOLATION:
        return rejected(seen, result)
    reason, text = _failure(found, JobType.PLAN, evidence)
    return finish(seen, Phase.FAILED, reason, f"{text} Read the plan log.", **fields)


def _failure(found: JobEnded | JobMissing, job_type: JobType, evidence: Evidence) -> tuple[Reason, str]:
    """The reason and the text of a failed half of a run: the runner's own, else what Kubernetes says."""
    result = evidence.result
    general = Reason.PLAN_FAILED if job_type is JobType.PLAN else Reason.APPLY_FAILED
    job = found.job if isinstance(found, JobEnded) else None
    cause = end_cause(job, found.pods)
    if interrupted(found, evidence):
        general = Reason.INTERRUPTED
    if result is not None and result.result is Outcome.FAILED:
        known = next((reason for reason in FAILURES if reason == result.reason), general)
        if known is not Reason.INTERRUPTED or cause is None or not cause.decisive:
            text = result.message or f"the {job_type} failed with exit code {result.exit_code}"
            return known, f"{text.rstrip('.')}."
    if cause is not None:  # a deadline or an eviction says more than the runner's "interrupted"
        return general, f"{cause.word}: {cause.text.rstrip('.')}."
    name = job.metadata.name if job is not None else f"of the {job_type}"
    if job is not None and job.complete:
        return general, f"Job {name} ended, but {evidence.problem}."
    return general, f"Job {name} failed: {evidence.problem or 'without a reason'}."
