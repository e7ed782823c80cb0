"""The work queue against a naive model: hypothesis looks for a sequence of operations on which they differ."""

import asyncio
import random
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from magos.runtime.controller.workqueue import Item, Key, ShutDown, WorkQueue
from magos.runtime.decision import Priority
from tests.sim.virtualtime import VirtualClock, VirtualLoop

KEYS = [Key("ns", name) for name in "abcdef"]
SOME_KEY = st.sampled_from(KEYS)
ORDER = list(Priority)
SETTLE = 1e-4
EDGE = 1e-5  # more than the shortest timer of the queue


@dataclass
class Wanted:
    """A key that is ready, in the order of the list it stands in."""

    key: Key
    rank: int
    since: float


@dataclass
class Model:
    """The queue as one would explain it: lists, searched from end to end."""

    ready: list[Wanted] = field(default_factory=list)
    running: dict[Key, int] = field(default_factory=dict)
    again: dict[Key, Wanted] = field(default_factory=dict)
    retries: dict[Key, tuple[float, int, int]] = field(default_factory=dict)
    appointments: dict[Key, tuple[float, int]] = field(default_factory=dict)
    failures: dict[Key, int] = field(default_factory=dict)
    adds: int = 0
    turn: int = 0
    serial: int = 0

    def want(self, key: Key, rank: int, now: float) -> None:
        queued = next((wanted for wanted in self.ready if wanted.key == key), None)
        if key in self.running:
            self.adds += key not in self.again
            earlier = self.again.get(key, Wanted(key, rank, now))
            self.again[key] = Wanted(key, min(rank, earlier.rank), earlier.since)
        elif queued is None:
            self.adds += 1
            self.ready.append(Wanted(key, rank, now))
        elif rank < queued.rank:
            self.ready.remove(queued)
            self.ready.append(Wanted(key, rank, queued.since))

    def take(self, now: float) -> Item:
        self.turn += 1
        heads = [next((wanted for wanted in self.ready if wanted.rank == rank), None) for rank in range(3)]
        chosen = next(head for head in heads if head is not None)
        aged = [head for head in heads[1:] if head is not None and now - head.since > 30]
        if self.turn % 8 == 0 and aged:
            chosen = min(aged, key=lambda head: head.since)
        self.ready.remove(chosen)
        self.running[chosen.key] = chosen.rank
        self.retries.pop(chosen.key, None)
        return Item(chosen.key, ORDER[chosen.rank], self.failures.get(chosen.key, 0))

    def on_the_edge(self, now: float) -> bool:
        """Tell whether a delay ends so close to ``now`` that the queue's timer may or may not have fired."""
        ends = [when for when, *_ in (*self.retries.values(), *self.appointments.values())]
        return any(now - EDGE < when < now + EDGE for when in ends)

    def due(self, now: float) -> float | None:
        """Process the earliest delay that is due; return its time."""
        delays = [(when, 0, serial, key) for key, (when, serial, _) in self.retries.items()]
        delays += [(when, 1, serial, key) for key, (when, serial) in self.appointments.items()]
        when, kind, _, key = min(delays, default=(now + 1, 0, 0, KEYS[0]))
        if when > now:
            return None
        rank = self.retries.pop(key)[2] if kind == 0 else ORDER.index(Priority.CHANGE)
        if kind == 1:
            del self.appointments[key]
        self.want(key, rank, when)
        return when


class Counts:
    """An observer that counts."""

    def __init__(self) -> None:
        self.adds = self.retries = self.starts = self.ends = 0

    def added(self) -> None:
        self.adds += 1

    def retried(self) -> None:
        self.retries += 1

    def started(self, waited: float) -> None:
        assert waited >= 0
        self.starts += 1

    def finished(self, worked: float) -> None:
        assert worked >= 0
        self.ends += 1


