"""A person who stops a Rollout or a Project in the middle of many grants, and when the last of them is written.

Reads and writes take their time, so that a judgement of 300 members would be outdated long before its last grant.
"""

from collections.abc import Awaitable, Callable

import anyio

from magos.api.annotations import EXECUTION_ALLOWED
from magos.api.project import PROJECTS
from tests.sim.apiserver.store import Change
from tests.sim.promotion import NAMESPACE, PROJECT, Land, in_land

__all__ = [
    "MEMBERS",
    "PROJECT_STOPS",
    "ROLLOUT_STOPS",
    "Stop",
    "last_grant",
]

MEMBERS = 300
SLOW = (0.025, 0.045)
"""Seconds each way: one grant takes about 70 ms, 300 of them take 21 seconds."""

FIRST = "first"
"""The Workspace of the step that is put before the others: it may be granted then, they may not."""

Stop = Callable[[Land], Awaitable[None]]


async def without_steps(land: Land) -> None:
    await land.edit_rollout()


async def with_a_step_that_selects_nobody(land: Land) -> None:
    await land.edit_rollout("dev", "nobody")


async def by_an_earlier_step(land: Land) -> None:
    await land.edit_rollout("first", "dev")


async def with_a_rollout_that_has_no_steps(land: Land) -> None:
    await land.add_rollout()


async def by_deletion_of_the_project(land: Land) -> None:
    await land.user.delete(PROJECTS, NAMESPACE, PROJECT)


ROLLOUT_STOPS: tuple[Stop, ...] = (without_steps, with_a_step_that_selects_nobody, by_an_earlier_step)
PROJECT_STOPS: tuple[Stop, ...] = (with_a_rollout_that_has_no_steps, by_deletion_of_the_project)


def last_grant(controller: str, stop: Stop, after: int) -> float:
    """Return how many seconds after the stop the last grant was written; below 0 if before it."""
    grants: list[float] = []
    stopped: list[float] = []

    async def scene(land: Land) -> None:
        def note(change: Change) -> None:
            if change.resource == "workspaces.magosproject.io" and change.key[1] != FIRST and _granted(change):
                grants.append(land.clock.monotonic())

        land.server.latency = SLOW
        async with anyio.create_task_group() as group:
            for number in range(MEMBERS):
                group.start_soon(_add, land, f"member-{number:03}", "dev")
        await _add(land, FIRST, "first")
        await land.add_project()
        await anyio.sleep(5)  # the Project's grace after creation
        land.server.store.subscribe(note)
        if controller == "rollout":
            await land.add_rollout("dev", "first")
        async with anyio.create_task_group() as group:
            group.start_soon(land.manager(controller).run)
            await land.until(lambda: len(grants) >= after)
            await stop(land)
            stopped.append(land.clock.monotonic())
            await anyio.sleep(30)
            group.cancel_scope.cancel()

    in_land(scene)
    assert after <= len(grants) < MEMBERS
    return grants[-1] - stopped[0]


async def _add(land: Land, name: str, stage: str) -> None:
    """Add a Workspace whose first run waits."""
    await land.add(name, stage)
    await land.actor.prepare(name)


def _granted(change: Change) -> bool:
    before, after = (_annotations(each) for each in (change.old, change.new))
    return after.get(EXECUTION_ALLOWED) == "true" and EXECUTION_ALLOWED not in before


def _annotations(item: dict[str, object] | None) -> dict[str, str]:
    metadata = (item or {}).get("metadata")
    values = metadata.get("annotations") if isinstance(metadata, dict) else None
    return values or {}
