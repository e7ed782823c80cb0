"""HTTP servers on loopback that live in a thread for the length of a block.

They serve the one-machine mode and tests: few requests, no concurrency to speak of, ended with the block. Requests are
remembered so that tests can count them, and not printed.
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

__all__ = ["RequestLog", "Served", "StaticServer", "WebServer", "serving"]

_REMEMBERED: Final = 10_000


class Served(msgspec.Struct, frozen=True):
    """One answered request; ``path`` includes the query, ``status`` is the HTTP status."""

    method: str
    path: str
    status: int


class RequestLog:
    """The last requests of a server, in order; safe to read while it serves."""

    def __init__(self) -> None:
        self._served: deque[Served] = deque(maxlen=_REMEMBERED)

    def add(self, served: Served) -> None:
        self._served.append(served)

    def all(self) -> list[Served]:
        return list(self._served)


class WebServer(ThreadingMixIn, WSGIServer):
    """A WSGI server with a thread a request."""

    daemon_threads = True

    def server_bind(self) -> None:
        """Bind without the name look-up of the base class, which waits for DNS where there is none."""
        super(WSGIServer, self).server_bind()
        self.setup_environ()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no event; what a handler raises has been answered with 500 by then."""


class StaticServer(ThreadingHTTPServer):
    """A server of files with a thread a request."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no event."""


@contextmanager
def serving(server: BaseServer, name: str) -> Iterator[None]:
    """Serve in a thread until the block is left; then the port is closed and the thread has ended."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
