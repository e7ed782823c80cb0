"""The clock of the cluster is set back in the middle of a history: everything goes on within its interval."""

from datetime import timedelta

import anyio
import pytest

from magos.api.annotations import RELEASED
from magos.api.kube import Pod
from magos.api.phases import Phase
from magos.api.reasons import Reason
from magos.api.workspace import WORKSPACES
from magos.reconcilers.storedtimes import SKEW
from tests.sim.apiserver import Answer, Rule
from tests.sim.magos import NAMESPACE, Node, World, good, in_world, workspace
from tests.sim.promotion import Land, in_land

BACK = [timedelta(hours=1), timedelta(days=365)]
INTERVAL = 180.0
START = 600.0
RUN = 30.0
"""More than a granted run of this world takes."""

REFUSED = Answer(code=403, reason="Forbidden", message="a webhook says no")


class Unscheduled(Node):
    """A node on which no pod starts while ``full``."""

    full = True

    async def run(self) -> None:
        while True:
            await self._look()
            await anyio.sleep(1)

    async def _pod(self, pod: Pod) -> None:
        if not self.full:
            await super()._pod(pod)


def runs(world: World, *names: str) -> dict[str, str]:
    found = {name: world.workspace(name) for name in names}
    return {name: each.status.current_run_id for name, each in found.items() if each is not None}


@pytest.mark.parametrize("back", BACK, ids=str)
@pytest.mark.parametrize("seed", range(2))
def test_schedules_and_grants_go_on(back: timedelta, seed: int) -> None:
    async def scene(world: World) -> None:
        async with world.running():
            await world.apply("a", "b")
            await world.until(lambda: world.phase("a") == world.phase("b") == "Applied")
            await anyio.sleep(world.rng.uniform(0, INTERVAL))
            await world.until(lambda: world.phase("a") == world.phase("b") == "Applied")
            before = runs(world, "a", "b")
            world.clock.jump_wall(-back)
            await world.user.create(WORKSPACES, workspace("c"))
            await world.until(lambda: world.phase("c") == "Applied", within=SKEW.total_seconds() + RUN)
            # One interval until the pass that notices, another one until its tick.
            within = 2 * INTERVAL + SKEW.total_seconds()
            await world.until(lambda: not set(before.values()) & set(runs(world, "a", "b").values()), within=within)
            await world.until(lambda: all(world.phase(name) == "Applied" for name in "abc"), within=INTERVAL + RUN)
            before = runs(world, "a", "b", "c")
            await anyio.sleep(INTERVAL + RUN)
            assert not set(before.values()) & set(runs(world, "a", "b", "c").values())

    in_world(scene, seed=seed)


@pytest.mark.parametrize("back", BACK, ids=str)
@pytest.mark.parametrize("seed", range(6))
def test_a_run_goes_on_whenever_the_clock_is_set_back(back: timedelta, seed: int) -> None:
    async def scene(world: World) -> None:
        async with world.running():
            await world.apply("a", "b")
            await anyio.sleep(world.rng.uniform(0, 20))
            world.clock.jump_wall(-back)
            within = SKEW.total_seconds() + 2 * RUN
            await world.until(lambda: world.phase("a") == world.phase("b") == "Applied", within=within)
            await world.user.delete(WORKSPACES, NAMESPACE, "a")
            await world.until(lambda: world.phase("a") == "gone", within=SKEW.total_seconds())

    in_world(scene, seed=seed)


@pytest.mark.parametrize("back", BACK, ids=str)
def test_a_start_is_given_up_after_its_time(back: timedelta) -> None:
    async def scene(world: World) -> None:
        world.node = Unscheduled(world, good)
        async with world.running():
            await world.apply("a")
            await world.until(lambda: world.phase("a") == "Planning")
            await anyio.sleep(5)
            world.clock.jump_wall(-back)
            await anyio.sleep(START - 10)
            assert world.phase("a") == "Planning"
            await world.until(lambda: world.phase("a") == "Failed", within=SKEW.total_seconds())

    in_world(scene)


