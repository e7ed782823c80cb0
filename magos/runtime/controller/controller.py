"""Runs a reconciler over the keys its sources wake: the only loop of a controller.

Promises:

1. A key is never with two workers. A pass sees all caches at one instant, the answers it asked for, and a refusal once.
2. A pass never sees caches older than the key's own acknowledged writes, unless its view says ``stale``.
3. How a pass ended decides what comes next, and nothing else does:

   ============  ==================================================================================
   complete      failures forgotten; the key is requeued when the decision says, if it says so.
                 A pass that was shown a refusal forgets nothing: the key backs off besides
   with queries   the queries are answered and the key runs again at once, at most 8 times in a row
   refused       the key runs again at once and sees the refusal; if it asks for the same again, back-off
   conflict      back-off from 5 ms, usually outrun by the watch event of what has changed; not an error
   transient     back-off; a scheduled requeue is kept. So it is after a pass that met an object which
                 cannot be read; that key also runs as soon as one can be read again or is gone
   failed        the same, and it is logged as an error; so is an exception of the reconciler
   fenced        nothing: the process is about to end
   ============  ==================================================================================

4. A back-off ends early for news only: never for the watch events of the pass's own writes (``echoes``), and not
   because a write that was looked up turned out never to have happened. So whatever the API server answers for ever,
   the tries of a key grow with the logarithm of the time.
5. No error of one key ends a worker, and no worker waits for a cache.
6. Passes that decide nothing need no I/O and therefore never let go of the loop by themselves: a worker gives way after
   ``SLICE`` seconds. A key that is written over and over is slowed down (``ratelimiter``).
"""

import asyncio
import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import anyio
import structlog
from msgspec import Struct, field

from magos.api.meta import Kind, ObjectMeta
from magos.runtime.cache.cache import Change
from magos.runtime.cache.informer import Informer
from magos.runtime.client.client import ApiClient
from magos.runtime.client.errors import ApiError
from magos.runtime.clock import Clock
from magos.runtime.controller.consistency import CacheState, WriteBarrier
from magos.runtime.controller.echoes import Echoes, Version
from magos.runtime.controller.effects import Executor
from magos.runtime.controller.endings import Applied, End
from magos.runtime.controller.passes import PassObserver, PassReport, Result
from magos.runtime.controller.queries import QueryHandler, QueryRegistry
from magos.runtime.controller.ratelimiter import ChurnGuard
from magos.runtime.controller.resting import Resting
from magos.runtime.controller.source import EventSource, WakeUp
from magos.runtime.controller.troubles import Troubles
from magos.runtime.controller.view import Caches, CacheView
from magos.runtime.controller.workqueue import Item, Key, QueueObserver, ShutDown, WorkQueue
from magos.runtime.decision import Decision, Priority, Query, QueryAnswer, Reconciler, Refusal, Request, Unreadable

ROUNDS = 8
"""Passes in a row that may bring the next one at once (queries, refusals)."""

SLICE = 0.002
"""Seconds a worker may hold the loop."""

LONGEST_RETRY_AFTER = 300.0

LONGEST_REQUEUE = 3600.0
"""Requeues are wall times and kept on the monotonic clock: an hourly pass notices that the wall clock was set."""

SHORTEST_REQUEUE = 0.01
_PAD = 0.001  # so that rounding between the two clocks does not bring the pass just before its time


class ControllerSpec(Struct, frozen=True, kw_only=True):
    """What an app says about one controller.

    ``queries`` are the handlers of its domain's query types; ``wake_ups`` wake keys besides the sources.
    """

    name: str
    kind: Kind[Any]
    reconcile: Reconciler
    sources: Sequence[EventSource[Any]]
    workers: int = 8
    queries: Mapping[type[Query], QueryHandler] = field(default_factory=dict)
    log_fields: Callable[[Any], Mapping[str, str]] = lambda _status: {}
    wake_ups: Sequence[WakeUp] = ()


class Machinery(Struct, frozen=True, kw_only=True):
    """What the controllers of one process share."""

    client: ApiClient
    clock: Clock
    rng: random.Random
    informers: Sequence[Informer[Any]]
    caches: Caches
    executor: Executor


class _Carry(Struct, frozen=True):
    """What one pass hands to the next of the same key; void once the name belongs to another object."""

    uid: str = ""
    queries: tuple[Query, ...] = ()
    refusal: Refusal | None = None
    rounds: int = 0


_NOTHING = _Carry()


