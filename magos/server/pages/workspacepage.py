"""The page of a Workspace, its runs, and the two forms that ask something of it."""

from starlette.responses import Response

from magos.api.workspace import WORKSPACES, Workspace
from magos.history.runs import Run
from magos.history.store import HistoryUnavailable
from magos.ids import RunID, parse_run_id
from magos.server import writes
from magos.server.access import Right
from magos.server.currentrun import filled, recent_runs, with_recent
from magos.server.pages.following import alone
from magos.server.pages.visit import Visit
from magos.server.problems import Problem
from magos.ui import links, runs
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
    found = await find_run(visit, workspace)
    row = runs.run_row(workspace, found, visit.context.clock.now())
    name = workspace.metadata.name
    path = links.page("workspaces", workspace.metadata.namespace, name)
    live = await alone(visit, "workspaces", workspace) if found.result is None else None
    return visit.page("run", runs.RunPageView(run=row, name=name, path=path), live=live)


async def find_run(visit: Visit, workspace: Workspace) -> Run:
    """Return the run of the path as history and status know it, or raise a ``Problem`` 400, 404 or 503."""
    run_id = run_id_of(visit)
    recent = next((each for each in recent_runs(workspace) if each.run_id == run_id), None)
    history, row = visit.context.history, None
    if history is not None:
        try:
            row = await history.run(visit.namespace, visit.name, run_id, uid=workspace.metadata.uid)
        except HistoryUnavailable:
            if recent is None:
                raise
    found = recent if row is None else row if recent is None else filled(row, recent)
    if found is None:
        where = WORKSPACES.ref(visit.namespace, visit.name)
        raise Problem(404, f"{where} has no run {run_id}, or it is no longer kept")
    return found


def run_id_of(visit: Visit) -> RunID:
    """Return the run ID of the path, or raise a ``Problem`` 400."""
    try:
        return parse_run_id(visit.request.path_params["runID"])
    except ValueError as error:
        raise Problem(400, str(error)) from error


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


async def _rights(visit: Visit) -> Rights:
    async def refusal(right: Right) -> str:
        allowed = await visit.context.access.allows(visit.caller, right)
        return "" if allowed else f"{visit.caller.username} may not {right}."

    return Rights(
        reconcile=await refusal(writes.right_to_reconcile(visit.namespace, visit.name)),
        approve=await refusal(writes.right_to_approve(visit.namespace, visit.name)),
    )
