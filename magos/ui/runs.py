"""Runs of a Workspace: the table, its sparkline, and one run."""

from collections.abc import Sequence
from datetime import datetime

from markupsafe import Markup
from msgspec import Struct

from magos.api.names import JobType
from magos.api.workspace import PlanSummary, PolicyViolation, UsedVariable, Workspace
from magos.history.runs import Run, RunPhase
from magos.ui import links
from magos.ui.badges import Badge, result_badge, workspace_badge
from magos.ui.links import Commit
from magos.ui.plan import PlanView
from magos.ui.svg import Bar, sparkline
from magos.ui.times import Moment, between, duration, moment


class LogLink(Struct, frozen=True, kw_only=True):
    """The log of a phase. ``problem`` says why none, or only a part of it, is stored."""

    phase: JobType
    path: str
    result: str
    took: str
    reason: str
    problem: str


class RunRow(Struct, frozen=True, kw_only=True):
    """A run in the table and on its page."""

    run_id: str
    short: str
    path: str
    badge: Badge
    trigger: str
    by: str
    approved_by: str
    approval: str
    started: Moment | None
    took: str
    commit: Commit | None
    revision: str
    changes: PlanSummary | None
    reason: str
    message: str
    logs: tuple[LogLink, ...]
    violations: tuple[PolicyViolation, ...]
    variables: tuple[UsedVariable, ...]
    digest: str
    tool: str


class RunPageView(Struct, frozen=True, kw_only=True):
    """The page of one run."""

    run: RunRow
    name: str
    path: str
    """Of the Workspace, below the root."""

    plan: PlanView


class Paging(Struct, frozen=True, kw_only=True):
    """Where in history the runs stand: the cursor that asked for them, the one of older runs, and what is wrong."""

    cursor: str = ""
    older: str = ""
    problem: str = ""


class RunsView(Struct, frozen=True, kw_only=True):
    """The tab of runs. ``problem`` says why there are none to show."""

    rows: tuple[RunRow, ...] = ()
    spark: Markup = Markup("")
    newer: str = ""
    older: str = ""
    problem: str = ""


def short_id(run_id: str) -> str:
    """Return the part of a run ID that tells runs of a Workspace apart: ``…c19f0a2b``."""
    return f"…{run_id.rpartition('-')[2]}"


def run_row(workspace: Workspace, run: Run, now: datetime) -> RunRow:
    """Return a run as it is shown."""
    path = links.page("workspaces", workspace.metadata.namespace, workspace.metadata.name, "runs", run.run_id)
    unfinished = run.result is None and run.run_id == workspace.status.current_run_id
    return RunRow(
        run_id=run.run_id,
        short=short_id(run.run_id),
        path=path,
        badge=workspace_badge(workspace) if unfinished else result_badge(run.result),
        trigger=str(run.trigger),
        by=run.principal,
        approved_by=run.approved_by,
        approval=str(run.approval or ""),
        started=moment(run.started_at, now),
        took=_took(run.started_at, run.finished_at, now),
        commit=links.commit(workspace.spec.source, run.observed_revision),
        revision=run.target_revision,
        changes=run.changes,
        reason=run.reason,
        message=run.message,
        logs=tuple(_log(path, phase, found, now) for phase in JobType if (found := run.phase(phase)) is not None),
        violations=run.violations,
        variables=run.variables,
        digest=run.plan_digest,
        tool=run.terraform_version,
    )


def runs_view(workspace: Workspace, runs: Sequence[Run], now: datetime, paging: Paging) -> RunsView:
    """Return the tab of runs; ``runs`` are those of the page, newest first."""
    base = links.page("workspaces", workspace.metadata.namespace, workspace.metadata.name)
    return RunsView(
        rows=tuple(run_row(workspace, run, now) for run in runs),
        spark=sparkline(tuple(_bar(run, now) for run in reversed(runs))),
        newer=links.query(base, tab="runs") if paging.cursor else "",
        older=links.query(base, tab="runs", cursor=paging.older) if paging.older else "",
        problem=paging.problem,
    )


def _log(path: str, phase: JobType, found: RunPhase, now: datetime) -> LogLink:
    return LogLink(
        phase=phase,
        path=links.query(f"{path}/log", phase=str(phase)),
        result=str(found.result or ""),
        took=_took(found.started_at, found.finished_at, now),
        reason=found.reason,
        problem=found.log_error,
    )


def _took(start: str | None, end: str | None, now: datetime) -> str:
    seconds = between(start, end or now)
    return "" if seconds is None else duration(seconds)


def _bar(run: Run, now: datetime) -> Bar:
    seconds = between(run.started_at, run.finished_at or now) or 0
    badge = result_badge(run.result)
    return Bar(seconds=seconds, tone=badge.tone, title=f"{short_id(run.run_id)}: {badge.word}, {duration(seconds)}")
