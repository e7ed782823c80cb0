"""The log endpoint of the pod runner: what ``pods/log`` of the API server proxies to.

Serves ``GET /containerLogs/<namespace>/<pod>/<container>`` over TLS as a kubelet does, with ``follow``, ``tailLines``
and ``limitBytes``. Lines carry no times, so ``timestamps``, ``sinceTime`` and ``sinceSeconds`` are refused rather than
ignored. Following ends when the container has ended and everything it wrote was sent.
"""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import anyio
from msgspec import Struct

from magos.local.controlplane.credentials import Authority

if TYPE_CHECKING:
    from aiohttp import web

__all__ = ["ContainerLog", "LogDirectory", "log_server"]

_CHUNK = 64 * 1024
_POLL_SECONDS = 0.1
_REFUSED = ("timestamps", "sinceTime", "sinceSeconds")


class ContainerLog(Protocol):
    """The output of one container, while it runs and after."""

    @property
    def path(self) -> Path:
        """The file its output goes to."""
        ...

    @property
    def finished(self) -> bool:
        """Whether nothing will be written any more."""
        ...


class LogDirectory(Protocol):
    """Finds the log of a container."""

    def find_log(self, namespace: str, pod: str, container: str) -> ContainerLog | None:
        """Return the log, None for a container that is unknown or has not started."""
        ...


class _Options(Struct, frozen=True, kw_only=True):
    follow: bool
    tail_lines: int | None
    limit_bytes: int | None


def _options(query: "dict[str, str]") -> _Options:
    """Read the query; ``ValueError`` names a parameter that is unusable."""
    for name in _REFUSED:
        if query.get(name, "false") not in ("", "false"):
            raise ValueError(f"{name} is not supported: the pod runner keeps no times of lines; leave it out")
    numbers: dict[str, int | None] = {}
    for name in ("tailLines", "limitBytes"):
        text = query.get(name, "")
        if text and not text.isascii():
            raise ValueError(f"{name} must be a number, not {text!r}")
        numbers[name] = int(text) if text else None
    return _Options(
        follow=query.get("follow", "") == "true", tail_lines=numbers["tailLines"], limit_bytes=numbers["limitBytes"]
    )


def _tail_offset(path: Path, lines: int) -> int:
    """Return the byte offset at which the last ``lines`` lines begin, reading backwards in blocks."""
    size = path.stat().st_size
    if lines <= 0:
        return size
    position, seen, skip_final = size, 0, True
    with path.open("rb") as stream:
        while position > 0:
            step = min(_CHUNK, position)
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


async def _chunks(log: ContainerLog, options: _Options) -> AsyncIterator[bytes]:
    offset = 0
    if options.tail_lines is not None:
        offset = await anyio.to_thread.run_sync(_tail_offset, log.path, options.tail_lines)
    left = options.limit_bytes
    while left is None or left > 0:
        finished = log.finished  # before reading: what was written until then is read below
        block = await anyio.to_thread.run_sync(_read, log.path, offset, _CHUNK if left is None else min(left, _CHUNK))
        if block:
            offset += len(block)
            left = None if left is None else left - len(block)
            yield block
        elif finished or not options.follow:
            return
        else:
            await anyio.sleep(_POLL_SECONDS)


def _application(directory: LogDirectory) -> "web.Application":
    from aiohttp import web

    async def container_logs(request: web.Request) -> web.StreamResponse:
        namespace, pod, container = (request.match_info[part] for part in ("namespace", "pod", "container"))
        try:
            options = _options(dict(request.query))
        except ValueError as error:
            return web.Response(status=400, text=str(error))
        log = directory.find_log(namespace, pod, container)
        if log is None:
            text = (
                f"container {container!r} of pod {namespace}/{pod} has no log here: it has not started, or is unknown"
            )
            return web.Response(status=404, text=text)
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        async for block in _chunks(log, options):
            await response.write(block)
        await response.write_eof()
        return response

    application = web.Application()
    application.router.add_get("/containerLogs/{namespace}/{pod}/{container}", container_logs)
    return application


def _server_context(authority: Authority) -> ssl.SSLContext:
    """Only the API server may read logs: it is the one that holds a client certificate of the authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pair = authority.issue("pod-runner", "127.0.0.1", "localhost")
    context.load_cert_chain(pair.certificate, pair.key)
    context.load_verify_locations(authority.certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


@asynccontextmanager
async def log_server(directory: LogDirectory, authority: Authority) -> AsyncIterator[int]:
    """Serve logs on a free loopback port for the length of the block; the value is the port."""
    from aiohttp import web

    context = await anyio.to_thread.run_sync(_server_context, authority)
    runner = web.AppRunner(_application(directory), access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        port: int = runner.addresses[0][1]
        yield port
    finally:
        await runner.cleanup()
