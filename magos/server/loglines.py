"""Lines of a log that are read ahead of the client that they are for, a bounded number of them."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress

from magos.joblog import LogLine

_AHEAD = 16
"""Lines that are read ahead. One may have 1 MiB."""


class Lines:
    """What has been read so far; made by ``reading``."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[LogLine | None] = asyncio.Queue(_AHEAD)
        self.failure: Exception | None = None

    async def some(self, seconds: float) -> list[LogLine] | None:
        """Return the lines that have been read, none after so many seconds without any; None at their end.

        Raises what the reader raised, once everything it had read was returned.
        """
        found: list[LogLine] = []
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                line = await self.queue.get()
                while line is not None:
                    found.append(line)
                    if self.queue.empty():
                        return found
                    line = self.queue.get_nowait()
                if found:
                    self.queue.put_nowait(None)
                    return found
                if self.failure is not None:
                    raise self.failure
                return None
        return found


@asynccontextmanager
async def reading(lines: AsyncIterator[LogLine]) -> AsyncIterator[Lines]:
    """Read ``lines`` in a task of its own until the block ends."""
    ahead = Lines()

    async def read() -> None:
        try:
            async for line in lines:
                await ahead.queue.put(line)
        except Exception as error:  # noqa: BLE001 - handed to whoever asks for lines
            ahead.failure = error
        finally:
            if isinstance(lines, AsyncGenerator):
                await lines.aclose()
        await ahead.queue.put(None)

    task = asyncio.create_task(read(), name="reads a log")
    try:
        yield ahead
    finally:
        task.cancel()
        await asyncio.wait([task])
