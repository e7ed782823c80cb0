"""HTTP servers on loopback that run in a thread for the length of a block.

They serve the one-machine mode and tests: few requests, hardly any at the same time. Requests are remembered, so that
tests can count them, and are not printed.
"""

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from socketserver import BaseServer, ThreadingMixIn
from typing import Any, Final
from wsgiref.simple_server import WSGIServer

import msgspec

_REMEMBERED_REQUESTS: Final = 10_000
"""More than a test or a demo sends, and a bound for a server that runs for days."""

_POLL_SECONDS: Final = 0.05
"""How long the end of the block may wait for the server's thread; the default of 0.5 s would add up in tests."""


class Served(msgspec.Struct, frozen=True):
    """One answered request; ``path`` includes the query, ``status`` is the HTTP status."""

    method: str
    path: str
    status: int


class RequestLog:
    """The last requests of a server, in order; safe to read while it serves."""

    def __init__(self) -> None:
        self._served: deque[Served] = deque(maxlen=_REMEMBERED_REQUESTS)

    def add(self, served: Served) -> None:
        self._served.append(served)

    def all(self) -> list[Served]:
        return list(self._served)


class LoggedHandler:
    """What a request handler inherits first to write its requests to ``log`` instead of to standard error."""

    log: RequestLog
    command: str
    path: str

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        del size
        self.log.add(Served(self.command, self.path, int(code)))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base class's name
        """Print nothing."""


class _SilentServer:
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing: a client has gone away, or a handler failed and the client has its answer 500."""


class WebServer(_SilentServer, ThreadingMixIn, WSGIServer):
    """A WSGI server with one thread per request."""

    daemon_threads = True

    def server_bind(self) -> None:
        """Bind without the base class's name look-up, which waits for DNS on a machine that has none."""
        super(WSGIServer, self).server_bind()
        self.setup_environ()


class StaticServer(_SilentServer, ThreadingHTTPServer):
    """A server of files with one thread per request."""


@contextmanager
def serving(server: BaseServer, name: str) -> Iterator[None]:
    """Serve in a thread called ``name``; when the block is left the port is closed and the thread has ended."""
    arguments = {"poll_interval": _POLL_SECONDS}
    thread = threading.Thread(target=server.serve_forever, kwargs=arguments, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
