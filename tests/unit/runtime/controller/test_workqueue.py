"""The queue's promises in single scenarios; the state machine is in ``test_workqueue_machine.py``."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from magos.errors import InvariantViolation
from magos.runtime.controller.workqueue import Item, Key, ShutDown, WorkQueue
from magos.runtime.decision import Priority
from tests.sim.virtualtime import VirtualClock, run_virtual

A, B, C = Key("ns", "a"), Key("ns", "b"), Key("ns", "c")


def scenario(body: Callable[[WorkQueue], Awaitable[None]]) -> None:
    async def main() -> None:
        await body(WorkQueue(VirtualClock(), random.Random(7), "test"))

    run_virtual(main)


async def _next(queue: WorkQueue) -> Key:
    item = await queue.get()
    queue.done(item.key)
    return item.key


def test_a_thousand_adds_of_one_key_do_not_hold_up_another() -> None:
    async def body(queue: WorkQueue) -> None:
        for _ in range(1000):
            queue.add(A)
        queue.add(B)
        assert len(queue) == 2
        assert [await _next(queue), await _next(queue)] == [A, B]

    scenario(body)


def test_adds_while_processing_give_exactly_one_more_pass() -> None:
    async def body(queue: WorkQueue) -> None:
        queue.add(A)
        await queue.get()
        for _ in range(5):
            queue.add(A)
        assert len(queue) == 0
        queue.done(A)
        assert await _next(queue) == A
        assert queue.idle

    scenario(body)


def test_the_earliest_appointment_wins_and_an_add_does_not_erase_it() -> None:
    async def body(queue: WorkQueue) -> None:
        loop = asyncio.get_running_loop()
        queue.add_at(A, 60)
        queue.add_at(A, 10)
        queue.add_at(A, 90)
        queue.add(A)
        assert await _next(queue) == A
        assert loop.time() == 0
        assert queue.requeue_time(A) == 10
        assert await _next(queue) == A
        assert loop.time() == 10
        assert queue.pending == 0

    scenario(body)


def test_a_cancelled_appointment_does_not_come() -> None:
    async def body(queue: WorkQueue) -> None:
        queue.add_at(A, 10)
        queue.add_at(B, 20)
        queue.cancel_requeue(A)
        assert await _next(queue) == B

    scenario(body)


def test_a_failed_key_comes_back_at_its_priority_with_its_attempts() -> None:
    async def body(queue: WorkQueue) -> None:
        loop = asyncio.get_running_loop()
        queue.add(A, Priority.USER)
        before = delay = 0.0
        for attempt in range(12):
            assert await queue.get() == Item(A, Priority.USER, attempt)
            before = loop.time()
            delay = queue.retry(A)
            queue.done(A)
            if attempt < 11:
                queue.add(B)
                assert await _next(queue) == B
        assert await queue.get() == Item(A, Priority.USER, 12)
        assert loop.time() - before == pytest.approx(delay, abs=1e-5)
        assert 9 < delay < 12
        queue.forget(A)
        queue.done(A)
        queue.add(A)
        assert (await queue.get()).attempt == 0

    scenario(body)


def test_an_event_ends_the_back_off_at_once() -> None:
    async def body(queue: WorkQueue) -> None:
        queue.add(A)
        for _ in range(15):
            await queue.get()
            queue.retry(A)
            queue.done(A)
            queue.add(A)
        await queue.get()
        queue.forget(A)
        queue.done(A)
        assert queue.pending == 0
        assert asyncio.get_running_loop().time() == 0

    scenario(body)


def test_the_replay_of_ten_thousand_keys_does_not_delay_a_person() -> None:
    async def body(queue: WorkQueue) -> None:
        for number in range(10_000):
            queue.add(Key("ns", str(number)), Priority.REPLAY)
        queue.add(B)
        queue.add(Key("ns", "77"), Priority.USER)
        assert [await _next(queue), await _next(queue)] == [Key("ns", "77"), B]
        assert len(queue) == 9_999

    scenario(body)


def test_endless_urgent_work_does_not_starve_the_rest() -> None:
    async def body(queue: WorkQueue) -> None:
        queue.add(A, Priority.REPLAY)
        queue.add(B, Priority.CHANGE)
        await asyncio.sleep(31)
        order = []
        for number in range(16):
            queue.add(Key("user", str(number)), Priority.USER)
            order.append(await _next(queue))
        assert {A, B} <= set(order)

    scenario(body)


def test_shut_down_wakes_all_getters_and_drops_adds() -> None:
    async def body(queue: WorkQueue) -> None:
        getters = [asyncio.create_task(queue.get()) for _ in range(5)]
        await asyncio.sleep(1)
        queue.shut_down()
        outcomes = await asyncio.gather(*getters, return_exceptions=True)
        assert all(isinstance(outcome, ShutDown) for outcome in outcomes)
        queue.add(A)
        queue.add_at(A, 5)
        queue.retry(A)
        assert (len(queue), queue.pending) == (0, 0)
        with pytest.raises(ShutDown):
            await queue.get()

    scenario(body)


def test_drain_hands_out_what_is_ready_and_awaits_the_workers() -> None:
    async def body(queue: WorkQueue) -> None:
        loop = asyncio.get_running_loop()

        async def worker() -> None:
            while True:
                try:
                    item = await queue.get()
                except ShutDown:
                    return
                await asyncio.sleep(2)
                queue.done(item.key)

        for key in (A, B, C):
            queue.add(key)
        queue.add_at(A, 1000)
        workers = [asyncio.create_task(worker()) for _ in range(2)]
        await asyncio.sleep(1)
        queue.add(A)
        await queue.drain()
        assert loop.time() == 4
        await asyncio.gather(*workers)
        await queue.drain()

    scenario(body)


def test_giving_back_what_nobody_has_is_a_bug() -> None:
    async def body(queue: WorkQueue) -> None:
        with pytest.raises(InvariantViolation, match="ns/a"):
            queue.done(A)

    scenario(body)


def test_ten_thousand_appointments_keep_one_timer() -> None:
    async def body(queue: WorkQueue) -> None:
        for number in range(10_000):
            queue.add_at(Key("ns", str(number)), 100 + number)
        scheduled = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]
        assert len(scheduled) < 5
        assert await _next(queue) == Key("ns", "0")

    scenario(body)


def test_running_tells_who_works_on_what_and_how_long() -> None:
    async def body(queue: WorkQueue) -> None:
        queue.add(A)
        await queue.get()
        await asyncio.sleep(3)
        queue.add(B)
        await queue.get()
        await asyncio.sleep(1)
        assert queue.running() == [(A, 4.0), (B, 1.0)]

    scenario(body)


def test_keys_print_as_kubectl_names_them() -> None:
    assert (str(A), str(Key("", "node"))) == ("ns/a", "node")