class Controller:
    """See the module."""

    def __init__(
        self,
        spec: ControllerSpec,
        machinery: Machinery,
        *,
        observers: Sequence[PassObserver] = (),
        queue_observers: Sequence[QueueObserver] = (),
    ) -> None:
        self.spec = spec
        self.name = spec.name
        self._clock = machinery.clock
        self._caches = machinery.caches
        self._executor = machinery.executor
        self._observers = tuple(observers)
        self._queries = QueryRegistry(machinery.client, machinery.clock, spec.queries)
        self.queue = WorkQueue(machinery.clock, machinery.rng, spec.name, queue_observers)
        self._barrier = WriteBarrier(machinery.client, machinery.clock, machinery.informers, self._released)
        self._echoes = Echoes()
        self._troubles = Troubles(machinery.clock)
        self._carry: dict[Key, _Carry] = {}
        self._resting = Resting(machinery.informers, self.queue.add)
        self._churn: ChurnGuard[Key] = ChurnGuard()
        self._serial = itertools.count(1)
        self._stopping = False
        self._log = structlog.get_logger(__name__).bind(controller=spec.name)
        for source in spec.sources:
            source.informer.add_handler(self._handler(source))
        for wake_up in spec.wake_ups:
            wake_up.connect(self.queue.add)

    async def run(self) -> None:
        """Work until ``stop`` was called and every worker has finished its pass; cancel it to stop at once."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._barrier.run, name=f"{self.name} write barrier")
            async with anyio.create_task_group() as workers:
                for number in range(self.spec.workers):
                    workers.start_soon(self._work, name=f"{self.name} worker {number}")
            group.cancel_scope.cancel()

    def stop(self) -> None:
        """Start no pass any more; those under way are finished."""
        self._stopping = True
        self.queue.shut_down()

    def stuck(self, limit: float) -> tuple[Key, ...]:
        """Return the keys that a worker has had for longer than ``limit`` seconds."""
        return tuple(key for key, seconds in self.queue.running() if seconds > limit)

    @property
    def waiting(self) -> int:
        """Number of keys that wait until the caches have seen their writes."""
        return self._barrier.waiting

    def _handler(self, source: EventSource[Any]) -> Callable[[Change[Any]], None]:
        own = source.informer.kind == self.spec.kind

        def on_change(change: Change[Any]) -> None:
            woken = source.wakes(change)
            if woken is None:
                return
            keys, priority = woken
            anew = own and _begins_anew(change)
            latest = change.old if change.new is None else change.new
            version = Version.of(source.informer.kind, ObjectMeta() if latest is None else latest.metadata)
            for key in keys:
                if anew:
                    self.queue.forget(key)
                    self._troubles.ended(key)
                if not self._echoes.keeps(key, version, priority, backing_off=self.queue.backs_off(key)):
                    self.queue.add(key, priority)

        return on_change

    def _released(self, key: Key, priority: Priority) -> None:
        """The caches have caught up, which is no reason to cut a back-off short."""
        if not self.queue.backs_off(key):
            self.queue.add(key, priority)

    async def _work(self) -> None:
        give_way = self._clock.monotonic() + SLICE
        while True:
            try:
                item = await self.queue.get()
            except ShutDown:
                return
            self._echoes.begin(item.key)
            try:
                while await self._round(item) and not self._stopping:
                    pass
            finally:
                woken = self._echoes.end(item.key, backing_off=self.queue.backs_off(item.key))
                if woken is not None:
                    self.queue.add(item.key, woken)
                self.queue.done(item.key)
            if self._clock.monotonic() > give_way:
                await asyncio.sleep(0)
                give_way = self._clock.monotonic() + SLICE

    async def _round(self, item: Item) -> bool:
        """Do one pass; tell whether the next one of the same key follows at once."""
        now = self._clock.monotonic()
        if (wait := self._churn.wait(item.key, now)) > 0:
            self.queue.add_at(item.key, now + wait)
            return False
        state = self._barrier.enter(item.key, item.priority)
        if state is CacheState.BEHIND:
            return False
        carry = self._carry.pop(item.key, _NOTHING)
        decision: Decision | None = None
        readable = True
        try:
            answers = await self._queries.answer(carry.queries) if carry.queries else {}
            if carry.uid != (uid := self._uid(item.key)):
                carry, answers = _Carry(uid), {}
            decision = self._decide(item, carry, answers, stale=state is CacheState.STALE)
            applied = await self._executor.apply(decision)
        except ApiError as error:
            applied = Applied(end=End.TRANSIENT, message=error.message, retry_after=error.retry_after)
        except Unreadable as error:
            readable = False
            self._resting.add(item.key)
            applied = Applied(end=End.TRANSIENT, message=str(error))
        except Exception as error:  # noqa: BLE001 - no error of one key ends a worker
            self._log.exception("reconcile raised", namespace=item.key.namespace, name=item.key.name)
            applied = Applied(end=End.FAILED, message=f"{type(error).__name__}: {error}")
        self._remember(item.key, applied)
        if applied.end in (End.CONFLICT, End.TRANSIENT, End.FAILED) and readable:
            self._troubles.failed(item.key, applied.message, now)
        follows, result = self._conclude(item.key, carry, decision, applied)
        self._report(item, result, now, decision, applied)
        return follows

    def _uid(self, key: Key) -> str:
        """Return whose name the key is, as the cache has it; empty if there is no such object."""
        held = self._caches.of(self.spec.kind).get(*key)
        return "" if held is None else held.metadata.uid

    def _remember(self, key: Key, applied: Applied) -> None:
        self._barrier.record(key, applied.writes)
        self._echoes.wrote(key, applied.writes)
        if any(not write.unknown for write in applied.writes) and self._churn.wrote(key, self._clock.monotonic()):
            self._log.error("object is written again and again", namespace=key.namespace, name=key.name)

    def _decide(self, item: Item, carry: _Carry, answers: Mapping[Query, QueryAnswer], *, stale: bool) -> Decision:
        key = item.key
        trouble = self._troubles.of(key)
        view = CacheView(self._caches, answers=answers, refusal=carry.refusal, stale=stale, trouble=trouble)
        request = Request(namespace=key.namespace, name=key.name, priority=item.priority, attempt=item.attempt)
        return self.spec.reconcile(request, view, self._clock.now())

    def _conclude(self, key: Key, carry: _Carry, decision: Decision | None, applied: Applied) -> tuple[bool, Result]:
        """Do what the table says; tell whether the key runs again at once."""
        if applied.end is End.COMPLETE and decision is not None:
            if decision.queries:
                return self._follow(key, _Carry(carry.uid, queries=decision.queries, rounds=carry.rounds + 1))
            if self._troubles.ended(key):  # it is shown no more: the pass that follows says so
                return self._follow(key, _Carry(carry.uid, rounds=carry.rounds + 1))
            if carry.refusal is None:
                self.queue.forget(key)
            else:
                self.queue.retry(key)
            self._requeue(key, decision.requeue_at)
            return False, Result.SUCCESS if decision.requeue_at is None else Result.REQUEUE_AFTER
        if applied.end is End.CONFLICT:
            self.queue.retry(key)
            return False, Result.REQUEUE
        if applied.refusal is not None and (carry.refusal is None or carry.refusal.effect != applied.refusal.effect):
            return self._follow(key, _Carry(carry.uid, refusal=applied.refusal, rounds=carry.rounds + 1))
        if applied.end is not End.FENCED:
            self.queue.retry(key, at_least=min(applied.retry_after or 0.0, LONGEST_RETRY_AFTER))
        return False, Result.ERROR

    def _follow(self, key: Key, carry: _Carry) -> tuple[bool, Result]:
        if carry.rounds >= ROUNDS:
            self._log.error("reconcile repeats without an end", namespace=key.namespace, name=key.name, rounds=ROUNDS)
            self.queue.retry(key)
            return False, Result.ERROR
        self._carry[key] = carry
        return True, Result.REQUEUE

    def _requeue(self, key: Key, at: datetime | None) -> None:
        self.queue.cancel_requeue(key)
        if at is not None:
            delay = (at - self._clock.now()).total_seconds() + _PAD
            delay = min(max(delay, SHORTEST_REQUEUE), LONGEST_REQUEUE)
            self.queue.add_at(key, self._clock.monotonic() + delay)

    def _report(self, item: Item, result: Result, started: float, decision: Decision | None, applied: Applied) -> None:
        report = PassReport(
            controller=self.name,
            key=item.key,
            result=result,
            seconds=self._clock.monotonic() - started,
            outcome=decision.outcome if decision else None,
            writes=sum(not write.unknown for write in applied.writes),
            error=applied.message,
        )
        for observer in self._observers:
            observer.passed(report)
        serial = next(self._serial)
        if applied.end is End.COMPLETE and not report.writes and result is not Result.ERROR:
            return
        log = self._log.bind(**self._fields(item.key, decision), reconcile_id=serial)
        if applied.end is End.REFUSED:
            log.warning("effect rejected by the API server", error=applied.message)
        elif result is Result.ERROR:
            log.warning("reconcile failed", error=applied.message, attempt=item.attempt + 1)
        elif applied.end is End.CONFLICT:
            log.info("write conflict, object is reconciled again", cause=applied.message)
        else:
            log.info("reconciled", writes=report.writes, outcome=report.outcome, seconds=round(report.seconds, 6))

    def _fields(self, key: Key, decision: Decision | None) -> dict[str, str]:
        """Return what every log line about an object says, from the status it is to have or has."""
        if decision is not None and decision.status is not None:
            status = decision.status.desired
        else:
            status = getattr(self._caches.of(self.spec.kind).get(*key), "status", None)
        extra = {} if status is None else self.spec.log_fields(status)
        return {"namespace": key.namespace, "name": key.name, **extra}


def _begins_anew(change: Change[Any]) -> bool:
    """Tell whether earlier failures say nothing any more: another object, or another spec."""
    old, new = change.old, change.new
    return old is None or (new is not None and old.metadata.generation != new.metadata.generation)
