"""Serves an application over HTTP/1.1 until it is asked to stop (spec §9.1)."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import h11
import structlog
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from magos.errors import ConfigurationError

REQUEST_SECONDS = 15.0
"""So long a client may take to send a request: its head, and its body, which is small."""

IDLE_SECONDS = 60
"""So long a connection may wait for its next request."""

GRACE_SECONDS = 30
"""So long requests under way may take once the process is asked to stop."""

LARGEST_HEAD = 1 << 16
"""Bytes of a request's head: tokens and cookies of login are in it."""

_log = structlog.get_logger(__name__)


class _Protocol(H11Protocol):
    """Gives up a client that takes too long to send its request: uvicorn alone waits for ever."""

    _deadline: asyncio.TimerHandle | None = None
    _fresh = True

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._judge()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._judge()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._judge()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _judge(self) -> None:
        state = self.conn.their_state
        self._fresh = self._fresh and state is h11.IDLE
        begun = self._fresh or bool(self.conn.trailing_data[0])
        if state is h11.SEND_BODY or (state is h11.IDLE and begun):
            if self._deadline is None:
                self._deadline = self.loop.call_later(REQUEST_SECONDS, self._give_up)
        else:
            self._stop_waiting()

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        _log.info("a client did not send its request in time", seconds=REQUEST_SECONDS)
        self.transport.close()


class _Server(uvicorn.Server):
    """Leaves signals to the process."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Listener:
    """One address. ``on_stop`` is called once when the stop begins: it ends what would last for ever.

    Raises ``ConfigurationError`` if the address cannot be used.
    """

    def __init__(self, app: ASGIApp, address: str, port: int, on_stop: Callable[[], None]) -> None:
        self._sockets = _bound(address, port)
        self._on_stop = on_stop
        options: dict[str, Any] = {"log_config": None, "access_log": False, "lifespan": "off", "ws": "none"}
        config = uvicorn.Config(
            app,
            http=_Protocol,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=IDLE_SECONDS,
            timeout_graceful_shutdown=GRACE_SECONDS,
            h11_max_incomplete_event_size=LARGEST_HEAD,
            **options,
        )
        self._server = _Server(config)

    async def serve(self) -> None:
        """Serve until ``stop``."""
        await self._server.serve(sockets=self._sockets)

    def stop(self) -> None:
        """Take no new connection, and return from ``serve`` once answers have ended; asked again, at once."""
        if self._server.should_exit:
            self._server.force_exit = True
        else:
            self._server.should_exit = True
            self._on_stop()


def _bound(address: str, port: int) -> list[socket.socket]:
    """Return the listening socket; without an address it listens on every interface, of IPv4 and IPv6."""
    try:
        if address:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            return [socket.create_server((address, port), family=family)]
        if socket.has_dualstack_ipv6():
            return [socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)]
        return [socket.create_server(("", port))]
    except OSError as error:
        where = f"{address or 'every interface'} port {port}"
        raise ConfigurationError(f"cannot listen on {where}: {error.strerror or error}; set PORT") from error