@pytest.mark.parametrize("back", BACK, ids=str)
def test_a_clock_that_is_set_back_again_and_again_costs_one_start_limit_each_time(back: timedelta) -> None:
    async def scene(world: World) -> None:
        world.node = Unscheduled(world, good)
        async with world.running():
            await world.apply("a")
            await world.until(lambda: world.phase("a") == "Planning")
            begun = len(world.writes())
            for _ in range(3):
                await anyio.sleep(60)
                world.clock.jump_wall(-back)
            await world.until(lambda: world.phase("a") == "Failed", within=START + SKEW.total_seconds())
            marks = [each for each in world.writes()[begun:] if "/jobs/" in each.path and each.verb == "patch"]
            assert len(marks) == 3

    in_world(scene)


@pytest.mark.parametrize("back", BACK, ids=str)
def test_the_deletion_of_an_apply_that_never_started_comes_to_its_end(back: timedelta) -> None:
    async def scene(world: World) -> None:
        node = Unscheduled(world, good)
        node.full = False
        world.node = node
        async with world.running():
            await world.apply("a")
            await world.until(lambda: world.phase("a") == "Planned")
            node.full = True
            await world.until(lambda: any(RELEASED in each["metadata"]["annotations"] for each in world.jobs()))
            await world.user.delete(WORKSPACES, NAMESPACE, "a")
            await anyio.sleep(1)
            world.clock.jump_wall(-back)
            await anyio.sleep(START - 10)
            assert world.phase("a") == "Deleting"
            await world.until(lambda: len(world.jobs()) < 2, within=SKEW.total_seconds())

    in_world(scene)


@pytest.mark.parametrize("back", BACK, ids=str)
def test_a_refused_deletion_is_tried_again(back: timedelta) -> None:
    async def scene(world: World) -> None:
        world.node.work = 3600.0
        async with world.running():
            await world.apply("a")
            await world.until(lambda: world.phase("a") == "Planning" and len(world.node.ran) == 1)
            refused = Rule(fault=REFUSED, methods=frozenset({"DELETE"}), path="/jobs/", times=None)
            world.server.faults.add(refused)
            await world.user.delete(WORKSPACES, NAMESPACE, "a")
            await world.until(lambda: refused.struck > 0)
            await anyio.sleep(5)
            world.clock.jump_wall(-back)
            world.server.faults.clear()
            within = 2 * SKEW.total_seconds() + 5
            await world.until(lambda: all(_is_going(each) for each in world.jobs()), within=within)

    in_world(scene)


def _is_going(job: object) -> bool:
    return isinstance(job, dict) and bool(job["metadata"].get("deletionTimestamp"))


@pytest.mark.parametrize("back", BACK, ids=str)
@pytest.mark.parametrize("managed", [True, False])
def test_a_refused_grant_is_tried_again(back: timedelta, managed: bool) -> None:
    async def scene(land: Land) -> None:
        def grants(request: object) -> bool:
            return b"execution-allowed" in (getattr(request, "body", None) or b"")

        rule = Rule(fault=REFUSED, methods=frozenset({"PATCH"}), path="/workspaces/", times=None, only=grants)
        async with land.running():
            await land.add_project()
            if managed:
                await land.add_rollout("dev")
            land.server.faults.add(rule)
            await land.add("dev-0", "dev")
            await land.until(lambda: rule.struck > 0)
            await anyio.sleep(5)
            land.clock.jump_wall(-back)
            land.server.faults.clear()
            await land.until(lambda: land.workspace("dev-0").status.phase is Phase.APPLIED, within=2 * 60 + 5 + RUN)
            if managed:
                await land.until(lambda: land.rollout().status.reason == Reason.ROLLOUT_COMPLETED, within=RUN)

    in_land(scene)
