"""A small HTTP server for what a process says about itself: probes and metrics.

GET and HEAD only. A handler gets the path, the query and the ``Authorization`` header and returns a whole answer. The
HTTP library is imported when the server starts.
"""

import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

import anyio
import structlog
from anyio.abc import TaskStatus
from msgspec import Struct

from magos.errors import ConfigurationError
from magos.runtime.manager.settings import Bind

if TYPE_CHECKING:
    from aiohttp import web

_log = structlog.get_logger(__name__)
_CLOSE_SECONDS = 1.0


class WebRequest(Struct, frozen=True, kw_only=True):
    """What a handler may look at; of a repeated query parameter all values count."""

    path: str
    query: tuple[tuple[str, str], ...] = ()
    authorization: str = ""


class WebResponse(Struct, frozen=True, kw_only=True):
    """The answer."""

    status: int = 200
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = {}


WebHandler = Callable[[WebRequest], Awaitable[WebResponse]]


class WebServer:
    """Serves one handler at one address."""

    def __init__(self, bind: Bind, handler: WebHandler, tls: ssl.SSLContext | None = None) -> None:
        self._bind = bind
        self._handler = handler
        self._tls = tls

    async def run(self, *, task_status: TaskStatus[int] = anyio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled; ``start`` of a task group returns the port when it listens.

        Raises ``ConfigurationError`` if the address cannot be used.
        """
        from aiohttp import web

        runner = web.ServerRunner(web.Server(self._serve, access_log=None), shutdown_timeout=_CLOSE_SECONDS)
        await runner.setup()
        try:
            host = self._bind.host or None
            site = web.TCPSite(runner, host, self._bind.port, ssl_context=self._tls, reuse_address=True)
            try:
                await site.start()
            except OSError as error:
                raise ConfigurationError(
                    f"cannot listen on {self._bind}: {error.strerror or error}; choose another address"
                ) from error
            task_status.started(runner.addresses[0][1])
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await runner.cleanup()

    async def _serve(self, request: "web.BaseRequest") -> "web.StreamResponse":
        from aiohttp import web

        if request.method not in ("GET", "HEAD"):
            return web.Response(status=405, headers={"Allow": "GET, HEAD"})
        try:
            answer = await self._handler(
                WebRequest(
                    path=request.path,
                    query=tuple(request.query.items()),
                    authorization=request.headers.get("Authorization", ""),
                )
            )
        except Exception:  # noqa: BLE001 - one bad request must not end the process
            _log.exception("request failed", path=request.path)
            return web.Response(status=500)
        headers = {**answer.headers, "Content-Type": answer.content_type, "X-Content-Type-Options": "nosniff"}
        return web.Response(status=answer.status, body=answer.body, headers=headers)
