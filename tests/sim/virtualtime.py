"""An asyncio loop whose time is virtual: hours pass in milliseconds, and a seed decides the order of ready tasks.

* Time stands still while anything can run and then jumps exactly to the next timer; nothing ever really sleeps.
* With a seed, tasks that are ready at one instant run in a random but reproducible order, one that the real loop could
  not promise to avoid. Plain callbacks keep their order, as asyncio's own machinery relies on it.
* The order in which tasks became ready does not count, only that in which they were made: a cancelled scope wakes its
  tasks in the order of their addresses in memory, and these differ from process to process.
* If nothing can run and no timer is set, ``VirtualDeadlock`` names every task and where it waits. Endless spinning at
  one instant and time past the limit are errors too, so that no test hangs.
* ``loop.run_in_executor`` and ``asyncio.to_thread`` run the function at once in the loop's own thread. There are no
  sockets, subprocesses or signals, and no other threads (``anyio.to_thread`` does not work here).
"""

import asyncio
import heapq
import itertools
import math
import random
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, TypeVarTuple

__all__ = ["VirtualClock", "VirtualDeadlock", "VirtualLivelock", "VirtualLoop", "run_virtual"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
LIMIT = 366 * 86400.0
_SPINS = 100_000


class VirtualDeadlock(RuntimeError):
    """Nothing can run and no timer is set, but somebody still waits."""


class VirtualLivelock(RuntimeError):
    """The loop spins without time passing, or time passed the limit of the test."""


class _Selector:
    """Stands where the loop asks the operating system for events: shuffles what is ready, or lets time jump."""

    def __init__(self, loop: "VirtualLoop") -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> Sequence[object]:
        self._loop.on_select(timeout)
        return ()


class _Timer(asyncio.TimerHandle):
    """A timer that knows when it was set."""

    order: tuple[float, int] = (0.0, 0)
    _scheduled: bool

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, _Timer):
            return NotImplemented
        return self.order < other.order


class _Task(asyncio.Task[Any]):
    """A task that knows which of its loop it is."""

    serial = 0


class VirtualLoop(asyncio.BaseEventLoop):
    """The loop itself; ``seed=None`` keeps the first-in-first-out order of a real loop."""

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self, seed: int | None = None, limit: float = LIMIT) -> None:
        super().__init__()
        self._now = 0.0
        self._limit = limit
        self._random = None if seed is None else random.Random(seed)
        self._spins = 0
        self._serial = itertools.count()
        self._selector = _Selector(self)
        self.set_task_factory(self._make_task)

    def time(self) -> float:
        """Return the virtual seconds since the loop was made."""
        return self._now

    @property
    def _clock_resolution(self) -> float:
        # The base class runs timers due before now + resolution: this is the least that includes "exactly now".
        return math.ulp(self._now)

    @_clock_resolution.setter
    def _clock_resolution(self, value: float) -> None:
        """Ignore what the base class read from the real clock."""

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Set a timer; timers of one instant fire in the order in which they were set, as in real life."""
        timer = _Timer(when, callback, args, self, context)
        timer.order = (when, next(self._serial))
        heapq.heappush(self._scheduled, timer)
        timer._scheduled = True
        return timer

    def on_select(self, timeout: float | None) -> None:
        """Do what one wait for events means here: nothing, a jump in time, or an error."""
        if timeout is None:
            raise VirtualDeadlock(f"nothing can run at {self._now:.6f} s and no timer is set\n{self._where()}")
        if timeout > 0:
            self._jump()
            return
        self._spins += 1
        if self._spins > _SPINS:
            raise VirtualLivelock(f"{_SPINS} rounds without time passing at {self._now:.6f} s\n{self._where()}")
        if self._random is not None and len(self._ready) > 1:
            self._shuffle(self._random)

    def _jump(self) -> None:
        self._now = max(self._now, self._scheduled[0].when())
        self._spins = 0
        if self._now > self._limit:
            raise VirtualLivelock(f"virtual time passed the limit of {self._limit} s\n{self._where()}")

    def _make_task(self, loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Future[Any]:
        task = _Task(coroutine, loop=loop, **options)
        task.serial = next(self._serial)
        return task

    def _shuffle(self, order: random.Random) -> None:
        found = [(index, handle, _task_of(handle)) for index, handle in enumerate(self._ready)]
        slots = [index for index, _, task in found if task is not None]
        steps = [handle for _, handle, task in sorted(found, key=_age) if task is not None]
        order.shuffle(steps)
        for index, handle in zip(slots, steps, strict=True):
            self._ready[index] = handle

    def _where(self) -> str:
        lines = []
        for task in sorted(asyncio.all_tasks(self), key=lambda task: task.get_name()):
            frames = task.get_stack()
            place = f"{frames[-1].f_code.co_filename}:{frames[-1].f_lineno}" if frames else "(not started)"
            lines.append(f"  {task.get_name()} ({task.get_coro()}) waits at {place}")
        return "\n".join(lines)

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        """Run the function here and now: a thread has no virtual time."""
        del executor
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - it belongs to whoever awaits the future
            future.set_exception(error)
        return future

    def _process_events(self, event_list: Sequence[object]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nobody sleeps in a system call, so nobody needs to be woken."""


def _task_of(handle: asyncio.Handle) -> _Task | None:
    """Return the task of which this is a step, None for a plain callback."""
    owner = getattr(getattr(handle, "_callback", None), "__self__", None)
    return owner if isinstance(owner, _Task) else None


def _age(found: tuple[int, asyncio.Handle, _Task | None]) -> int:
    return found[2].serial if found[2] is not None else -1


class VirtualClock:
    """The clocks of one simulated machine: ``rate`` is its drift, ``jump_wall`` what an operator or NTP does to it.

    Sleeps and timers run on the loop's time, which is the reference; only readings drift.
    """

    def __init__(self, *, rate: float = 1.0, epoch: datetime = EPOCH, offset: float = 0.0) -> None:
        self._rate = rate
        self._epoch = epoch
        self._offset = offset

    def monotonic(self) -> float:
        """Return this machine's seconds; equal to ``loop.time()`` without drift and offset."""
        return self._offset + self._rate * asyncio.get_running_loop().time()

    def now(self) -> datetime:
        """Return this machine's wall time."""
        return self._epoch + timedelta(seconds=self._rate * asyncio.get_running_loop().time())

    def jump_wall(self, by: timedelta) -> None:
        """Step the wall time; the monotonic clock does not notice."""
        self._epoch += by

    def suspend(self, seconds: float) -> None:
        """Let time pass for this machine while none of its tasks runs."""
        self._offset += seconds
        self._epoch += timedelta(seconds=seconds)


def run_virtual(main: Callable[[], Awaitable[T]], seed: int | None = None, limit: float = LIMIT) -> T:
    """Run ``main()`` to its end in virtual time and return its result; tasks it leaves behind are cancelled."""

    async def body() -> T:
        return await main()

    with asyncio.Runner(loop_factory=lambda: VirtualLoop(seed, limit)) as runner:
        return runner.run(body())
