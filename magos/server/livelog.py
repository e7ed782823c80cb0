"""The log of the current run as it is written, as server-sent events (spec §9.2).

A stream is about one run, the one that is current when it begins, and one of its phases. It waits for the pod and says
so, and ends with ``eof`` when the pod has ended, when another run is current, or when no pod will come any more.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from enum import StrEnum

import anyio
import structlog
from msgspec import Struct, field
from starlette.responses import Response

from magos import joblog
from magos.api.kube import Pod
from magos.api.names import JobType
from magos.api.phases import TERMINAL
from magos.api.workspace import Workspace
from magos.ids import RunID
from magos.runtime.client.errors import ApiError
from magos.server.events import expired
from magos.server.logs import PHASE, phase_of
from magos.server.pods import RunKey, newest_pod
from magos.server.problems import Problem
from magos.server.resources import NAME, NAMESPACE
from magos.server.runs import ONE, readable
from magos.server.sse import PING, PING_SECONDS, EventStream, event
from magos.server.table import Answer, Call, Operation

LOOK_SECONDS = 1.0
"""So often a stream looks whether its run is still the current one."""

POD_SECONDS = 2.0
"""So often a stream that waits for its pod looks for it."""

_LINES = 256

_log = structlog.get_logger(__name__)


class LogEventType(StrEnum):
    """What an event of the stream says."""

    STATUS = "status"
    LINE = "line"
    ERROR = "error"
    EOF = "eof"


class LogEvent(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One event. ``error`` and ``eof`` are the last of a stream; after ``error`` one may connect again."""

    type: LogEventType
    run_id: str = field(default="", name="runID")
    phase: str = ""
    pod_name: str = ""
    line: str | None = None
    message: str = ""


def operations() -> list[Operation]:
    """Return the operation that follows logs."""
    return [
        Operation(
            method="GET",
            path=f"{ONE}/current/log/stream",
            handler=_stream,
            summary="Follow the log of the current run",
            description=(
                "Each event is `{type: status, line, error or eof, runID, phase, podName, line, message}`. `eof` and"
                " `error` end the stream. By default the phase is `apply` once that has begun, before that `plan`."
            ),
            parameters=(NAMESPACE, NAME, PHASE),
            answer=Answer(description="Server-sent events.", media="text/event-stream"),
            refusals=(400, 403, 404),
        )
    ]


async def _stream(call: Call) -> Response:
    phase = phase_of(call)
    workspace = await readable(call)
    if workspace is None:
        raise Problem(404, f"there is no Workspace {call.namespace}/{call.name}")
    run = workspace.status.current_run
    applying = run is not None and bool(run.apply_job)
    phase = phase or (JobType.APPLY if applying else JobType.PLAN)
    follower = _LogFollower(call, workspace, phase)
    return EventStream(follower.chunks)


