"""The explanation of every state of a Workspace, by its phase and reason. Total: no status leads to an error."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

from magos.api.annotations import RECONCILE_REQUEST, reconcile_request
from magos.api.phases import RUNNING, TERMINAL, WITH_PLAN, Phase
from magos.api.project import Project
from magos.api.reasons import WORKSPACE_REASONS, Reason, reason_in
from magos.api.rollout import Rollout
from magos.api.workspace import CurrentRun, Workspace
from magos.explain.account import (
    CHECK_COMMAND,
    CHECK_CONTROLLER,
    CONTROLLER,
    Account,
    Attention,
    clause,
    short,
    subject,
    time_of,
)
from magos.explain.ends import applied, failed
from magos.explain.gates import gated, held, pending
from magos.explain.overlays import with_conditions
from magos.explain.permission import Around, awaiting_permission

_LONG: Final = timedelta(minutes=1)
"""After so long without a first status nobody is at work."""


def explain(workspace: Workspace, project: Project | None, rollout: Rollout | None, now: datetime) -> Account:
    """Return how things stand with ``workspace``; total, and pure. ``rollout`` is the one of its Project, if any."""
    seen = Around(workspace=workspace, project=project, rollout=rollout, now=now)
    return with_conditions(_state(seen), workspace)


def _state(seen: Around) -> Account:
    meta, status = seen.workspace.metadata, seen.workspace.status
    if meta.deletion_timestamp is not None or status.phase is Phase.DELETING:
        return _deleting(seen.workspace)
    if status.phase is None:
        return _new(seen)
    if status.phase not in WORKSPACE_REASONS:
        return _untaken(seen.workspace, f"is in phase {status.phase}, in which no Workspace can be, and begins anew")
    if status.phase not in RUNNING and (status.observed_generation or 0) < meta.generation:
        return _untaken(seen.workspace, "has been edited, and the edit has not been taken up yet")
    if status.phase in TERMINAL and _requested(seen.workspace):
        return _untaken(seen.workspace, "has a reconcile request that has not been taken up yet")
    reason = reason_in(status.phase, status.reason)
    return _PHASES[status.phase](seen, reason)


def _requested(workspace: Workspace) -> bool:
    request, status = reconcile_request(workspace.metadata.annotations), workspace.status
    run = status.current_run or CurrentRun()
    return RECONCILE_REQUEST in workspace.metadata.annotations and request not in (
        status.last_handled_reconcile_request,
        run.request,
    )


def _new(seen: Around) -> Account:
    created = time_of(seen.workspace.metadata.creation_timestamp)
    late = created is not None and seen.now - created > _LONG
    return Account(
        attention=Attention.BROKEN if late else Attention.WAITING,
        sentence=f"{subject(seen.workspace)} is new: {CONTROLLER} has written no status yet.",
        holder=CONTROLLER,
        since=created,
        next_steps=(CHECK_CONTROLLER,) if late else (),
        command=CHECK_COMMAND if late else "",
    )


def _untaken(workspace: Workspace, what: str) -> Account:
    return Account(
        attention=Attention.WAITING,
        sentence=f"{subject(workspace)} {what}; {CONTROLLER} does so at once when it runs.",
        holder=CONTROLLER,
        since=time_of(workspace.status.last_reconcile_time),
        next_steps=(f"if this lasts for more than a minute, {CHECK_CONTROLLER}",),
        command=CHECK_COMMAND,
    )


def _deleting(workspace: Workspace) -> Account:
    told = clause(workspace.status.message) if workspace.status.phase is Phase.DELETING else ""
    return Account(
        attention=Attention.WAITING,
        sentence=f"{subject(workspace)} is being deleted{f': {told}' if told else ''}.",
        holder=CONTROLLER,
        since=time_of(workspace.metadata.deletion_timestamp),
        next_steps=(f"if nothing is said for more than a minute, {CHECK_CONTROLLER}",),
        command=CHECK_COMMAND,
    )


def _running(seen: Around, reason: Reason) -> Account:
    status = seen.workspace.status
    run = status.current_run or CurrentRun()
    planning = status.phase is Phase.PLANNING
    job, verb = (run.plan_job, "plans") if planning else (run.apply_job, "applies")
    commit = f" commit {short(run.revision)}" if run.revision else ""
    starting = reason in (Reason.PLAN_JOB_CREATED, Reason.APPLY_JOB_CREATED)
    told = f": {clause(status.message)}" if starting and status.message else ""
    what = f"starts the Job that {verb}{commit} in run {status.current_run_id}{told}"
    return Account(
        attention=Attention.RUNNING,
        sentence=f"{subject(seen.workspace)} {what if starting else f'{verb}{commit} in run {status.current_run_id}'}.",
        holder=f"Job {job}" if job else "",
        since=_began(seen.workspace),
    )


def _began(workspace: Workspace) -> datetime | None:
    """Return when the run began; an apply that a person approved began with that."""
    status = workspace.status
    approval = status.current_run.approval if status.current_run is not None else None
    if status.phase is Phase.APPLYING and approval is not None:
        return time_of(approval.at)
    return time_of(status.last_run_started_at)


def _planned(seen: Around, reason: Reason) -> Account:
    status = seen.workspace.status
    if status.awaiting_approval is not None and status.phase in WITH_PLAN:
        return gated(seen.workspace, status.awaiting_approval)
    if reason is Reason.AWAITING_ROLLOUT:
        return awaiting_permission(seen, f"the apply of run {status.current_run_id}")
    if reason in (Reason.PLAN_SUCCEEDED, Reason.AUDIT_POLICY_VIOLATION):
        return Account(
            attention=Attention.RUNNING,
            sentence=f"{subject(seen.workspace)} has planned run {status.current_run_id} and is about to apply it:"
            f" {clause(status.message) or 'the apply follows'}.",
            holder=CONTROLLER,
            since=time_of(status.last_reconcile_time),
        )
    return held(seen.workspace, reason)


_PHASES: Final[Mapping[Phase, Callable[[Around, Reason], Account]]] = MappingProxyType(
    {
        Phase.PENDING: pending,
        Phase.PLANNING: _running,
        Phase.PLANNED: _planned,
        Phase.PLANNED_WITH_VIOLATIONS: _planned,
        Phase.APPLYING: _running,
        Phase.APPLIED: applied,
        Phase.FAILED: failed,
        Phase.VALIDATION_FAILED: failed,
    }
)
"""Every phase that a Workspace can be in, but for Deleting, which is told before the phase is looked at."""
