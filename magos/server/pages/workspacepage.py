"""The page of a Workspace, its runs, and the two forms that ask something of it."""

from starlette.responses import Response

from magos.api.workspace import WORKSPACES, Workspace
from magos.history.runs import Run
from magos.history.store import HistoryUnavailable
from magos.ids import parse_run_id
from magos.server import writes
from magos.server.access import Right
from magos.server.currentrun import recent_runs, with_recent
from magos.server.pages.following import alone
from magos.server.pages.runlog import find_run, plan_log, run_id_of
from magos.server.pages.visit import Visit
from magos.server.problems import Problem
from magos.ui import links, plan, runs
from magos.ui.planlog import PlanLog
from magos.ui.workspace import Choices, Rights, Surroundings, Tab, view

DOWN = "Run history is not available at the moment: only the current run is shown. All else works."
OFF = "Run history is switched off here: only the current run is known."


async def show(visit: Visit) -> Response:
    """Show a Workspace."""
    return await _shown(visit, await visit.found(WORKSPACES, visit.context.cluster.workspaces))


async def reconcile(visit: Visit) -> Response:
    """Ask for a run."""
    right = writes.right_to_reconcile(visit.namespace, visit.name)
    grant = await visit.context.access.require(visit.caller, right)
    await writes.reconcile(visit.context.client, grant, visit.context.clock.now())
    return visit.to(links.page("workspaces", visit.namespace, visit.name))


async def approve(visit: Visit) -> Response:
    """Approve the very run that the dialog showed; if another one waits by now, show the dialog of that one."""
    right = writes.right_to_approve(visit.namespace, visit.name)
    grant = await visit.context.access.require(visit.caller, right)
    form = await visit.form()
    run_id = form.get("run_id", [""])[0]
    workspace = await visit.found(WORKSPACES, visit.context.cluster.workspaces)
    shown = {str(index) for index in range(len(workspace.status.policy_violations))}
    acknowledged = shown <= set(form.get("acknowledge", []))
    try:
        await writes.approve(visit.context.client, grant, run_id, acknowledge_warnings=acknowledged)
    except Problem as problem:
        if problem.status not in (409, 422):
            raise
        current = await visit.context.client.get(WORKSPACES, visit.namespace, visit.name)
        return await _shown(visit, current, problem=problem)
    return visit.to(links.page("workspaces", visit.namespace, visit.name))


async def run(visit: Visit) -> Response:
    """Show one run."""
    workspace = await visit.found(WORKSPACES, visit.context.cluster.workspaces)
    found = await find_run(visit, workspace, run_id_of(visit))
    row = runs.run_row(workspace, found, visit.context.clock.now())
    name = workspace.metadata.name
    path = links.page("workspaces", workspace.metadata.namespace, name)
    live = await alone(visit, "workspaces", workspace) if found.result is None else None
    changes = plan.view(await plan_log(visit, workspace, found), found.changes)
    return visit.page("run", runs.RunPageView(run=row, name=name, path=path, plan=changes), live=live)


async def _shown(visit: Visit, workspace: Workspace, problem: Problem | None = None) -> Response:
    tab = visit.query("tab")
    choices = Choices(
        tab=Tab(tab) if tab in set(Tab) else Tab.OVERVIEW,
        dialog="approve" if problem else visit.query("dialog"),
        cursor=visit.query("cursor"),
        problem=problem.text if problem else "",
    )
    found, older, trouble = await _runs(visit, workspace, choices)
    project, _ = visit.above(workspace)
    around = Surroundings(
        project=project,
        account=visit.account(workspace),
        rights=await _rights(visit),
        runs=found,
        older=older,
        history_problem=trouble,
        plan=await _plan(visit, workspace) if choices.tab is Tab.PLAN else "",
        now=visit.context.clock.now(),
        root=visit.root,
    )
    status = problem.status if problem else 200
    return visit.page(
        "workspace", view(workspace, around, choices), live=await alone(visit, "workspaces", workspace), status=status
    )


async def _runs(visit: Visit, workspace: Workspace, choices: Choices) -> tuple[tuple[Run, ...], str, str]:
    """Return the runs to show, the cursor of older ones, and what is wrong with history."""
    recent = recent_runs(workspace)
    history = visit.context.history
    if history is None:
        return recent, "", OFF
    cursor = choices.cursor if choices.tab is Tab.RUNS else ""
    try:
        page = await history.runs(visit.namespace, visit.name, uid=workspace.metadata.uid, cursor=cursor)
    except HistoryUnavailable:
        return recent, "", DOWN
    except ValueError as error:
        raise Problem(400, "cursor is not one that an earlier page gave") from error
    return page.items if cursor else with_recent(page.items, recent), page.next_cursor, ""


async def _plan(visit: Visit, workspace: Workspace) -> PlanLog | str:
    """Return what the log of the plan tells that the counts of status belong to, or why that is not known."""
    status = workspace.status
    if status.plan_summary is None:
        return ""
    if status.current_run is None or status.current_run.has_changes is None:
        return "These are the counts of an earlier plan: its changes are on the page of its run."
    try:
        found = await find_run(visit, workspace, parse_run_id(status.current_run_id))
    except (Problem, HistoryUnavailable, ValueError):
        return "The run of this plan cannot be read at the moment, so its changes are not shown."
    return await plan_log(visit, workspace, found)


async def _rights(visit: Visit) -> Rights:
    async def refusal(right: Right) -> str:
        allowed = await visit.context.access.allows(visit.caller, right)
        return "" if allowed else f"{visit.caller.username} may not {right}."

    return Rights(
        reconcile=await refusal(writes.right_to_reconcile(visit.namespace, visit.name)),
        approve=await refusal(writes.right_to_approve(visit.namespace, visit.name)),
    )
