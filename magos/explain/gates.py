"""A run that waits: before its plan, for a person, or with a plan that may not be applied for now."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from magos.api.explanations import explanations
from magos.api.labels import JOB_SERVICE_ACCOUNT, RUNNER, WORKSPACE, workspace_label
from magos.api.reasons import Reason
from magos.api.workspace import AwaitingApproval, GateReason, PlanSummary, Workspace
from magos.explain.account import (
    CHECK_COMMAND,
    CHECK_CONTROLLER,
    CONTROLLER,
    Account,
    Attention,
    at,
    clause,
    command,
    path_of,
    plain,
    short,
    subject,
    time_of,
)
from magos.explain.permission import Around, awaiting_permission

_WHY: Final[Mapping[Reason, str]] = MappingProxyType(
    {
        Reason.CONFIGURATION_CHANGED: "its configuration is new or was changed",
        Reason.NEW_REVISION_DETECTED: "its source has a new commit",
        Reason.MANUAL_RECONCILE_REQUESTED: "a person asked for it",
        Reason.VARIABLES_CHANGED: "its variables have changed",
        Reason.RETRY_PLAN: "its last plan failed",
        Reason.RETRY_APPLY: "its last apply failed",
        Reason.SCHEDULED_RECONCILE: "it is time to look for drift",
    }
)
"""Why a run begins that nothing holds."""


def pending(seen: Around, reason: Reason) -> Account:
    """Explain a run whose plan has not begun."""
    workspace = seen.workspace
    run = f"run {workspace.status.current_run_id}"
    since = time_of(workspace.status.last_reconcile_time)
    told = clause(workspace.status.message)
    match reason:
        case Reason.AWAITING_ROLLOUT:
            return awaiting_permission(seen, run)
        case Reason.AWAITING_VARIABLES:
            return Account(
                attention=Attention.WAITING,
                sentence=f"{subject(workspace)} waits with {run} for its variables:"
                f" {told or 'a VariableSet is not validated yet'}.",
                holder="the variableset controller",
                since=since,
                next_steps=("if this lasts for more than a minute, check whether the variableset controller runs",),
                command=CHECK_COMMAND,
            )
        case Reason.PREVIOUS_RUNNER_TERMINATING:
            return Account(
                attention=Attention.WAITING,
                sentence=f"{subject(workspace)} waits until nothing of an earlier run is left:"
                f" {told or 'a Job or pod of it has not ended'}.",
                holder="a Job or pod of an earlier run",
                since=since,
                next_steps=("wait; if the node of the pod is dead, remove the pod",),
                command=_runners(workspace),
            )
        case Reason.INTERRUPTED:
            return _repetition(seen, run)
        case _:
            return Account(
                attention=Attention.WAITING,
                sentence=f"{subject(workspace)} is about to begin {run}, because {_WHY[reason]}.",
                holder=CONTROLLER,
                since=since,
                next_steps=(f"if this lasts for more than a minute, {CHECK_CONTROLLER}",),
                command=CHECK_COMMAND,
            )


def _repetition(seen: Around, run: str) -> Account:
    workspace = seen.workspace
    current = workspace.status.current_run
    begins = time_of(current.not_before) if current is not None else None
    told = clause(workspace.status.message)
    when = at(begins, seen.now) if begins is not None else "as soon as its pause is over"
    return Account(
        attention=Attention.WAITING,
        sentence=f"{subject(workspace)} repeats an interrupted plan as {run}, which begins {when}"
        f"{f': {told}' if told else ''}.",
        holder="the pause between repetitions",
        since=time_of(workspace.status.last_reconcile_time),
        next_steps=("wait, or request a reconcile to begin at once",),
        command=command("magos", "reconcile", path_of(workspace)),
    )


def gated(workspace: Workspace, gate: AwaitingApproval) -> Account:
    """Explain a plan that waits for a person."""
    violated = gate.reason is GateReason.AUDIT_VIOLATIONS
    count = len(workspace.status.policy_violations)
    why = f", and violates {count} {'policy' if count == 1 else 'policies'}" if violated else ""
    approve = ["magos", "approve", path_of(workspace), "--run", gate.run_id]
    if violated:
        approve.append("--acknowledge-warnings")
    commit = f" of commit {short(gate.revision)}" if gate.revision else ""
    return Account(
        attention=Attention.NEEDS_YOU,
        sentence=f"{subject(workspace)} waits for a person to approve run {gate.run_id}: its plan{commit}"
        f" {changes(workspace.status.plan_summary)}{why}.",
        holder="a person who may approve",
        since=time_of(gate.since),
        next_steps=(
            f"read the plan{' and the violations' if violated else ''}, then approve exactly this run",
            "or discard the plan: a reconcile request begins a new run",
        ),
        command=command(*approve),
    )


def changes(summary: PlanSummary | None) -> str:
    """Return what a plan would do, what is lost first."""
    if summary is None:
        return "has changes"
    return f"destroys {summary.destroy}, changes {summary.change} and adds {summary.add}"


def held(workspace: Workspace, reason: Reason) -> Account:
    """Explain a plan that is kept because a run may not act here for now."""
    told = clause(workspace.status.message)
    return Account(
        attention=Attention.BROKEN,
        sentence=f"{subject(workspace)} keeps the plan of run {workspace.status.current_run_id} and cannot apply it:"
        f" {told or reason}.",
        holder=CONTROLLER,
        since=time_of(workspace.status.last_reconcile_time),
        next_steps=(
            plain(explanations()[reason].fix),
            f"or discard the plan: {command('magos', 'discard', path_of(workspace))}",
        ),
        command=command_of(workspace, reason),
    )


def command_of(workspace: Workspace, reason: Reason) -> str:
    """Return the command of the fix of a failure; empty if it is not one command."""
    namespace = workspace.metadata.namespace or "default"
    account = workspace.spec.service_account_name or JOB_SERVICE_ACCOUNT
    match reason:
        case Reason.SERVICE_ACCOUNT_NOT_ALLOWED:
            label = ("kubectl", "label", "serviceaccount", account, f"--namespace={namespace}", f"{RUNNER}=true")
            return command(*label)
        case Reason.PLAN_FAILED | Reason.POLICY_VIOLATION | Reason.POLICY_EVALUATION_FAILED:
            return command("magos", "logs", path_of(workspace), "--phase", "plan")
        case Reason.APPLY_FAILED:
            return command("magos", "logs", path_of(workspace), "--phase", "apply")
        case Reason.RESULT_MISSING:
            return command("magos", "reconcile", path_of(workspace))
        case _:
            return ""


def _runners(workspace: Workspace) -> str:
    namespace = workspace.metadata.namespace or "default"
    label = f"{WORKSPACE}={workspace_label(workspace.metadata.name)}"
    return command("kubectl", "get", "jobs,pods", f"--namespace={namespace}", f"--selector={label}", "--output=wide")
