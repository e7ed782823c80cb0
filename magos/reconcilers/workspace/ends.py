"""The end of a plan and the end of an apply (spec §6.2.7, §6.2.9): one row of the tables a function.

The outcome is taken from the conditions of the Job and the saved result. Whatever is incomplete fails closed: no plan
without a result, a digest and the pinned revision is ever applied. What an apply did is never guessed: it is either
known, or the message says that it is not.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from magos.api.annotations import APPROVED, APPROVED_BY
from magos.api.kube import Job
from magos.api.names import JobType, job_name
from magos.api.phases import Phase
from magos.api.reasons import FAILURES, Reason
from magos.api.result import Outcome, Result
from magos.api.result import ViolationAction as Action
from magos.api.timestamps import format_time
from magos.api.triggers import Trigger
from magos.api.workspace import AwaitingApproval, CurrentRun, GateReason, PlanSummary, PolicyViolation, ViolationAction
from magos.ids import RunID
from magos.reconcilers.workspace.evidence import Evidence, gather, result_of_pods
from magos.reconcilers.workspace.finish import finish
from magos.reconcilers.workspace.move import Move, ask_live, keep, normal, to
from magos.reconcilers.workspace.observation import Observation
from magos.reconcilers.workspace.podproblems import end_cause
from magos.reconcilers.workspace.reset import remove_annotations, reset
from magos.reconcilers.workspace.specification import same_specification
from magos.reconcilers.workspace.triggers import REASONS, Cause
from magos.runtime.decision import Outcome as PassOutcome

__all__ = ["apply_ended", "apply_missing", "conclude_apply", "conclude_plan", "plan_ended", "plan_missing"]

_MOST_VIOLATIONS = 50
_UNKNOWN = "The outcome of the apply is unknown; the next run plans again."
_BLOCKING = frozenset({Action.DENY, Action.WARN})


def plan_ended(seen: Observation) -> Move:
    """The plan Job has ended."""
    job = seen.job_named(seen.run.plan_job)
    if job is None:
        return ask_live(seen)
    evidence = gather(seen, JobType.PLAN, job)
    return evidence if isinstance(evidence, Move) else conclude_plan(seen, job, evidence)


def apply_ended(seen: Observation) -> Move:
    """The apply Job has ended."""
    job = seen.job_named(seen.run.apply_job)
    if job is None:
        return ask_live(seen)
    evidence = gather(seen, JobType.APPLY, job)
    return evidence if isinstance(evidence, Move) else conclude_apply(seen, job, evidence)


def plan_missing(seen: Observation) -> Move:
    """Status says that a plan runs, but its Job is not there."""
    if not seen.live:
        return ask_live(seen)
    return finish(
        seen,
        Phase.FAILED,
        Reason.RUN_LOST,
        f"Job {seen.run.plan_job or '(none named)'} of run {seen.run_id or '(none)'} disappeared before it ended."
        " Find out who deleted it; the plan is repeated on the next tick, or by a reconcile request.",
    )


def apply_missing(seen: Observation) -> Move:
    """Status says that an apply runs, but its Job is not there: the pod may still work, and its result counts."""
    if not seen.live:
        return ask_live(seen)
    pods = seen.pods_of_run(JobType.APPLY)
    going = next((pod for pod in pods if not pod.ended), None)
    if going is not None:
        message = (
            f"Job {seen.run.apply_job} of run {seen.run_id} disappeared; its pod {going.metadata.name} has not ended"
            " yet and is waited for."
        )
        waiting = to(seen, Phase.APPLYING, Reason(seen.subject.status.reason), message)
        return keep(seen, status=waiting, outcome=PassOutcome.WAITING)
    evidence = result_of_pods(pods, seen.run_id, JobType.APPLY)
    if evidence.result is not None:
        return conclude_apply(seen, None, evidence)
    return finish(
        seen,
        Phase.FAILED,
        Reason.RUN_LOST,
        f"Job {seen.run.apply_job or '(none named)'} of run {seen.run_id or '(none)'} disappeared before it ended, and"
        f" {evidence.problem}. {_UNKNOWN} Find out who deleted it and check the state lock.",
    )


def conclude_plan(seen: Observation, job: Job, evidence: Evidence) -> Move:
    """Return the outcome of a plan."""
    result = evidence.result
    if result is not None:
        seen = _pin(seen, result)
    elif _vanished(seen, job, JobType.PLAN):
        return plan_missing(seen)
    if _failed(job, result):
        return _plan_failed(seen, job, evidence)
    if result is None or not _complete(result):
        problem = evidence.problem or "its result names no revision or no plan digest"
        return finish(
            seen,
            Phase.FAILED,
            Reason.RESULT_MISSING,
            f"Job {job.metadata.name} ended, but {problem}. Nothing is applied; request a reconcile, and check the node"
            " and the runner image.",
        )
    if result.revision != seen.run.revision:
        return finish(
            seen,
            Phase.FAILED,
            Reason.PLAN_MISMATCH,
            f"Run {seen.run_id} is pinned to commit {seen.run.revision}, but the plan was made of {result.revision}."
            " Nothing is applied; the next run plans again.",
        )
    if not same_specification(seen.run.spec_hash, seen.subject, seen.project):
        return reset(seen, Cause(trigger=Trigger.CONFIGURATION, reason=REASONS[Trigger.CONFIGURATION]))
    return _plan_succeeded(seen, result)


def conclude_apply(seen: Observation, job: Job | None, evidence: Evidence) -> Move:
    """Return the outcome of an apply."""
    result = evidence.result
    if result is None and job is not None and _vanished(seen, job, JobType.APPLY):
        return apply_missing(seen)
    if not _failed(job, result):
        message = f"Run {seen.run_id} applied commit {seen.run.revision}."
        return finish(
            seen,
            Phase.APPLIED,
            Reason.APPLY_SUCCEEDED,
            message,
            observed_revision=seen.run.revision,
            observed_source=seen.run.source_key,
        )
    reason, text = _failure(seen, job, JobType.APPLY, evidence)
    if result is None or result.result is Outcome.SUCCEEDED:
        text = f"{text} {_UNKNOWN}"
    return finish(seen, Phase.FAILED, reason, f"{text} Read the apply log; check the state lock.")


def _failed(job: Job | None, result: Result | None) -> bool:
    """Failed by the Job's condition or by the runner's own word; a Job that was deleted counts by its result alone."""
    if result is not None and result.result is Outcome.FAILED:
        return True
    if job is None or (not job.ended and result is not None):
        return False
    return not job.complete


def _vanished(seen: Observation, job: Job, job_type: JobType) -> bool:
    """A Job that somebody deletes, and whose pod says nothing, is as good as gone."""
    return not job.ended and end_cause(job, seen.pods_of_run(job_type)) is None


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


def _plan_failed(seen: Observation, job: Job, evidence: Evidence) -> Move:
    result = evidence.result
    fields = _findings(result) if result is not None else {}
    if result is not None and result.reason == Reason.POLICY_VIOLATION:
        return _rejected(seen, result)
    reason, text = _failure(seen, job, JobType.PLAN, evidence)
    return finish(seen, Phase.FAILED, reason, f"{text} Read the plan log.", **fields)


def _failure(seen: Observation, job: Job | None, job_type: JobType, evidence: Evidence) -> tuple[Reason, str]:
    """The reason and the text of a failed half of a run: the runner's own, else what Kubernetes says."""
    result = evidence.result
    general = Reason.PLAN_FAILED if job_type is JobType.PLAN else Reason.APPLY_FAILED
    cause = end_cause(job, seen.pods_of_run(job_type))
    if result is not None and result.result is Outcome.FAILED:
        known = next((reason for reason in FAILURES if reason == result.reason), general)
        if known is not Reason.INTERRUPTED or cause is None or not cause.decisive:
            text = result.message or f"the {job_type} failed with exit code {result.exit_code}"
            return known, f"{text.rstrip('.')}."
    if cause is not None:  # a deadline or an eviction says more than the runner's "interrupted"
        reason = Reason.INTERRUPTED if cause.interrupted else general
        return reason, f"{cause.word}: {cause.text.rstrip('.')}."
    name = job.metadata.name if job is not None else f"of the {job_type}"
    return general, f"Job {name} failed: {evidence.problem or 'without a reason'}."


