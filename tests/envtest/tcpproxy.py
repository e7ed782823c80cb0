"""A TCP proxy that fails on order: connections break, or become half-open so that nothing arrives any more."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

__all__ = ["TcpProxy", "proxy_to"]


class TcpProxy:
    """Forwards bytes in both directions; ``connections`` counts those made so far."""

    def __init__(self, host: str, port: int) -> None:
        self.port = 0
        self.connections = 0
        self._target = (host, port)
        self._open: set[asyncio.StreamWriter] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._tasks: set[asyncio.Task[None]] = set()

    def cut(self) -> None:
        """Reset every open connection."""
        for writer in tuple(self._open):
            writer.transport.abort()

    def block(self) -> None:
        """Let nothing through any more; connections stay open."""
        self._flowing.clear()

    def unblock(self) -> None:
        """Let everything through again, what was held back included."""
        self._flowing.set()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        self.connections += 1
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        other_reader, other_writer = await asyncio.open_connection(*self._target)
        self._open |= {writer, other_writer}
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, other_writer))
                group.create_task(self._pump(other_reader, writer))
        finally:
            self._open -= {writer, other_writer}
            for each in (writer, other_writer):
                each.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                await self._flowing.wait()
                writer.write(data)
                await writer.drain()
        writer.transport.abort()

    async def end(self) -> None:
        """End all connections and wait for their tasks."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def proxy_to(host: str, port: int) -> AsyncIterator[TcpProxy]:
    """Run a proxy on a free port of loopback."""
    proxy = TcpProxy(host, port)
    server = await asyncio.start_server(proxy.handle, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await proxy.end()
