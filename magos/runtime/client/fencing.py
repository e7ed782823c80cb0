"""The last look at the fence: a write may wait long before it is sent, and the right to write may end meanwhile.

The right is asked for synchronously where the bytes leave: behind the wait for a connection, the handshake, and the
pause that a busy server asked for. Imported with the first session, because it needs the HTTP library.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from aiohttp import ClientRequest, ClientResponse
from aiohttp.connector import Connection

from magos.runtime.client.transport import TransportError

_may_send: ContextVar[Callable[[], bool] | None] = ContextVar("may_send", default=None)


@contextmanager
def fenced(may_send: Callable[[], bool] | None) -> Iterator[None]:
    """Send nothing inside of the context once ``may_send`` says no; None allows everything."""
    token = _may_send.set(may_send)
    try:
        yield
    finally:
        _may_send.reset(token)


class FencedRequest(ClientRequest):
    """A request that looks at the fence of its context; what is not sent is a ``TransportError``."""

    async def send(self, conn: Connection) -> ClientResponse:
        """Send the request over an open connection."""
        may_send = _may_send.get()
        if may_send is not None and not may_send():
            raise TransportError("not sent, because the right to write had ended", sent=False)
        return await super().send(conn)