class _LogFollower:
    """One stream."""

    def __init__(self, call: Call, workspace: Workspace, phase: JobType) -> None:
        self._call = call
        self._clock = call.context.clock
        self._run_id = workspace.status.current_run_id
        self._uid = workspace.metadata.uid
        self._phase = phase
        self._pod = ""
        self._looked = self._clock.monotonic()

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield the events of the stream as they are sent."""
        try:
            async for chunk in self._events():
                yield chunk
        except Problem as problem:
            yield self._event(LogEventType.ERROR, problem.text)
        except ApiError as error:
            _log.warning("a log cannot be followed", run_id=self._run_id, error=str(error))
            yield self._event(LogEventType.ERROR, "the log cannot be read at the moment: connect again")

    async def _events(self) -> AsyncGenerator[bytes, None]:
        told = ""
        looked_for_pod = float("-inf")
        while True:
            if ending := self._ending():
                yield ending
                return
            if await self._due():
                yield PING
            pod = None
            if self._run_id and self._clock.monotonic() - looked_for_pod >= POD_SECONDS:
                looked_for_pod = self._clock.monotonic()
                key = RunKey(self._call.namespace, self._call.name, RunID(self._run_id))
                pod = await newest_pod(self._call.context.client, key, self._phase)
                if pod is None and self._over():
                    yield self._event(LogEventType.EOF, "the run is over, and its pod is gone")
                    return
            if pod is not None:
                self._pod = pod.metadata.name
                if pod.status.phase not in ("", "Pending") or pod.status.init_container_statuses:
                    break
            state = f"pod {self._pod} has not started yet" if pod is not None else told or "waiting for the pod"
            if not self._run_id:
                state = "waiting for a run"
            if state != told:
                told = state
                yield self._event(LogEventType.STATUS, state)
            await anyio.sleep(LOOK_SECONDS)
        yield self._event(LogEventType.STATUS, f"reading pod {self._pod}")
        async for chunk in self._lines(pod):
            yield chunk

    async def _lines(self, pod: Pod) -> AsyncGenerator[bytes, None]:
        async with _reading(joblog.followed_lines(self._call.context.client, pod, self._phase)) as lines:
            stage = None
            while True:
                found = await lines.some(LOOK_SECONDS)
                if found is None:
                    yield self._event(LogEventType.EOF, "the pod has ended")
                    return
                chunk = b""
                for line in found:
                    if line.stage is not stage:
                        stage = line.stage
                        chunk += self._line(joblog.heading(stage))
                    chunk += self._line(line.text.decode("utf-8", "replace"))
                if chunk:
                    yield chunk
                if ending := self._ending():
                    yield ending
                    return
                if await self._due():
                    yield PING

    def _ending(self) -> bytes:
        """Return the last event if the stream is over whatever the pod does, empty otherwise."""
        hub = self._call.hubs["workspaces"]
        if hub.closing:
            return self._event(LogEventType.ERROR, "the server stops: connect again")
        if expired(self._call):
            return self._event(LogEventType.ERROR, "the credential has expired")
        found = self._workspace()
        if found is None:
            return self._event(LogEventType.EOF, "the Workspace is gone")
        if not self._run_id:
            self._run_id = found.status.current_run_id
        if found.status.current_run_id != self._run_id:
            return self._event(LogEventType.EOF, f"run {found.status.current_run_id} is the current one now")
        return b""

    def _over(self) -> bool:
        """Tell whether no pod of this phase will come any more."""
        found = self._workspace()
        if found is None or found.status.phase in TERMINAL:
            return True
        run = found.status.current_run
        return self._phase is JobType.PLAN and run is not None and run.has_changes is not None

    def _workspace(self) -> Workspace | None:
        found = self._call.context.cluster.workspaces.cache.get(self._call.namespace, self._call.name)
        return found if found is not None and found.metadata.uid == self._uid else None

    async def _due(self) -> bool:
        """Tell whether a ping is due, after looking whether the caller may still read: raises a ``Problem`` if not."""
        if self._clock.monotonic() - self._looked < PING_SECONDS:
            return False
        self._looked = self._clock.monotonic()
        await readable(self._call)
        return True

    def _event(self, kind: LogEventType, message: str) -> bytes:
        return event("", self._made(kind, message=message))

    def _line(self, text: str) -> bytes:
        return event("", self._made(LogEventType.LINE, line=text))

    def _made(self, kind: LogEventType, *, line: str | None = None, message: str = "") -> LogEvent:
        return LogEvent(
            type=kind, run_id=self._run_id, phase=self._phase, pod_name=self._pod, line=line, message=message
        )


class _Lines:
    """Lines that a task reads ahead, a bounded number of them."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[joblog.LogLine | None] = asyncio.Queue(_LINES)
        self.failure: Exception | None = None

    async def some(self, seconds: float) -> list[joblog.LogLine] | None:
        """Return the lines that have been read, none after so many seconds without any; None at their end.

        Raises what the reader raised, once everything it had read was returned.
        """
        found: list[joblog.LogLine] = []
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                found_one = await self.queue.get()
                while found_one is not None:
                    found.append(found_one)
                    if self.queue.empty():
                        return found
                    found_one = self.queue.get_nowait()
                if found:
                    self.queue.put_nowait(None)
                    return found
                if self.failure is not None:
                    raise self.failure
                return None
        return found


@asynccontextmanager
async def _reading(lines: AsyncIterator[joblog.LogLine]) -> AsyncIterator[_Lines]:
    """Read ``lines`` in a task of its own until the block ends."""
    ahead = _Lines()

    async def read() -> None:
        try:
            async for line in lines:
                await ahead.queue.put(line)
        except Exception as error:  # noqa: BLE001 - handed to whoever asks for lines
            ahead.failure = error
        await ahead.queue.put(None)

    task = asyncio.create_task(read(), name="reads a log")
    try:
        yield ahead
    finally:
        task.cancel()
        await asyncio.wait([task])
