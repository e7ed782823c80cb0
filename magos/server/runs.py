"""Runs of a Workspace, out of history and status (spec §9.2)."""

from starlette.responses import Response

from magos.api.workspace import WORKSPACES, Workspace
from magos.history.runs import Run, RunPage
from magos.ids import RunID, parse_run_id
from magos.server.access import Right, Verb
from magos.server.context import Context
from magos.server.currentrun import filled, recent_runs, with_recent
from magos.server.encoding import answer
from magos.server.problems import Problem
from magos.server.resources import BASE, NAME, NAMESPACE
from magos.server.table import Answer, Call, Operation, Parameter

MOST = 100
USUAL = 20

ONE = f"{BASE}/{WORKSPACES.plural}/{{namespace}}/{{name}}/runs"
RUN = Parameter(
    name="runID",
    where="path",
    description="ID of the run.",
    schema={"type": "string", "pattern": r"^\d{8}T\d{6}-[0-9a-f]{8}$"},
)
UID = Parameter(name="uid", description="UID of an earlier Workspace of that name. Default: the one that exists.")


def operations() -> list[Operation]:
    """Return the operations that read runs."""
    return [
        Operation(
            method="GET",
            path=ONE,
            handler=_list,
            summary="List runs of a Workspace",
            description="Newest first. Without a run history the list is empty.",
            parameters=(
                NAMESPACE,
                NAME,
                Parameter(
                    name="limit",
                    description=f"Runs a page; more than {MOST} count as {MOST}.",
                    schema={"type": "integer", "minimum": 1, "default": USUAL},
                ),
                Parameter(name="cursor", description="`nextCursor` of the page before."),
                UID,
            ),
            answer=Answer(description="A page of runs.", type=RunPage),
            refusals=(400, 403, 404),
        ),
        Operation(
            method="GET",
            path=f"{ONE}/{{runID}}",
            handler=_get,
            summary="Get a run",
            parameters=(NAMESPACE, NAME, RUN, UID),
            answer=Answer(description="The run.", type=Run),
            refusals=(400, 403, 404),
        ),
    ]


async def readable(call: Call) -> Workspace | None:
    """Return the Workspace of the path as it is now, None if there is none (any more).

    Raises a ``Problem`` 403 for whoever may not get it.
    """
    right = Right(verb=Verb.GET, resource=WORKSPACES.plural, namespace=call.namespace, name=call.name)
    await call.context.access.require(call.caller, right)
    return call.context.cluster.workspaces.cache.get(call.namespace, call.name)


def run_id_of(call: Call) -> RunID:
    """Return the run ID of the path, or raise a ``Problem`` 400."""
    try:
        return parse_run_id(call.request.path_params["runID"])
    except ValueError as error:
        raise Problem(400, str(error)) from error


async def find_run(context: Context, call: Call, workspace: Workspace | None, run_id: RunID) -> Run | None:
    """Return the run as history and status know it. Raises ``HistoryUnavailable`` where only history could know it."""
    uid = call.query("uid") or (workspace.metadata.uid if workspace is not None else "")
    recent = None
    if workspace is not None and workspace.metadata.uid == uid:
        recent = next((each for each in recent_runs(workspace) if each.run_id == run_id), None)
    if context.history is None:
        return recent
    row = await context.history.run(call.namespace, call.name, run_id, uid=uid)
    return recent if row is None else row if recent is None else filled(row, recent)


async def _list(call: Call) -> Response:
    limit, cursor, uid = _limit(call), call.query("cursor"), call.query("uid")
    workspace = await readable(call)
    history = call.context.history
    page = RunPage(items=())
    if history is not None:
        of = uid or (workspace.metadata.uid if workspace is not None else "")
        try:
            page = await history.runs(call.namespace, call.name, uid=of, limit=limit, cursor=cursor)
        except ValueError as error:
            raise Problem(400, "cursor is not one that an earlier page gave") from error
        if workspace is not None and of == workspace.metadata.uid and not cursor:
            items = with_recent(page.items, recent_runs(workspace))
            page = RunPage(items=items, next_cursor=page.next_cursor)
    if workspace is None and not page.items:
        raise Problem(404, f"there is no {WORKSPACES.ref(call.namespace, call.name)}, and no run of it is kept")
    return answer(page)


async def _get(call: Call) -> Response:
    run_id = run_id_of(call)
    workspace = await readable(call)
    run = await find_run(call.context, call, workspace, run_id)
    if run is None:
        raise unknown_run(call, run_id)
    return answer(run)


def unknown_run(call: Call, run_id: str) -> Problem:
    """Return the answer to a run that nothing is known of."""
    return Problem(404, f"{WORKSPACES.ref(call.namespace, call.name)} has no run {run_id}, or it is no longer kept")


def _limit(call: Call) -> int:
    text = call.query("limit")
    if not text:
        return USUAL
    if not (text.isascii() and text.isdecimal() and int(text[:9]) > 0):
        raise Problem(400, f"limit {text[:20]!r} is not a number of at least 1")
    return min(int(text[:9]), MOST)
