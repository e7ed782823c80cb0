"""The seam to the API server: bytes in, bytes out.

``Transport`` is all that the typed client knows of HTTP. The real one (``http.py``) speaks HTTP/1.1; tests put the
simulated API server behind the same protocol, so that encoding, decoding and every rule of the client are under test.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from typing import Protocol

from msgspec import Struct, field


class Lane(StrEnum):
    """Connection class of a request: each has its own connections and in-flight cap, so none can starve another."""

    LEASE = "lease"
    WATCH = "watch"
    READ = "read"
    WRITE = "write"
    EVENTS = "events"


class HttpRequest(Struct, frozen=True, kw_only=True):
    """One request. ``timeout`` bounds the whole exchange in seconds; a stream bounds only its opening.

    ``may_send`` is asked synchronously right before the bytes leave, each time they do; on False they do not.
    """

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    content_type: str = ""
    accept: str = "application/json"
    lane: Lane = Lane.READ
    timeout: float = 30.0
    may_send: Callable[[], bool] | None = None


class HttpResponse(Struct, frozen=True, kw_only=True):
    """A whole response; header names are lower case."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


class HttpStream(Struct, frozen=True, kw_only=True):
    """An open response whose body arrives in chunks of any size."""

    status: int
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]


class TransportError(Exception):
    """No answer: refused, reset, timed out. ``sent`` tells whether the request may have reached the server."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class Transport(Protocol):
    """Carries requests to one API server with one identity."""

    async def request(self, request: HttpRequest) -> HttpResponse:
        """Return the server's answer whatever its status; raise ``TransportError`` where there is none."""
        ...

    def stream(self, request: HttpRequest) -> AbstractAsyncContextManager[HttpStream]:
        """Open a stream; leaving the context closes it. Raises ``TransportError`` on opening and while iterating."""
        ...

    async def aclose(self) -> None:
        """Close all connections."""
        ...
