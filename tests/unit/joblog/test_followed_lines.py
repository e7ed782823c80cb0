"""Lines of a pod as they are written, from a node on which everything may happen meanwhile."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from typing import Any

import pytest

from magos.api.names import JobType
from magos.joblog import LogLine, followed_lines
from magos.runtime.client.errors import ApiError
from tests.sim.virtualtime import run_virtual
from tests.unit.joblog.node import BEGIN, SECOND, Break, Container, Entry, Node, lines

HOUR = 3600.0


def followed(node: Node, script: Callable[[], Coroutine[Any, Any, None]]) -> list[tuple[str, str]]:
    """Follow an apply while ``script`` runs beside; return stage and text of each line."""
    seen: list[LogLine] = []

    async def main() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(script())
            async with aclosing(followed_lines(node.client, node.pod, JobType.APPLY)) as found:
                seen.extend([line async for line in found])

    run_virtual(main)
    return [(line.stage.value, line.text.decode()) for line in seen]


async def runs(node: Node, name: str, *texts: bytes, pause: float = 0.3, begin: int = BEGIN) -> None:
    """Let a container start, print and end."""
    container = node.containers.setdefault(name, Container(refusal=(400, "waiting to start")))
    container.state = {"running": {}}
    await asyncio.sleep(pause)
    container.refusal = None
    for entry in lines(*texts, begin=begin):
        container.entries.append(entry)
        await asyncio.sleep(pause)
    container.state = {"terminated": {"exitCode": 0}}


async def whole_pod(node: Node, pause: float = 0.3) -> None:
    for name in ("fetch", "terraform", "job"):
        await runs(node, name, f"{name} begins".encode(), f"{name} ends".encode(), pause=pause)
    node.phase = "Succeeded"


WHOLE = [(name, f"{name} {what}") for name in ("fetch", "terraform", "job") for what in ("begins", "ends")]


def test_lines_come_stage_by_stage_until_the_pod_has_ended() -> None:
    node = Node()
    assert followed(node, lambda: whole_pod(node)) == WHOLE
    assert node.looks < 20


def test_a_stage_may_take_hours_to_start_and_be_silent_for_hours() -> None:
    node = Node()
    node.most_opened = 20_000

    async def script() -> None:
        await asyncio.sleep(HOUR)
        await whole_pod(node, HOUR)

    assert followed(node, script) == WHOLE
    assert node.looks < 11 * HOUR, "it looks more than once a second"


def test_connections_that_break_again_and_again_cost_no_line_and_repeat_none() -> None:
    for position in range(1, 90, 3):
        for in_order in (False, True):
            node = Node(*[Break(position + number, in_order) for number in range(9)])
            assert followed(node, lambda node=node: whole_pod(node)) == WHOLE, (position, in_order)  # type: ignore[misc]


def test_a_connection_to_a_silent_container_may_be_cut_any_number_of_times() -> None:
    node = Node(*[Break(1) for _ in range(30)])
    node.most_opened = 20_000
    assert followed(node, lambda: whole_pod(node, HOUR)) == WHOLE


def test_an_api_server_that_restarts_is_waited_for() -> None:
    node = Node(Break(60), Break(80))

    async def script() -> None:
        node.down = 9
        await whole_pod(node)

    assert followed(node, script) == WHOLE


def test_an_api_server_that_stays_away_is_an_error_within_about_a_minute() -> None:
    node = Node()
    node.down = 1_000_000

    async def script() -> None:
        await asyncio.sleep(120)

    with pytest.raises(ExceptionGroup) as caught:
        followed(node, script)
    assert isinstance(caught.value.exceptions[0], ApiError)


def test_a_pod_that_is_deleted_meanwhile_ends_it_with_not_found() -> None:
    node = Node()

    async def script() -> None:
        await runs(node, "fetch", b"cloned")
        node.uid = ""

    with pytest.raises(ExceptionGroup) as caught:
        followed(node, script)
    [error] = caught.value.exceptions
    assert isinstance(error, ApiError)
    assert error.not_found


def test_a_container_that_is_started_again_is_read_on() -> None:
    node = Node()

    async def script() -> None:
        await runs(node, "fetch", b"first try", pause=3)
        node.containers["fetch"].state = {"running": {}}
        node.containers["fetch"].entries.clear()
        await runs(node, "fetch", b"second try", begin=BEGIN + 60 * SECOND)
        await runs(node, "terraform")
        await runs(node, "job")
        node.phase = "Succeeded"

    assert followed(node, script) == [("fetch", "first try"), ("fetch", "second try")]


def test_stages_that_never_start_in_a_pod_that_ended_are_named() -> None:
    node = Node()

    async def script() -> None:
        await runs(node, "fetch", b"stopped")
        node.phase = "Failed"

    nothing = "[no output of this stage: waiting to start]"
    assert followed(node, script) == [("fetch", "stopped"), ("terraform", nothing), ("job", nothing)]


def test_a_last_line_without_newline_comes_once_the_container_has_ended() -> None:
    node = Node()

    async def script() -> None:
        container = node.containers.setdefault("fetch", Container({"running": {}}))
        container.entries.append(Entry(BEGIN, b"50 %", newline=False))
        await asyncio.sleep(20)
        container.state = {"terminated": {"exitCode": 0}}
        await runs(node, "terraform")
        await runs(node, "job")

    assert followed(node, script) == [("fetch", "50 %")]
