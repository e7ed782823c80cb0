"""The work queue: which key is reconciled next.

Promises, all checked against a naive model by a state machine test:

* A key is never with two workers at once, and keys that are queued already are not queued twice.
* No wake-up is lost: an ``add`` after a key was handed out is followed by exactly one more hand-out after its ``done``.
* Keys wait by priority (``priorityqueue``), and a key keeps the highest priority asked for.
* Retries and scheduled requeues are kept apart. A *retry* is the back-off after a failure; any hand-out of the key
  uses it up. A *scheduled requeue* wants the key at a time; adds, hand-outs and retries leave it alone, the earliest
  wins, and only ``cancel_requeue`` or its own time ends it. Nothing is handed out before its time.
* ``shut_down`` wakes every getter at once; keys are level triggered, so the next list finds what is left
  behind. ``drain`` hands out what is ready first.

Everything runs on the loop's thread without locks; only ``get`` and ``drain`` wait. Adding, getting and finishing cost
O(1), delays O(log n).
"""

import asyncio
import random
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from msgspec import Struct

from magos.errors import InvariantViolation
from magos.runtime.clock import Clock
from magos.runtime.controller.priorityqueue import PriorityQueue, Waiting, rank_of
from magos.runtime.controller.ratelimiter import ItemBackoff
from magos.runtime.controller.scheduler import Scheduler
from magos.runtime.decision import Priority

_LONGEST_TIMER = 10.0  # the loop's clock stands still during suspend, ours does not: look again at least this often
_SHORTEST_TIMER = 1e-6
_CHANGE = rank_of(Priority.CHANGE)


