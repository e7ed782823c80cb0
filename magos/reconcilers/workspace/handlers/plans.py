"""What follows from a plan that succeeded (spec §6.2.7): nothing to apply, an apply, a gate, or a rejection."""

from collections.abc import Sequence

from msgspec.structs import replace

from magos.api.annotations import APPROVAL
from magos.api.names import JobType, job_name
from magos.api.phases import Phase
from magos.api.reasons import Reason
from magos.api.result import Outcome, Result, ViolationAction
from magos.api.timestamps import format_time
from magos.api.workspace import AwaitingApproval, CurrentRun, GateReason, PlanSummary, PolicyViolation
from magos.ids import RunID
from magos.reconcilers.workspace.handlers.finish import finish, observed
from magos.reconcilers.workspace.handlers.reset import remove_annotations
from magos.reconcilers.workspace.move import Move, normal, to
from magos.reconcilers.workspace.observation import Observation

_MOST_VIOLATIONS = 50
_LONGEST_LIST = 900
"""Characters of a message that violations may take; the rest says what to do about them."""
_BLOCKING = frozenset({ViolationAction.DENY, ViolationAction.WARN})


def plan_succeeded(seen: Observation, result: Result) -> Move:
    """Return where a complete plan of the pinned commit leads: applied, to be applied, gated, or rejected."""
    if any(violation.action in _BLOCKING for violation in result.violations):
        return rejected(seen, result)
    fields = findings(result)
    told, selected = result.policies, seen.run.policies_selected
    if told.evaluated != told.selected or selected not in (None, told.selected):
        wanted = told.selected if selected is None or told.evaluated != told.selected else selected
        return finish(
            seen,
            Phase.FAILED,
            Reason.POLICY_EVALUATION_FAILED,
            f"The runner evaluated {told.evaluated} of {wanted} selected policies:"
            " nothing is applied. Check that controllers and runner image are of one release, then request a"
            " reconcile.",
            **fields,
        )
    if not result.has_changes:
        run = replace(seen.run, plan_digest=result.plan_digest, has_changes=False)
        return finish(
            seen,
            Phase.APPLIED,
            Reason.NO_CHANGES,
            f"Run {seen.run_id}: commit {run.revision} needs no changes.",
            current_run=run,
            **observed(run),
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
    early = remove_annotations(seen, *APPROVAL)
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
        status=to(seen, phase, reason, message, current_run=run, awaiting_approval=gate, **findings(result)),
        events=(normal(seen, "PlanSucceeded", "Plan", message), normal(seen, "AwaitingApproval", "Approve", message)),
    )


def rejected(seen: Observation, result: Result) -> Move:
    """Return the end of a run whose plan violates policies that block."""
    number = _blocking_violations(result)
    named = "; ".join(f"{violation.policy}: {violation.message}" for violation in result.violations)
    count = f"{number} violation{'' if number == 1 else 's'}"
    told = named or result.message
    told = told if len(told) <= _LONGEST_LIST else told[: _LONGEST_LIST - 1] + "…"
    return finish(
        seen,
        Phase.VALIDATION_FAILED,
        Reason.POLICY_VIOLATION,
        f"{count}: {told.rstrip('.')}. Change the code or the policy; the next run plans again.",
        **findings(result),
    )


def _blocking_violations(result: Result) -> int:
    """Count what blocks. It is listed first, so a listed Audit violation means that nothing that blocks is hidden."""
    listed = result.violations
    blocking = sum(violation.action in _BLOCKING for violation in listed)
    all_listed = blocking < len(listed) or result.violations_total <= len(listed)
    return blocking if all_listed else result.violations_total


def _planned_run(seen: Observation, result: Result, *, follows: bool) -> CurrentRun:
    meta = seen.subject.metadata
    name = job_name(meta.namespace, meta.name, RunID(seen.run_id), JobType.APPLY) if follows else ""
    return replace(seen.run, plan_digest=result.plan_digest, has_changes=True, apply_job=name)


def findings(result: Result) -> dict[str, object]:
    """Return the fields of status that tell what a plan found."""
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
        PolicyViolation(policy=each.policy, message=each.message, action=each.action)
        for each in result.violations[:_MOST_VIOLATIONS]
    ]
    return tuple(shown)


def _counts(result: Result) -> str:
    changes = result.changes
    return f"{changes.add} to add, {changes.change} to change, {changes.destroy} to destroy"
