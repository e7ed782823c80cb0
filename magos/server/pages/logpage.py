"""The page of a log: a window of the stored one, or the stream of the one that is being written."""

from contextlib import AsyncExitStack

from msgspec import structs
from starlette.responses import Response

from magos.api.names import JobType
from magos.api.status import API_VERSION
from magos.api.workspace import WORKSPACES
from magos.history.runs import Run
from magos.server.pages.runlog import find_run, log_chunks, run_id_of
from magos.server.pages.visit import Visit
from magos.server.problems import Problem
from magos.ui import links
from magos.ui.logs import LogView, Reading, view
from magos.ui.workspace import live_log


async def show(visit: Visit) -> Response:
    """Show the log of a phase: the window from line ``from`` on, or that of the first match of ``q``."""
    workspace = await visit.found(WORKSPACES, visit.context.cluster.workspaces)
    run = await find_run(visit, workspace, run_id_of(visit))
    phase = _phase(visit)
    base = _base(visit, run, phase)
    stream = live_log(workspace)
    if run.run_id == workspace.status.current_run_id and stream.endswith(f"phase={phase}"):
        return visit.page("log", structs.replace(base, stream=stream))
    async with AsyncExitStack() as stack:
        chunks = await log_chunks(visit, run, phase, stack)
        if isinstance(chunks, str):
            return visit.page("log", structs.replace(base, problem=chunks))
        reading = Reading(_line(visit.query("from")), base.search)
        async for chunk in chunks:
            reading.feed(chunk)
        return visit.page("log", view(base, reading, visit.root))


def _base(visit: Visit, run: Run, phase: JobType) -> LogView:
    path = links.page("workspaces", visit.namespace, visit.name)
    run_path = f"{path}/runs/{run.run_id}"
    known = tuple(each for each in JobType if run.phase(each) is not None or each is phase)
    return LogView(
        title=f"{str(phase).capitalize()} log of {visit.name}",
        workspace=visit.name,
        workspace_path=path,
        run_path=run_path,
        phase=phase,
        phases=tuple((each, links.query(f"{run_path}/log", phase=str(each))) for each in known),
        search=visit.query("q")[:200],
        base=f"{run_path}/log",
        download=links.query(f"/apis/{API_VERSION}{run_path}/log", phase=str(phase)),
    )


def _phase(visit: Visit) -> JobType:
    text = visit.query("phase") or str(JobType.APPLY)
    try:
        return JobType(text)
    except ValueError:
        raise Problem(400, f"phase {text[:20]!r} is neither plan nor apply") from None


def _line(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0