class QueueMachine(RuleBasedStateMachine):
    """Every rule does the same to the queue and to the model; after each, the loop settles and both must agree."""

    @initialize(seed=st.integers(0, 1000))
    def start(self, seed: int) -> None:
        self.loop = VirtualLoop(seed)
        self.counts = Counts()
        self.queue = WorkQueue(VirtualClock(), random.Random(seed), "machine", [self.counts])
        self.model = Model()
        self.getters: list[asyncio.Task[Item]] = []
        self.waiting = 0
        self.open = True

    def teardown(self) -> None:
        if hasattr(self, "loop"):
            for getter in self.getters:
                getter.cancel()
            self.loop.run_until_complete(asyncio.wait_for(self._settle(0.001), 1))
            self.loop.close()

    async def _settle(self, span: float) -> None:
        await asyncio.sleep(span)

    def run(self, span: float = SETTLE) -> None:
        """Let virtual time pass; what the waiting getters received must be what the model would hand out."""
        expected = []
        before = self.loop.time()
        self.loop.run_until_complete(self._settle(span))
        while self.model.on_the_edge(self.loop.time()):
            self.loop.run_until_complete(self._settle(2 * EDGE))
        now: float | None = before
        while now is not None:
            while self.model.ready and self.waiting:
                self.waiting -= 1
                expected.append(self.model.take(now))
            now = self.model.due(self.loop.time())
        received = [getter.result() for getter in self.getters if getter.done()]
        self.getters = [getter for getter in self.getters if not getter.done()]
        assert sorted(received, key=lambda item: item.key) == sorted(expected, key=lambda item: item.key)

    def on_loop(self, call: object, *args: object) -> object:
        async def inside() -> object:
            assert callable(call)
            return call(*args)

        return self.loop.run_until_complete(inside())

    @rule(key=SOME_KEY, priority=st.sampled_from(ORDER))
    def add(self, key: Key, priority: Priority) -> None:
        self.on_loop(self.queue.add, key, priority)
        if self.open:
            self.model.want(key, ORDER.index(priority), self.loop.time())
        self.run()

    @precondition(lambda self: self.getters and self.open)
    @rule(key=SOME_KEY)
    def add_and_cancel_the_woken_getter(self, key: Key) -> None:
        def both() -> None:
            self.queue.add(key)
            self.getters[0].cancel()

        self.on_loop(both)
        self.getters.pop(0)
        self.waiting -= 1
        self.model.want(key, ORDER.index(Priority.CHANGE), self.loop.time())
        self.run()

    @precondition(lambda self: self.getters)
    @rule()
    def cancel_a_getter(self) -> None:
        self.getters.pop().cancel()
        self.waiting -= 1
        self.run()

    @rule(key=SOME_KEY, delay=st.sampled_from([-5.0, 0.0, 0.5, 3.0, 40.0, 5000.0]))
    def add_at(self, key: Key, delay: float) -> None:
        when = self.loop.time() + delay
        self.on_loop(self.queue.add_at, key, when)
        if self.open and when < self.model.appointments.get(key, (1e9, 0))[0]:
            self.model.serial += 1
            self.model.appointments[key] = (when, self.model.serial)
        self.run()

    @rule(key=SOME_KEY)
    def cancel_requeue(self, key: Key) -> None:
        self.on_loop(self.queue.cancel_requeue, key)
        self.model.appointments.pop(key, None)

    @rule(key=SOME_KEY)
    def retry(self, key: Key) -> None:
        delay = self.on_loop(self.queue.retry, key)
        assert isinstance(delay, float)
        failures = self.model.failures.get(key, 0)
        self.model.failures[key] = failures + 1
        nominal = min(1000.0, 0.005 * 2**failures)
        assert nominal * 0.9 <= delay <= nominal * 1.1
        if self.open:
            rank = self.model.running.get(key, ORDER.index(Priority.CHANGE))
            self.model.serial += 1
            when, serial, _ = self.model.retries.get(key, (1e9, 0, 0))
            new = self.loop.time() + delay
            self.model.retries[key] = (new, self.model.serial, rank) if new < when else (when, serial, rank)
        self.run()

    @rule(key=SOME_KEY)
    def forget(self, key: Key) -> None:
        self.on_loop(self.queue.forget, key)
        self.model.failures.pop(key, None)
        self.model.retries.pop(key, None)

    @rule()
    def get(self) -> None:
        getter = self.loop.create_task(self.queue.get())
        if self.open:
            self.getters.append(getter)
            self.waiting += 1
            self.run()
        else:
            self.loop.run_until_complete(asyncio.wait([getter]))
            assert isinstance(getter.exception(), ShutDown)

    @precondition(lambda self: self.model.running)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.model.running)))
        self.on_loop(self.queue.done, key)
        del self.model.running[key]
        if (again := self.model.again.pop(key, None)) is not None:
            self.model.ready.append(again)
        self.run()

    @rule(span=st.sampled_from([0.0113, 0.317, 7.713, 31.3, 1100.1]))
    def advance(self, span: float) -> None:
        self.run(span)

    @precondition(lambda self: self.open)
    @rule()
    def shut_down(self) -> None:
        self.on_loop(self.queue.shut_down)
        self.loop.run_until_complete(self._settle(SETTLE))
        assert all(isinstance(getter.exception(), ShutDown) for getter in self.getters)
        self.getters.clear()
        self.open, self.waiting = False, 0
        self.counts.adds -= len(self.model.ready) + len(self.model.again)
        self.model.adds -= len(self.model.ready) + len(self.model.again)
        for forgotten in (self.model.again, self.model.retries, self.model.appointments):
            forgotten.clear()
        self.model.ready.clear()

    @invariant()
    def agree(self) -> None:
        model, queue = self.model, self.queue
        assert len(queue) == len(model.ready)
        assert queue.pending == len(model.retries) + len(model.appointments)
        assert dict(self.on_loop(queue.running)).keys() == model.running.keys()  # type: ignore[call-overload]
        assert all(queue.requeue_time(key) == model.appointments.get(key, (None,))[0] for key in KEYS)
        assert self.counts.adds == model.adds
        assert self.counts.adds == self.counts.starts + len(model.ready) + len(model.again)
        assert self.counts.starts == self.counts.ends + len(model.running)
        assert not (model.ready and self.getters), "a key is ready, and a worker waits"


TestWorkQueue = QueueMachine.TestCase
TestWorkQueue.settings = settings(deadline=None, max_examples=60, stateful_step_count=60)
