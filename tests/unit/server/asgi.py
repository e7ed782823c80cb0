"""A client that speaks ASGI to an application, also to streams, in virtual time."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlencode

import msgspec
from msgspec import Struct
from starlette.types import ASGIApp, Message

__all__ = ["Answer", "Stream", "ask", "streaming"]


class Answer(Struct, frozen=True, kw_only=True):
    """A whole answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, decoded."""
        return msgspec.json.decode(self.body)

    @property
    def error(self) -> str:
        """The text of a refusal."""
        return str(self.json["error"])


class Stream:
    """An answer that goes on. While ``reading`` is not set it takes nothing, as a client that does not read.

    It stops to read by itself once it has taken ``takes`` further messages, if that is not None.
    """

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.reading = asyncio.Event()
        self.reading.set()
        self.takes: int | None = None
        self._buffer = b""
        self._chunks: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def send(self, message: Message) -> None:
        """Take a message of the application."""
        await self.reading.wait()
        if self.takes is not None:
            self.takes -= 1
            if self.takes == 0:
                self.reading.clear()
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode().lower(): value.decode() for name, value in message["headers"]}
        else:
            if message.get("body"):
                self._chunks.put_nowait(message["body"])
            if not message.get("more_body"):
                self._chunks.put_nowait(None)

    async def block(self) -> str | None:
        """Return the next event without the empty line behind it, None at the end of the stream."""
        while b"\n\n" not in self._buffer:
            chunk = await self._chunks.get()
            if chunk is None:
                return None
            self._buffer += chunk
        block, _, self._buffer = self._buffer.partition(b"\n\n")
        return block.decode()

    async def event(self) -> tuple[str, Any]:
        """Return name and data of the next event, pings left out; ("end", None) at the end."""
        while True:
            block = await self.block()
            if block is None:
                return "end", None
            fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
            if fields:
                return fields.get("event", "message"), msgspec.json.decode(fields["data"])

    async def rest(self) -> bytes:
        """Return everything up to the end."""
        while (chunk := await self._chunks.get()) is not None:
            self._buffer += chunk
        return self._buffer


def _scope(method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str]) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": urlencode(query).encode(),
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        "server": ("testserver", 80),
        "client": ("127.0.0.1", 50000),
    }


@asynccontextmanager
async def streaming(
    app: ASGIApp, path: str, *, token: str = "ann", method: str = "GET", body: bytes = b"", **query: str
) -> AsyncIterator[Stream]:
    """Open a stream, and leave it at the end of the block. ``token`` empty sends none."""
    stream = Stream()
    gone = asyncio.Event()
    sent = False

    async def receive() -> Message:
        nonlocal sent
        if not sent:
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}
        await gone.wait()
        return {"type": "http.disconnect"}

    headers = {"authorization": f"Bearer {token}"} if token else {}
    task = asyncio.create_task(_run(app, _scope(method, path, query, headers), receive, stream))
    try:
        yield stream
    finally:
        gone.set()
        stream.reading.set()
        await asyncio.wait([task], timeout=100)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _run(app: ASGIApp, scope: dict[str, Any], receive: Any, stream: Stream) -> None:
    try:
        await app(scope, receive, stream.send)
    finally:
        stream._chunks.put_nowait(None)


async def ask(
    app: ASGIApp, path: str, *, method: str = "GET", token: str = "ann", body: bytes = b"", **query: str
) -> Answer:
    """Make a request and return the whole answer."""
    async with streaming(app, path, token=token, method=method, body=body, **query) as stream:
        found = await stream.rest()
    return Answer(status=stream.status, headers=stream.headers, body=found)
