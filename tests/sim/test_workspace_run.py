"""The workspace and the project controller as processes over the simulated API server: from Pending to Applied."""

import anyio
import pytest

from magos.api.annotations import DETECTED_REVISION
from magos.api.names import JobType
from magos.api.rollout import ROLLOUTS
from magos.api.workspace import WORKSPACES
from tests.sim.apiserver import Answer, Lose, Rule
from tests.sim.apiserver.faults import Fault
from tests.sim.magos import NAMESPACE, NEXT_SHA, SHA, World, in_world, workspace

WRITING = frozenset({"POST", "PATCH", "DELETE"})


def test_a_run_reaches_applied_within_fifteen_writes() -> None:
    async def scene(world: World) -> None:
        async with world.running():
            await world.apply()
            await anyio.sleep(10)
            begun = len(world.writes())
            made = workspace("a")
            made["metadata"]["annotations"] = {DETECTED_REVISION: SHA}
            await world.user.create(WORKSPACES, made)
            await world.until(lambda: world.phase("a") == "Applied")
            await anyio.sleep(5)
            about = [each.path.rpartition("/namespaces/default/")[2] for each in world.writes()[begun:]]
            writes = [path for path in about if not path.startswith("projects/")]
            finalizer, clean_up = writes.pop(0), writes.pop()
            assert finalizer == clean_up == "workspaces/a"
            assert len(writes) == 15, writes

        found = world.workspace("a")
        assert found is not None
        assert found.status.observed_revision == SHA
        assert [each.job_type for each in world.node.ran] == [JobType.PLAN, JobType.APPLY]

    in_world(scene)


def test_an_applied_workspace_is_left_alone() -> None:
    async def scene(world: World) -> None:
        async with world.running():
            await world.apply("a", "b", "c")
            await world.until(lambda: all(world.phase(name) == "Applied" for name in "abc"))
            await anyio.sleep(5)
            served = len([each for each in world.server.served if each.user in ("workspace", "project")])
            writes = len(world.writes())
            await anyio.sleep(60)
            assert len(world.writes()) == writes
            new = [e for e in world.server.served if e.user in ("workspace", "project")][served:]
            assert {e.verb for e in new if "/leases" not in e.path and "/events" not in e.path} <= {"watch"}

    in_world(scene)


@pytest.mark.parametrize("seed", range(4))
def test_controllers_killed_at_any_time_end_in_the_same_state(seed: int) -> None:
    async def scene(world: World) -> None:
        await world.apply("a", "b")
        for _ in range(60):
            async with world.running():
                await anyio.sleep(world.rng.uniform(0.05, 1.5) + (15.0 if world.rng.random() < 0.3 else 0.0))
            if world.phase("a") == world.phase("b") == "Applied":
                break
        async with world.running():
            await world.until(lambda: world.phase("a") == world.phase("b") == "Applied")
        for name in "ab":
            found = world.workspace(name)
            assert found is not None
            assert found.status.observed_revision == SHA
            ran = [each for each in world.node.ran if each.workspace == name]
            assert [each.job_type for each in ran] == [JobType.PLAN, JobType.APPLY]
            assert len({each.run_id for each in ran}) == 1

    in_world(scene, seed=seed)


def test_deletion_during_an_apply_waits_for_its_end() -> None:
    async def scene(world: World) -> None:
        world.node.work = 30.0
        async with world.running():
            await world.apply("a")
            await world.until(lambda: world.phase("a") == "Applying" and len(world.node.ran) == 2)
            await world.user.delete(WORKSPACES, NAMESPACE, "a")
            await world.until(lambda: world.phase("a") == "Deleting")
            assert world.node.ran[-1].ended is None
            await world.until(lambda: world.phase("a") == "gone")
            assert world.node.ran[-1].ended is not None

    in_world(scene)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "fault", [Lose(effect=True), Lose(), Answer(code=500, effect=True), Answer(code=429, reason="TooManyRequests")]
)
def test_lost_and_failing_answers_cost_time_and_nothing_else(fault: Fault, seed: int) -> None:
    async def scene(world: World) -> None:
        await world.apply("a", "b")
        faults = world.server.faults
        faults.add(Rule(fault=fault, methods=WRITING, times=None, probability=0.15))
        async with world.running():
            await world.until(lambda: world.phase("a") == world.phase("b") == "Applied")
        for name in "ab":
            ran = [each for each in world.node.ran if each.workspace == name]
            assert [each.job_type for each in ran] == [JobType.PLAN, JobType.APPLY]

    in_world(scene, seed=seed)


def test_a_broken_watch_loses_nothing() -> None:
    async def scene(world: World) -> None:
        async with world.running(), anyio.create_task_group() as group:

            async def disconnect() -> None:
                while True:
                    await anyio.sleep(world.rng.uniform(0.1, 2.0))
                    world.server.disconnect()

            group.start_soon(disconnect)
            await world.apply("a", "b")
            await world.until(lambda: world.phase("a") == world.phase("b") == "Applied")
            group.cancel_scope.cancel()
        assert len(world.node.ran) == 4

    in_world(scene)


def test_a_new_commit_is_applied_and_no_other() -> None:
    async def scene(world: World) -> None:
        async with world.running():
            await world.apply("a")
            await world.annotate("a", detected_revision=SHA)
            await world.until(lambda: world.phase("a") == "Applied")
            await world.annotate("a", detected_revision=NEXT_SHA)
            await world.until(
                lambda: (w := world.workspace("a")) is not None and w.status.observed_revision == NEXT_SHA
            )
            await world.until(lambda: (w := world.workspace("a")) is not None and not w.metadata.annotations)
        assert len({each.run_id for each in world.node.ran}) == 2

    in_world(scene)


def test_a_rollout_of_the_name_keeps_the_project_from_granting() -> None:
    async def scene(world: World) -> None:
        async with world.running():
            rollout = {"projectRef": "platform", "strategy": {"steps": []}}
            await world.user.create(
                ROLLOUTS, {"metadata": {"name": "platform", "namespace": NAMESPACE}, "spec": rollout}
            )
            await world.apply("a")
            await anyio.sleep(30)
            assert world.phase("a") == "Pending"
            await world.user.delete(ROLLOUTS, NAMESPACE, "platform")
            await world.until(lambda: world.phase("a") == "Applied")

    in_world(scene)
