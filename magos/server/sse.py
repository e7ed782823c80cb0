"""Server-sent events: their form, and an answer that lasts as long as its client reads it."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

import anyio
import msgspec
import structlog
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

PING = b": ping\n\n"
PING_SECONDS = 15.0
"""So long after the last look a stream looks whether its client may still see what it gets, and sends ``PING``."""

STALL_SECONDS = 60.0
"""So long a client may leave its end of the connection full before it is given up."""

HEADERS = ((b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache"))

_log = structlog.get_logger(__name__)
_encoder = msgspec.json.Encoder()


def event(name: str, data: Any) -> bytes:
    """Return one event whose data is JSON; an empty name is that of plain messages."""
    head = f"event: {name}\n" if name else ""
    return head.encode() + b"data: " + _encoder.encode(data) + b"\n\n"


class EventStream(Response):
    """An endless answer out of ``chunks``, which is closed when the client leaves, stalls or has got everything."""

    def __init__(self, chunks: Callable[[], AsyncGenerator[bytes, None]]) -> None:
        super().__init__()
        self._chunks = chunks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one client."""
        headers = [*HEADERS, (b"connection", b"keep-alive"), (b"x-accel-buffering", b"no")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if scope["method"] == "HEAD":
            await send(_part(b"", last=True))
            return
        async with anyio.create_task_group() as group:

            async def leave() -> None:
                while (await receive())["type"] != "http.disconnect":
                    pass
                group.cancel_scope.cancel()

            group.start_soon(leave)
            await self._serve(send)
            group.cancel_scope.cancel()

    async def _serve(self, send: Send) -> None:
        try:
            async with aclosing(self._chunks()) as chunks:
                async for chunk in chunks:
                    with anyio.fail_after(STALL_SECONDS):
                        await send(_part(chunk))
        except TimeoutError:
            _log.info("a client does not read its stream and is given up", seconds=STALL_SECONDS)
        except Exception:  # noqa: BLE001 - the answer has begun: all that is left is to end it, and to say so here
            _log.exception("a stream failed")
        with anyio.move_on_after(1):
            await send(_part(b"", last=True))


def _part(body: bytes, *, last: bool = False) -> Message:
    return {"type": "http.response.body", "body": body, "more_body": not last}
