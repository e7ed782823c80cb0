"""Claims of magos/runtime/controller/events.py, on the simulated API server and in virtual time."""

import random
from collections.abc import Awaitable, Callable

import anyio
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from magos.api.kube import EVENTS, KubeEvent
from magos.runtime.client.transport import Lane
from magos.runtime.controller import events
from magos.runtime.controller.events import EventRecorder, cut_note
from magos.runtime.decision import Event, EventType
from tests.sim.apiserver import Answer, Lose, Rule, SimApiServer
from tests.sim.toy import WIDGETS
from tests.sim.virtualtime import VirtualClock, run_virtual

EVENT = Event(
    regarding=WIDGETS.ref("default", "a"),
    uid="u-1",
    type=EventType.NORMAL,
    reason="Ready",
    action="Reconcile",
    note="first",
)


class World:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.server = SimApiServer(self.clock, random.Random(1))
        self.dropped = 0
        self.recorder = EventRecorder(
            self.server.client(), self.clock, random.Random(2), reporter=("toy-controller", "pod-1"), dropped=self._drop
        )

    def _drop(self) -> None:
        self.dropped += 1

    async def stored(self) -> tuple[KubeEvent, ...]:
        return (await self.server.client("reader").list_all(EVENTS)).items


def in_world(scene: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        world = World()
        async with anyio.create_task_group() as group:
            group.start_soon(world.recorder.run)
            await scene(world)
            group.cancel_scope.cancel()

    run_virtual(main, seed=3)


def test_first_is_created_second_becomes_a_series_and_the_rest_is_counted_in_memory() -> None:
    async def scene(world: World) -> None:
        for number in range(50):
            world.recorder.emit(replace(EVENT, note=f"note {number}"))
            await anyio.sleep(1)
        (event,) = await world.stored()
        assert event.note == "note 0"
        assert event.reporting_controller == "toy-controller"
        assert event.series is not None
        assert event.series.count == 2
        assert world.server.counts("test") == {"create": 1, "patch": 1}
        await anyio.sleep(events.SILENCE + events.SWEEP)
        (event,) = await world.stored()
        assert event.series is not None
        assert event.series.count == 50
        assert world.server.counts("test") == {"create": 1, "patch": 2}

    in_world(scene)


def test_events_that_differ_in_more_than_the_note_stay_apart() -> None:
    async def scene(world: World) -> None:
        for event in (EVENT, replace(EVENT, reason="Refused"), replace(EVENT, uid="u-2")):
            world.recorder.emit(event)
        await anyio.sleep(1)
        assert len(await world.stored()) == 3
        assert all(served.lane is Lane.EVENTS for served in world.server.served if served.user == "test")

    in_world(scene)


def test_an_equal_event_after_the_silence_is_a_new_one() -> None:
    async def scene(world: World) -> None:
        world.recorder.emit(EVENT)
        await anyio.sleep(events.SILENCE + 1)
        world.recorder.emit(EVENT)
        await anyio.sleep(1)
        assert len(await world.stored()) == 2

    in_world(scene)


def test_a_long_series_is_sent_again_every_half_hour() -> None:
    async def scene(world: World) -> None:
        for _ in range(35):
            world.recorder.emit(EVENT)
            await anyio.sleep(60)
        assert world.server.counts("test")["patch"] == 2

    in_world(scene)


def test_a_full_queue_drops_and_counts_and_never_waits() -> None:
    async def scene(world: World) -> None:
        world.server.faults.add(Rule(fault=Answer(code=503), path="/events", times=None))
        for number in range(events.QUEUE_LIMIT + 10):
            world.recorder.emit(replace(EVENT, uid=f"u-{number}"))
        assert world.dropped == 10

    in_world(scene)


def test_unanswered_events_are_tried_again_and_a_committed_one_is_not_doubled() -> None:
    async def scene(world: World) -> None:
        world.server.faults.add(Rule(fault=Answer(code=503), path="/events", times=3))
        world.server.faults.add(Rule(fault=Lose(effect=True), path="/events", times=1))
        world.recorder.emit(EVENT)
        await anyio.sleep(60)
        assert len(await world.stored()) == 1
        assert world.dropped == 0

    in_world(scene)


def test_tries_end_after_twelve_and_refused_events_are_dropped_at_once() -> None:
    async def scene(world: World) -> None:
        rule = world.server.faults.add(Rule(fault=Answer(code=503), path="/events", times=None))
        world.recorder.emit(EVENT)
        await anyio.sleep(300)
        assert (rule.struck, world.dropped) == (events.TRIES, 1)
        world.server.faults.clear()
        rule = world.server.faults.add(Rule(fault=Answer(code=403, reason="Forbidden"), path="/events", times=None))
        world.recorder.emit(replace(EVENT, uid="u-2"))
        await anyio.sleep(300)
        assert (rule.struck, world.dropped) == (1, 2)

    in_world(scene)


def test_an_event_that_expired_at_the_server_is_created_anew() -> None:
    async def scene(world: World) -> None:
        world.recorder.emit(EVENT)
        await anyio.sleep(1)
        (event,) = await world.stored()
        await world.server.client("ttl").delete(EVENTS, "default", event.metadata.name)
        world.recorder.emit(EVENT)
        await anyio.sleep(1)
        (event,) = await world.stored()
        assert event.series is not None
        assert event.series.count == 2

    in_world(scene)


def test_close_sends_what_is_open_and_lets_run_return() -> None:
    async def main() -> None:
        world = World()
        async with anyio.create_task_group() as group:
            group.start_soon(world.recorder.run)
            for _ in range(5):
                world.recorder.emit(EVENT)
            await anyio.sleep(1)
            for _ in range(5):
                world.recorder.emit(EVENT)
            world.recorder.close()
        (event,) = await world.stored()
        assert event.series is not None
        assert event.series.count == 10

    run_virtual(main)


@given(st.text(max_size=3000))
def test_bound_event_note(note: str) -> None:
    """A note fits, and is cut between characters."""
    cut = cut_note(note)
    assert len(cut.encode()) <= events.NOTE_LIMIT
    if cut != note.encode(errors="replace").decode():
        assert cut.endswith("…")
        assert note.encode(errors="replace").decode().startswith(cut[:-1])
