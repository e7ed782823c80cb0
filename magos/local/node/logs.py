"""The log endpoint of the pod runner, to which the API server proxies ``pods/log``.

Serves ``GET /containerLogs/<namespace>/<pod>/<container>`` over TLS as a kubelet does, with ``follow``, ``tailLines``,
``limitBytes``, ``timestamps`` and ``sinceTime``. Following ends when the container has ended and all output is sent.

Output is kept without times, so those that are asked for are made up: the pod's start, and a nanosecond more for each
line. That is what a reader who resumes needs, as every line has a time of its own that stays. How long ago a line
was written is not known, so a request with ``sinceSeconds`` gets a 400 that says so.
"""

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from msgspec import Struct

from magos.api.timestamps import parse_time

if TYPE_CHECKING:
    from aiohttp import web

_CHUNK_BYTES = 64 * 1024
_POLL_SECONDS = 0.1
"""How long a follower waits between two looks at a log file; nothing announces new output."""

_SHUTDOWN_SECONDS = 1.0
"""How long open requests may go on when the server ends; a follower would never end by itself."""

_NANOSECONDS = 1_000_000_000


class ContainerLog(Struct, frozen=True):
    """The file of a container's output, and whether the container has ended: then its output is complete."""

    path: Path
    ended: Callable[[], bool]
    started_at: datetime
    """When the pod started, in whole seconds."""


FindLog = Callable[[str, str, str], ContainerLog | None]
"""Finds a log by namespace, pod and container; None for a container that does not exist or has not started."""


class _Options(Struct, frozen=True, kw_only=True):
    follow: bool
    tail_lines: int | None
    limit_bytes: int | None
    timestamps: bool
    since: datetime | None


def _options(query: "dict[str, str]") -> _Options:
    """Read the query; ``ValueError`` names a parameter that is unusable."""
    if query.get("sinceSeconds"):
        raise ValueError("sinceSeconds is not supported, because log lines here carry no times; leave it out")
    numbers: dict[str, int | None] = {}
    for name in ("tailLines", "limitBytes"):
        text = query.get(name, "")
        if text and not (text.isascii() and text.isdigit()):
            raise ValueError(f"{name} must be a number, not {text!r}")
        numbers[name] = int(text) if text else None
    since = query.get("sinceTime", "")
    return _Options(
        follow=query.get("follow", "") == "true",
        tail_lines=numbers["tailLines"],
        limit_bytes=numbers["limitBytes"],
        timestamps=query.get("timestamps", "") == "true",
        since=parse_time(since) if since else None,
    )


def _tail_offset(path: Path, lines: int) -> int:
    """Return the byte offset at which the last ``lines`` lines begin, reading backwards in blocks."""
    size = path.stat().st_size
    if lines <= 0:
        return size
    position, seen, skip_final = size, 0, True
    with path.open("rb") as stream:
        while position > 0:
            step = min(_CHUNK_BYTES, position)
            position -= step
            stream.seek(position)
            block = stream.read(step)
            if skip_final and block.endswith(b"\n"):
                block = block[:-1]
            skip_final = False
            index = len(block)
            while (index := block.rfind(b"\n", 0, index)) >= 0:
                seen += 1
                if seen == lines:
                    return position + index + 1
    return 0


def _read(path: Path, offset: int, most: int) -> bytes:
    with path.open("rb") as stream:
        stream.seek(offset)
        return stream.read(most)


class _Stamper:
    """Puts a time before each line and leaves out lines from before ``since``."""

    def __init__(self, log: ContainerLog, options: _Options, line: int) -> None:
        self._stamps = options.timestamps
        self._second = f"{log.started_at:%Y-%m-%dT%H:%M:%S}"
        self._line = line
        # A pod starts in a whole second; its lines are all within the second that follows.
        self._passes = options.since is None or options.since <= log.started_at
        self._begins = True

    def feed(self, block: bytes) -> bytes:
        """Return what of the block is to be sent."""
        if not self._passes:
            return b""
        if not self._stamps:
            return block
        stamped = bytearray()
        for line in _lines(block):
            if self._begins:
                stamped += f"{self._second}.{self._line % _NANOSECONDS:09d}Z ".encode()
                self._line += 1
            self._begins = line.endswith(b"\n")
            stamped += line
        return bytes(stamped)


def _lines(block: bytes) -> list[bytes]:
    *whole, rest = block.split(b"\n")
    return [*(line + b"\n" for line in whole), *([rest] if rest else [])]


async def _chunks(log: ContainerLog, options: _Options) -> AsyncIterator[bytes]:
    offset = line = 0
    if options.tail_lines is not None:
        offset = await anyio.to_thread.run_sync(_tail_offset, log.path, options.tail_lines)
        line = await anyio.to_thread.run_sync(_lines_before, log.path, offset)
    stamper = _Stamper(log, options, line)
    left = options.limit_bytes
    while left is None or left > 0:
        ended = log.ended()  # asked before reading: output that precedes the end is then read below
        block = await anyio.to_thread.run_sync(_read, log.path, offset, _CHUNK_BYTES)
        if block:
            offset += len(block)
            sent = stamper.feed(block)[:left]
            left = None if left is None else left - len(sent)
            if sent:
                yield sent
        elif ended or not options.follow:
            return
        else:
            await anyio.sleep(_POLL_SECONDS)


def _lines_before(path: Path, offset: int) -> int:
    """Return how many lines end before ``offset``."""
    count = 0
    with path.open("rb") as stream:
        while offset > 0 and (block := stream.read(min(_CHUNK_BYTES, offset))):
            count += block.count(b"\n")
            offset -= len(block)
    return count


def _application(find: FindLog) -> "web.Application":
    from aiohttp import web

    async def container_logs(request: web.Request) -> web.StreamResponse:
        namespace, pod, container = (request.match_info[part] for part in ("namespace", "pod", "container"))
        try:
            options = _options(dict(request.query))
        except ValueError as error:
            return web.Response(status=400, text=str(error))
        log = find(namespace, pod, container)
        if log is None:
            text = f"container {container} of pod {namespace}/{pod} has no log: it has not started or does not exist"
            return web.Response(status=400, text=text)
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        with suppress(ConnectionResetError):  # whoever followed has seen enough
            async for block in _chunks(log, options):
                await response.write(block)
            await response.write_eof()
        return response

    application = web.Application()
    application.router.add_get("/containerLogs/{namespace}/{pod}/{container}", container_logs)
    return application


@asynccontextmanager
async def log_server(find: FindLog, tls: ssl.SSLContext) -> AsyncIterator[int]:
    """Serve logs on a free loopback port for the length of the block and yield the port.

    ``tls`` decides who may read logs: give it a context that accepts the API server's client certificate only.
    """
    from aiohttp import web

    runner = web.AppRunner(_application(find), access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        port: int = runner.addresses[0][1]
        yield port
    finally:
        with anyio.CancelScope(shield=True):
            await runner.cleanup()
