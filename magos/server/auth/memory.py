"""Answers that cost a request, kept for at most 15 seconds, bounded in number; equal questions ask once.

The time counts from before the question was sent, so that what was decided is never older than promised. A failure is
passed to everybody who waits and is not kept. Whoever stops waiting does not stop the question for the others.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from magos.runtime.clock import Clock

KEPT = 15.0
"""Seconds. Open streams look at rights every 15 s, so that a right which is taken away ends within 30."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Memory(Generic[K, V]):
    """See the module; at most ``at_once`` questions are under way."""

    def __init__(self, clock: Clock, *, most: int, at_once: int = 16) -> None:
        self._clock = clock
        self._most = most
        self._answers: OrderedDict[K, tuple[float, V]] = OrderedDict()
        self._asking: dict[K, asyncio.Task[V]] = {}
        self._turns = asyncio.Semaphore(at_once)

    async def get(self, key: K, ask: Callable[[], Awaitable[V]]) -> V:
        """Return the answer to ``key``, asking where it is not known."""
        asked, answer = self._answers.get(key, (None, None))
        if asked is not None and self._clock.monotonic() - asked < KEPT:
            return answer  # type: ignore[return-value]  # present, because its time is
        task = self._asking.get(key)
        if task is None:
            task = asyncio.create_task(self._ask(key, ask))
            self._asking[key] = task
            task.add_done_callback(lambda done: self._ended(key, done))
        return await asyncio.shield(task)

    async def _ask(self, key: K, ask: Callable[[], Awaitable[V]]) -> V:
        async with self._turns:
            asked = self._clock.monotonic()
            answer = await ask()
        self._answers.pop(key, None)
        self._answers[key] = (asked, answer)
        if len(self._answers) > self._most:
            self._answers.popitem(last=False)
        return answer

    def _ended(self, key: K, task: asyncio.Task[V]) -> None:
        del self._asking[key]
        if not task.cancelled():
            task.exception()  # whoever waited has got it; if nobody waits any more, it concerns nobody

    def __len__(self) -> int:
        """Return how many answers are kept."""
        return len(self._answers)
