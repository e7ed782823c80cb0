"""Runs that history may not have yet, out of a Workspace's status (spec §9.2). Pure."""

from collections.abc import Iterable

import msgspec

from magos.api.names import JobType, source_key
from magos.api.triggers import Trigger
from magos.api.workspace import CurrentRun, RunRecord, Workspace
from magos.history.runs import Run, RunPhase


def recent_runs(workspace: Workspace) -> tuple[Run, ...]:
    """Return the current run, and those that have ended and wait to be stored, newest first."""
    found = {record.run_id: _ended(workspace, record) for record in workspace.status.history_outbox}
    current = _current(workspace)
    if current is not None:
        known = found.get(current.run_id)
        found[current.run_id] = current if known is None else filled(known, current)
    return tuple(found[run_id] for run_id in sorted(found, reverse=True))


def with_recent(items: Iterable[Run], recent: Iterable[Run]) -> tuple[Run, ...]:
    """Return the first page of history with ``recent`` runs: what history has of a run wins."""
    rows = {each.run_id: each for each in items}
    for run in recent:
        known = rows.get(run.run_id)
        rows[run.run_id] = run if known is None else filled(known, run)
    return tuple(rows[run_id] for run_id in sorted(rows, reverse=True))


def filled(run: Run, more: Run) -> Run:
    """Return ``run`` with what it does not say taken from ``more``, the same run as another source tells it."""
    changes = {}
    for each in msgspec.structs.fields(Run):
        mine, other = getattr(run, each.name), getattr(more, each.name)
        if other != each.default and mine == each.default:
            changes[each.name] = other
    return msgspec.structs.replace(run, **changes)


def _current(workspace: Workspace) -> Run | None:
    status, meta = workspace.status, workspace.metadata
    if not status.current_run_id or status.current_run is None:
        return None
    run = status.current_run
    approval = run.approval
    planned = run.has_changes is not None  # before that, the summary is still the one of an earlier plan
    source = workspace.spec.source
    same_source = run.source_key == source_key(source.repo_url, source.target_revision)
    return Run(
        run_id=status.current_run_id,
        workspace_uid=meta.uid,
        project=workspace.spec.project_ref.name,
        trigger=status.current_run_trigger or Trigger.UNKNOWN,
        target_revision=source.target_revision if same_source else "",
        observed_revision=run.revision,
        started_at=status.last_run_started_at,
        principal=run.principal,
        approved_by=approval.by if approval is not None else "",
        approval=approval.kind if approval is not None else None,
        variables=run.variables,
        changes=status.plan_summary if planned else None,
        violations=status.policy_violations if planned else (),
        policies_evaluated=status.policies_evaluated if planned else None,
        plan_digest=run.plan_digest,
        plan=_phase(run, JobType.PLAN),
        apply=_phase(run, JobType.APPLY),
    )


def _phase(run: CurrentRun, phase: JobType) -> RunPhase | None:
    job = run.plan_job if phase is JobType.PLAN else run.apply_job
    return RunPhase(job_name=job) if job else None


def _ended(workspace: Workspace, record: RunRecord) -> Run:
    return Run(
        run_id=record.run_id,
        workspace_uid=workspace.metadata.uid,
        project=workspace.spec.project_ref.name,
        trigger=record.trigger,
        target_revision=record.target_revision,
        observed_revision=record.revision,
        started_at=record.started_at,
        finished_at=record.finished_at,
        result=record.result,
        reason=record.reason,
        message=record.message,
        principal=record.principal,
        approved_by=record.approved_by,
        approval=record.approval_kind,
        variables=record.variables,
    )