def _plan_succeeded(seen: Observation, result: Result) -> Move:
    if any(violation.action in _BLOCKING for violation in result.violations):
        return _rejected(seen, result)
    fields = _findings(result)
    if not result.has_changes:
        run = replace(seen.run, plan_digest=result.plan_digest, has_changes=False)
        return finish(
            seen,
            Phase.APPLIED,
            Reason.NO_CHANGES,
            f"Run {seen.run_id}: commit {run.revision} needs no changes.",
            current_run=run,
            observed_revision=run.revision,
            observed_source=run.source_key,
            **fields,
        )
    audited = bool(result.violations) or result.violations_total > 0
    if audited or not seen.subject.spec.auto_apply:
        return _close_gate(seen, result, GateReason.AUDIT_VIOLATIONS if audited else GateReason.MANUAL_APPROVAL)
    run = _planned_run(seen, result, follows=True)
    message = f"Run {seen.run_id}: {_counts(result)} planned for commit {run.revision}."
    return Move(
        status=to(seen, Phase.PLANNED, Reason.PLAN_SUCCEEDED, message, current_run=run, **fields),
        events=(normal(seen, "PlanSucceeded", "Plan", message),),
    )


def _close_gate(seen: Observation, result: Result, why: GateReason) -> Move:
    """An approval cannot be given in advance: what is there already goes before the gate closes."""
    early = remove_annotations(seen, APPROVED, APPROVED_BY)
    if early:
        return Move(effects=early)
    audited = why is GateReason.AUDIT_VIOLATIONS
    phase = Phase.PLANNED_WITH_VIOLATIONS if audited else Phase.PLANNED
    reason = Reason.AUDIT_POLICY_VIOLATION if audited else Reason.PLAN_SUCCEEDED
    run = _planned_run(seen, result, follows=False)
    found = f", {max(result.violations_total, len(result.violations))} audit violations" if audited else ""
    message = (
        f"Run {seen.run_id}: {_counts(result)}{found} planned for commit {run.revision}; approve this run ID to"
        " apply it, or request a reconcile to plan again."
    )
    gate = AwaitingApproval(run_id=seen.run_id, reason=why, since=format_time(seen.now), revision=run.revision)
    return Move(
        status=to(seen, phase, reason, message, current_run=run, awaiting_approval=gate, **_findings(result)),
        events=(normal(seen, "PlanSucceeded", "Plan", message), normal(seen, "AwaitingApproval", "Approve", message)),
    )


