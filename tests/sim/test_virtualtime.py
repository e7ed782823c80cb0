"""The virtual loop is what every simulation rests on."""

import asyncio
from datetime import timedelta

import anyio
import pytest

from tests.sim.virtualtime import EPOCH, VirtualClock, VirtualDeadlock, VirtualLivelock, run_virtual


def test_a_day_passes_at_once_and_exactly() -> None:
    async def main() -> tuple[float, float]:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(0.1)
        first = loop.time()
        await anyio.sleep(86400 * 30)
        return first, loop.time()

    assert run_virtual(main) == (0.1, 0.1 + 86400 * 30)


def test_timers_at_one_late_instant_all_fire() -> None:
    async def main() -> list[int]:
        loop = asyncio.get_running_loop()
        fired: list[int] = []
        for number in range(3):
            loop.call_at(3e7 + 0.1, fired.append, number)
        await asyncio.sleep(3e7 + 1)
        return sorted(fired)

    assert run_virtual(main) == [0, 1, 2]


def test_waiting_for_what_nobody_will_do_is_a_deadlock() -> None:
    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(VirtualDeadlock, match="waits at"):
        run_virtual(main)


def test_spinning_and_endless_time_are_errors() -> None:
    async def endless() -> None:
        while True:  # noqa: ASYNC110 - the point of the test
            await asyncio.sleep(60)

    async def spinning() -> None:
        while True:  # noqa: ASYNC110
            await asyncio.sleep(0)

    with pytest.raises(VirtualLivelock, match="limit"):
        run_virtual(endless, limit=3600)
    with pytest.raises(VirtualLivelock, match="without time passing"):
        run_virtual(spinning)


def _order(seed: int | None) -> list[int]:
    order: list[int] = []

    async def worker(number: int) -> None:
        await asyncio.sleep(1)
        order.append(number)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for number in range(6):
                group.start_soon(worker, number)

    run_virtual(main, seed)
    return order


def test_a_seed_fixes_the_order_and_other_seeds_find_others() -> None:
    assert _order(None) == [0, 1, 2, 3, 4, 5]
    assert all(_order(seed) == _order(seed) for seed in range(5))
    assert len({tuple(_order(seed)) for seed in range(20)}) > 10


def test_a_seed_fixes_the_order_in_which_a_cancelled_scope_wakes_its_tasks() -> None:
    """The scope keeps its tasks in sets, so that it wakes them in the order of their addresses."""
    ballast: list[object] = []

    async def worker(number: int, order: list[int]) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            order.append(number)

    async def main() -> tuple[int, ...]:
        order: list[int] = []
        async with anyio.create_task_group() as group:
            for number in range(12):
                group.start_soon(worker, number, order)
                ballast.append([asyncio.get_running_loop().create_future() for _ in range(len(ballast) % 7)])
            await anyio.sleep(1)
            group.cancel_scope.cancel()
        return tuple(order)

    assert len({run_virtual(main, 3) for _ in range(20)}) == 1


def test_timeouts_and_cancellation_work_in_every_order() -> None:
    async def main() -> float:
        with anyio.move_on_after(5):
            await anyio.sleep_forever()
        async with asyncio.timeout(10):
            await asyncio.sleep(7)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await asyncio.sleep(7)
        return asyncio.get_running_loop().time()

    assert {run_virtual(main, seed) for seed in range(10)} == {13.0}


def test_thread_functions_run_inline() -> None:
    async def main() -> int:
        return await asyncio.to_thread(lambda: 7)

    assert run_virtual(main) == 7


def test_clocks_drift_and_jump_apart() -> None:
    async def main() -> None:
        true, fast = VirtualClock(), VirtualClock(rate=1.2, offset=100)
        await asyncio.sleep(10)
        assert true.monotonic() == 10
        assert fast.monotonic() == 112
        fast.jump_wall(timedelta(hours=-1))
        assert fast.monotonic() == 112
        assert fast.now() == EPOCH + timedelta(seconds=12) - timedelta(hours=1)

    run_virtual(main)
