"""The listener on loopback: clients that send slowly, and the stop."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from magos.errors import ConfigurationError
from magos.local.ports import free_ports
from magos.server import listener
from magos.server.listener import Listener
from magos.server.sse import EventStream, event


class Stopping:
    """An application with one endless stream, and one page."""

    def __init__(self) -> None:
        self.stopped = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/stream":
            await EventStream(self._chunks)(scope, receive, send)
            return
        body = await Request(scope, receive).body()
        await PlainTextResponse(f"{len(body)} bytes")(scope, receive, send)

    async def _chunks(self) -> AsyncGenerator[bytes, None]:
        yield event("hello", {})
        await self.stopped.wait()
        yield event("resync", {})


@asynccontextmanager
async def listening() -> AsyncIterator[tuple[Listener, int]]:
    """Listen on loopback around a block."""
    app = Stopping()
    [port] = free_ports(1)
    made = Listener(app, "127.0.0.1", port, app.stopped.set)
    task = asyncio.create_task(made.serve())
    try:
        yield made, port
    finally:
        made.stop()
        await asyncio.wait_for(task, 10)


async def exchange(port: int, sent: bytes) -> bytes:
    """Send bytes and return all that comes back until the connection is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(sent)
        return await asyncio.wait_for(reader.read(), 10)
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HT",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET /",
    ],
)
def test_a_client_that_does_not_send_its_request_in_time_is_given_up(
    monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(listener, "REQUEST_SECONDS", 0.2)

    async def scene() -> None:
        async with listening() as (_, port):
            await exchange(port, sent)

    asyncio.run(scene())


def test_a_connection_may_wait_for_its_next_request_and_a_stream_has_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "REQUEST_SECONDS", 0.05)

    async def scene() -> None:
        async with listening() as (made, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for _ in range(2):
                writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                assert b"200" in await reader.readline()
                await reader.readuntil(b"0 bytes")
                await asyncio.sleep(0.2)
            writer.write(b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n")
            await reader.readuntil(b"event: hello")
            await asyncio.sleep(0.2)
            made.stop()
            assert b"event: resync" in await asyncio.wait_for(reader.read(), 10)
            writer.close()

    asyncio.run(scene())


def test_an_answer_does_not_say_what_serves_it() -> None:
    async def scene() -> None:
        async with listening() as (_, port):
            answer = await exchange(port, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 200")
            assert b"server:" not in answer.lower()

    asyncio.run(scene())


def test_an_address_in_use_is_one_line() -> None:
    async def scene() -> None:
        async with listening() as (_, port):
            with pytest.raises(ConfigurationError, match=f"cannot listen on 127.0.0.1 port {port}"):
                Listener(Stopping(), "127.0.0.1", port, lambda: None)

    asyncio.run(scene())