def _rejected(seen: Observation, result: Result) -> Move:
    total = max(result.violations_total, len(result.violations))
    named = "; ".join(f"{violation.policy}: {violation.message}" for violation in result.violations)
    count = f"{total} violation{'' if total == 1 else 's'}"
    return finish(
        seen,
        Phase.VALIDATION_FAILED,
        Reason.POLICY_VIOLATION,
        f"{count}: {named or result.message}",
        **_findings(result),
    )


def _planned_run(seen: Observation, result: Result, *, follows: bool) -> CurrentRun:
    meta = seen.subject.metadata
    name = job_name(meta.namespace, meta.name, RunID(seen.run_id), JobType.APPLY) if follows else ""
    return replace(seen.run, plan_digest=result.plan_digest, has_changes=True, apply_job=name)


def _findings(result: Result) -> dict[str, object]:
    changes = result.changes
    return {
        "plan_summary": PlanSummary(
            add=changes.add, change=changes.change, destroy=changes.destroy, no_changes=not result.has_changes
        )
        if result.result is Outcome.SUCCEEDED
        else None,
        "policies_evaluated": result.policies.evaluated,
        "policy_violations": _violations(result),
    }


def _violations(result: Result) -> tuple[PolicyViolation, ...]:
    shown: Sequence[PolicyViolation] = [
        PolicyViolation(policy=each.policy, message=each.message, action=ViolationAction(each.action))
        for each in result.violations[:_MOST_VIOLATIONS]
    ]
    return tuple(shown)


def _counts(result: Result) -> str:
    changes = result.changes
    return f"{changes.add} to add, {changes.change} to change, {changes.destroy} to destroy"
