"""The run that a page shows, and the logs of its phases."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

from magos import joblog
from magos.api.names import JobType
from magos.api.workspace import WORKSPACES, Workspace
from magos.history.archive import TRUNCATED, ArchiveUnavailable, LogNotFound
from magos.history.runs import Run
from magos.history.store import HistoryUnavailable
from magos.ids import RunID, parse_run_id
from magos.runtime.client.errors import ApiError
from magos.server.currentrun import filled, recent_runs
from magos.server.pages.visit import Visit
from magos.server.pods import RunKey, newest_pod
from magos.server.problems import Problem
from magos.ui.planlog import PlanLog, Reader
from magos.ui.workspace import live_log


async def find_run(visit: Visit, workspace: Workspace, run_id: RunID) -> Run:
    """Return the run as history and status know it, or raise a ``Problem`` 404 or 503."""
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


async def log_chunks(visit: Visit, run: Run, phase: JobType, stack: AsyncExitStack) -> AsyncIterator[bytes] | str:
    """Return the log out of the archive or of its pod, or why there is none."""
    recorded, archive = run.phase(phase), visit.context.archive
    if recorded is not None and recorded.log_key and archive is not None:
        try:
            return await stack.enter_async_context(archive.open(recorded.log_key))
        except LogNotFound:
            pass  # the pod may still have it
    key = RunKey(visit.namespace, visit.name, parse_run_id(run.run_id))
    pod = await newest_pod(visit.context.client, key, phase)
    if pod is not None and pod.ended:
        return joblog.finished_log(visit.context.client, pod, phase)
    if recorded is None:
        return f"This run has no {phase}."
    return f"There is no log of the {phase} of this run: {recorded.log_error or 'none is stored, and its pod is gone'}."


async def plan_log(visit: Visit, workspace: Workspace, run: Run) -> PlanLog | str:
    """Return what the log of the run's plan tells, or why that is not known; no trouble with a log fails the page."""
    if run.run_id == workspace.status.current_run_id and live_log(workspace).endswith(f"phase={JobType.PLAN}"):
        return "The plan is being made. Its changes are shown once it has ended."
    try:
        async with AsyncExitStack() as stack:
            chunks = await log_chunks(visit, run, JobType.PLAN, stack)
            if isinstance(chunks, str):
                return chunks
            reader = Reader(TRUNCATED.decode().rstrip())
            async for chunk in chunks:
                reader.feed(chunk)
            return reader.finish()
    except (ArchiveUnavailable, ApiError) as error:
        return f"The plan's log cannot be read at the moment: {error}"
