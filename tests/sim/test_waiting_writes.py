"""A Workspace that only waits writes nothing, at any interval, and is still judged on every tick."""

from collections.abc import Awaitable, Callable

import anyio
import pytest

from magos.api.kube import PODS
from magos.api.labels import JOB_TYPE, RUN_ID, WORKSPACE
from magos.api.project import PROJECTS
from magos.api.timestamps import parse_time
from magos.api.workspace import WORKSPACES
from tests.sim.magos import NAMESPACE, World, in_world, workspace

HOUR = 3600.0
Scene = Callable[[World], Awaitable[None]]


async def forbidden(world: World) -> None:
    """Nobody gives permission."""
    await world.user.create(WORKSPACES, workspace("a"))
    await world.until(lambda: world.phase("a") == "Pending")


async def blocked(world: World) -> None:
    """A pod of somebody else stands in the way of the start."""
    labels = {WORKSPACE: "a", RUN_ID: "another", JOB_TYPE: "plan"}
    pod = {
        "metadata": {"name": "stranger", "namespace": NAMESPACE, "labels": labels},
        "spec": {"containers": [{"name": "x", "image": "x"}]},
        "status": {"phase": "Running"},
    }
    await world.user.create(PODS, pod)
    await world.user.patch(PODS, NAMESPACE, "stranger", {"status": {"phase": "Running"}}, subresource="status")
    await world.apply("a")
    await world.until(lambda: reason(world) == "PreviousRunnerTerminating")


async def without_variables(world: World) -> None:
    """A VariableSet that is missing refuses the start."""
    await world.apply("a", variableSetRef=[{"name": "missing"}])
    await world.until(lambda: reason(world) == "UnresolvedVariables")


async def gated(world: World) -> None:
    await world.apply("a", autoApply=False)
    await world.until(lambda: world.phase("a") == "Planned")


async def planning(world: World) -> None:
    world.node.work = 10 * HOUR
    await world.apply("a")
    await world.until(lambda: world.phase("a") == "Planning" and bool(world.node.ran))


async def deleting(world: World) -> None:
    """The deletion waits for an apply."""
    await world.apply("a")
    await world.until(lambda: world.phase("a") == "Planned")
    world.node.work = 10 * HOUR
    await world.until(lambda: world.phase("a") == "Applying" and len(world.node.ran) == 2)
    await world.user.delete(WORKSPACES, NAMESPACE, "a")
    await world.until(lambda: world.phase("a") == "Deleting")


def reason(world: World) -> str:
    found = world.workspace("a")
    return found.status.reason if found is not None else ""


@pytest.mark.parametrize("interval", [None, "10s"], ids=["default", "shortest"])
@pytest.mark.parametrize("wait", [forbidden, blocked, without_variables, gated, planning, deleting])
def test_who_waits_writes_nothing(wait: Scene, interval: str | None) -> None:
    async def scene(world: World) -> None:
        async with world.running():
            await wait(world)
            if interval is not None:
                await world.annotate("a", reconcile_interval=interval)
            await anyio.sleep(30)
            phase, before = world.phase("a"), len(world.writes())
            world.node.work = max(world.node.work, 10 * HOUR)
            await anyio.sleep(HOUR / 4)
            assert [each.path for each in world.writes()[before:]] == []
            assert world.phase("a") == phase

    in_world(scene)


def test_the_schedule_goes_on_in_its_cadence_after_any_wait() -> None:
    async def scene(world: World) -> None:
        async with world.running():
            await world.apply("a", autoApply=False)
            await world.until(lambda: world.phase("a") == "Planned")
            found = world.workspace("a")
            assert found is not None
            anchor = parse_time(found.status.next_reconcile_time or "")
            await anyio.sleep(1000)
            found = world.workspace("a")
            assert found is not None
            assert parse_time(found.status.next_reconcile_time or "") == anchor
            await world.annotate("a", approved=found.status.current_run_id)
            await world.until(lambda: world.phase("a") == "Applied")
            found = world.workspace("a")
            assert found is not None
            tick = parse_time(found.status.next_reconcile_time or "")
            assert tick > world.clock.now()
            assert (tick - anchor).total_seconds() % 180 == 0
            run = found.status.current_run_id
            left = (tick - world.clock.now()).total_seconds()
            await anyio.sleep(left - 1)
            assert found.status.current_run_id == run
            await anyio.sleep(2)
            found = world.workspace("a")
            assert found is not None
            assert found.status.current_run_id != run

    in_world(scene)


def test_a_changed_interval_is_written_once_while_a_run_waits() -> None:
    async def scene(world: World) -> None:
        async with world.running():
            await world.user.create(PROJECTS, {"metadata": {"name": "other", "namespace": NAMESPACE}, "spec": {}})
            await forbidden(world)
            await anyio.sleep(1000)
            before = len(world.writes())
            await world.annotate("a", reconcile_interval="10s")
            await anyio.sleep(60)
            found = world.workspace("a")
            assert found is not None
            assert found.status.observed_reconcile_interval == "10s"
            assert len(world.writes()) - before == 1

    in_world(scene)