class Key(NamedTuple):
    """Names the object to reconcile, within the kind of the controller."""

    namespace: str
    name: str

    def __str__(self) -> str:
        """``namespace/name``, or the bare name of a cluster-scoped object."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Item(Struct, frozen=True, gc=False):
    """A key that was handed out; ``attempt`` counts its failures in a row before this pass."""

    key: Key
    priority: Priority
    attempt: int


class ShutDown(Exception):
    """The queue hands out nothing more; the worker ends."""


class QueueObserver(Protocol):
    """Follows what happens in a queue, synchronously and on the loop; durations in seconds."""

    def added(self) -> None:
        """A key became wanted that was not wanted before."""
        ...

    def retried(self) -> None:
        """A key failed and waits for its back-off."""
        ...

    def started(self, waited: float) -> None:
        """A key was handed out, this long after it was first wanted."""
        ...

    def finished(self, worked: float) -> None:
        """A worker is done with a key, this long after it got it."""
        ...


class WorkQueue:
    """See the module's promises. ``name`` is for logs and metrics."""

    def __init__(self, clock: Clock, rng: random.Random, name: str, observers: Sequence[QueueObserver] = ()) -> None:
        self.name = name
        self._clock = clock
        self._observers = tuple(observers)
        self._backoff: ItemBackoff[Key] = ItemBackoff(rng)
        self._ready: PriorityQueue[Key] = PriorityQueue()
        self._again: dict[Key, Waiting[Key]] = {}  # wanted again while a worker has them
        self._running: dict[Key, tuple[float, int]] = {}  # since when, and at which rank
        self._retries: Scheduler[Key] = Scheduler()
        self._retry_ranks: dict[Key, int] = {}
        self._requeues: Scheduler[Key] = Scheduler()
        self._getters: deque[asyncio.Future[None]] = deque()
        self._drained: list[asyncio.Future[None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = 0.0
        self._open = True

    # --- what is in it --------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Return how many keys are ready to be handed out: the depth."""
        return len(self._ready)

    @property
    def idle(self) -> bool:
        """True if nothing is ready and no worker has a key; retries and scheduled requeues may be pending."""
        return not self._ready and not self._running

    @property
    def pending(self) -> int:
        """Number of retries and scheduled requeues that are not due yet."""
        return len(self._retries) + len(self._requeues)

    def requeue_time(self, key: Key) -> float | None:
        """Return when the key is scheduled to be requeued, in seconds of the clock."""
        return self._requeues.when(key)

    def backs_off(self, key: Key) -> bool:
        """Tell whether the key failed and its back-off is not over."""
        return self._retries.when(key) is not None

    def running(self) -> list[tuple[Key, float]]:
        """Return the keys that workers have, each with the seconds since it was handed out."""
        now = self._clock.monotonic()
        return [(key, now - since) for key, (since, _) in self._running.items()]

    # --- wanting a key --------------------------------------------------------------------------------------------

    def add(self, key: Key, priority: Priority = Priority.CHANGE) -> None:
        """Want a pass for the key as soon as possible; dropped after shut-down."""
        if self._open:
            self._want(key, rank_of(priority))

    def add_at(self, key: Key, when: float) -> None:
        """Schedule a requeue at ``when`` seconds of the clock; an earlier one stands. Dropped after shut-down.

        A pass that decides anew when it wants to be back calls ``cancel_requeue`` first.
        """
        if self._open and self._requeues.schedule(key, when):
            self._arm()

    def cancel_requeue(self, key: Key) -> None:
        """Forget the key's scheduled requeue; whatever else wants the key stands."""
        self._requeues.cancel(key)

    def retry(self, key: Key, *, at_least: float = 0.0) -> float:
        """Want the key again after its back-off, at the priority it had; return the delay in seconds.

        ``at_least`` is what the server asked for (Retry-After).
        Counts as one more failure in a row, also after shut-down, where nothing is scheduled any more.
        """
        delay = max(self._backoff.failed(key), at_least)
        if self._open:
            running = self._running.get(key)
            self._retry_ranks[key] = _CHANGE if running is None else running[1]
            for observer in self._observers:
                observer.retried()
            if self._retries.schedule(key, self._clock.monotonic() + delay):
                self._arm()
        return delay

    def forget(self, key: Key) -> None:
        """Start the key's back-off over and drop its pending retry: it succeeded, or what it failed on changed."""
        self._backoff.forget(key)
        self._drop_retry(key)

    # --- working on a key -----------------------------------------------------------------------------------------

    async def get(self) -> Item:
        """Return the next key, waiting for one; raise ``ShutDown`` when there will be none. Safe to cancel."""
        while (item := self._take()) is None:
            if not self._open:
                raise ShutDown(self.name)
            getter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                if not getter.done() or getter.cancelled():
                    # A wake-up between the cancellation and now has already skipped and dropped it.
                    if getter in self._getters:
                        self._getters.remove(getter)
                elif self._ready:
                    self._wake()  # this wake-up was meant for a worker that goes on
                raise
        return item

    def done(self, key: Key) -> None:
        """Give the key back; if it was wanted meanwhile, it becomes ready at the end of its priority."""
        running = self._running.pop(key, None)
        if running is None:
            raise InvariantViolation(f"work queue {self.name}: {key} is given back by a worker that does not have it")
        if self._observers:
            worked = self._clock.monotonic() - running[0]
            for observer in self._observers:
                observer.finished(worked)
        if (again := self._again.pop(key, None)) is not None:
            self._enqueue(again)
        if self._drained:
            self._check_drained()

    # --- the end --------------------------------------------------------------------------------------------------

    def shut_down(self) -> None:
        """Hand out nothing more: getters get ``ShutDown``, adds are dropped, keys with workers may be finished."""
        self._close()
        self._ready.clear()
        self._check_drained()

    async def drain(self) -> None:
        """Take no more adds, hand out what is ready, and return when every worker is done."""
        self._close()
        if not self.idle:
            drained: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._drained.append(drained)
            await drained

    def _close(self) -> None:
        self._open = False
        self._again.clear()
        self._retries.clear()
        self._retry_ranks.clear()
        self._requeues.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._getters:
            self._wake()

    def _check_drained(self) -> None:
        if self.idle:
            for drained in self._drained:
                if not drained.done():
                    drained.set_result(None)
            self._drained.clear()

    # --- inside ---------------------------------------------------------------------------------------------------

    def _want(self, key: Key, rank: int) -> None:
        if key in self._running:
            again = self._again.get(key)
            if again is not None:
                again.rank = min(again.rank, rank)
                return
        elif self._ready.urge(key, rank):
            return
        for observer in self._observers:
            observer.added()
        waiting = Waiting(key, rank, self._clock.monotonic())
        if key in self._running:
            self._again[key] = waiting
        else:
            self._enqueue(waiting)

    def _enqueue(self, waiting: Waiting[Key]) -> None:
        self._ready.put(waiting)
        if self._getters:
            self._wake()

    def _wake(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _take(self) -> Item | None:
        now = self._clock.monotonic()
        waiting = self._ready.take(now)
        if waiting is None:
            return None
        key = waiting.key
        self._running[key] = (now, waiting.rank)
        if self._retry_ranks:
            self._drop_retry(key)
        for observer in self._observers:
            observer.started(now - waiting.since)
        return Item(key, waiting.priority, self._backoff.failures(key))

    def _drop_retry(self, key: Key) -> None:
        self._retries.cancel(key)
        self._retry_ranks.pop(key, None)

    def _arm(self) -> None:
        times = [when for when in (self._retries.next_due(), self._requeues.next_due()) if when is not None]
        if not times or (self._timer is not None and self._timer_due <= min(times)):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_due = min(times)
        loop = asyncio.get_running_loop()
        delay = min(max(self._timer_due - self._clock.monotonic(), _SHORTEST_TIMER), _LONGEST_TIMER)
        self._timer = loop.call_at(loop.time() + delay, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        for key in self._retries.pop_due(now):
            self._want(key, self._retry_ranks.pop(key))
        for key in self._requeues.pop_due(now):
            self._want(key, _CHANGE)
        self._arm()
