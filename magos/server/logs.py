"""The log of one phase of a run as text: out of the archive, or of its pod while that exists (spec §9.2)."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack

import structlog
from starlette.responses import Response, StreamingResponse

from magos import joblog
from magos.api.kube import Pod
from magos.api.names import JobType
from magos.history.archive import LogNotFound
from magos.history.runs import Run
from magos.history.store import HistoryUnavailable
from magos.server.pods import RunKey, newest_pod
from magos.server.problems import Problem
from magos.server.resources import NAME, NAMESPACE
from magos.server.runs import ONE, RUN, UID, find_run, readable, run_id_of, unknown_run
from magos.server.table import Answer, Call, Operation, Parameter

TEXT = "text/plain; charset=utf-8"

PHASE = Parameter(
    name="phase",
    description="Which of the two Jobs.",
    schema={"type": "string", "enum": [str(each) for each in JobType]},
)

_log = structlog.get_logger(__name__)


def operations() -> list[Operation]:
    """Return the operation that reads logs."""
    return [
        Operation(
            method="GET",
            path=f"{ONE}/{{runID}}/log",
            handler=_read,
            summary="Read the log of a run",
            description="`phase` is `apply` by default. The log of a Job that still runs is sent as it is written.",
            parameters=(NAMESPACE, NAME, RUN, PHASE, UID),
            answer=Answer(description="The whole log.", media="text/plain"),
            refusals=(400, 403, 404),
        )
    ]


def phase_of(call: Call) -> JobType | None:
    """Return the phase that the query names, None if it names none, or raise a ``Problem`` 400."""
    text = call.query("phase")
    try:
        return JobType(text) if text else None
    except ValueError as error:
        raise Problem(400, f"phase {text[:20]!r} is neither plan nor apply") from error


async def _read(call: Call) -> Response:
    run_id, phase = run_id_of(call), phase_of(call) or JobType.APPLY
    workspace = await readable(call)
    unavailable: HistoryUnavailable | None = None
    run: Run | None = None
    try:
        run = await find_run(call.context, call, workspace, run_id)
    except HistoryUnavailable as error:
        unavailable = error  # the pod may still have the log
    archived = await _archived(call, run, phase)
    if archived is not None:
        return StreamingResponse(archived, media_type=TEXT)
    earlier = call.query("uid") and (workspace is None or workspace.metadata.uid != call.query("uid"))
    key = RunKey(call.namespace, call.name, run_id)
    pod = None if earlier else await newest_pod(call.context.client, key, phase)
    if pod is not None:
        return StreamingResponse(_of_pod(call, pod, phase), media_type=TEXT)
    if unavailable is not None:
        raise unavailable
    if run is None:
        raise unknown_run(call, run_id)
    recorded = run.phase(phase)
    why = recorded.log_error if recorded is not None else f"the run has no {phase}"
    raise Problem(404, f"there is no log of the {phase} of run {run_id}: {why or 'none is stored'}")


async def _archived(call: Call, run: Run | None, phase: JobType) -> AsyncIterator[bytes] | None:
    """Return the stored log, opened, so that what cannot be opened is answered as such; None if there is none."""
    recorded = run.phase(phase) if run is not None else None
    if recorded is None or not recorded.log_key or call.context.archive is None:
        return None
    stack = AsyncExitStack()
    try:
        chunks = await stack.enter_async_context(call.context.archive.open(recorded.log_key))
    except LogNotFound:
        _log.warning("a log that is on record is not in the bucket", key=recorded.log_key)
        return None

    async def stream() -> AsyncGenerator[bytes, None]:
        async with stack:
            async for chunk in chunks:
                yield chunk

    return stream()


async def _of_pod(call: Call, pod: Pod, phase: JobType) -> AsyncGenerator[bytes, None]:
    client = call.context.client
    if pod.ended:
        async for chunk in joblog.finished_log(client, pod, phase):
            yield chunk
        return
    stage = None
    async for line in joblog.followed_lines(client, pod, phase):
        if line.stage is not stage:
            stage = line.stage
            yield joblog.heading(stage).encode() + b"\n"
        yield line.text + b"\n"
