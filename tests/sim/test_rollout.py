"""The rollout and the project controller as processes over the simulated API server, with members that do things."""

import anyio
import pytest

from magos.adapters.metrics.rollout import RolloutMetrics
from magos.api.annotations import DETECTED_REVISION
from magos.api.phases import Phase
from magos.api.reasons import Reason
from magos.api.rollout import ROLLOUTS, Rollout
from magos.api.workspace import WORKSPACES
from magos.runtime.cache.informer import Informer
from tests.sim.promotion import NAMESPACE, PROJECT, Land, Start, in_land

STAGES = ("dev", "staging", "prod")
ONE, TWO, THREE = "1" * 40, "2" * 40, "3" * 40


async def three_stages(land: Land, each: int = 2) -> None:
    await land.add_project()
    await land.add_rollout(*STAGES)
    for stage in STAGES:
        for number in range(each):
            await land.add(f"{stage}-{number}", stage)


def completed(land: Land) -> bool:
    return land.rollout().status.reason == Reason.ROLLOUT_COMPLETED


@pytest.mark.parametrize("seed", range(3))
def test_commits_walk_through_the_steps_in_order(seed: int) -> None:
    async def scene(land: Land) -> None:
        async with land.running():
            await three_stages(land)
            await land.until(lambda: land.all_applied(ONE) and completed(land))
            await land.announce(TWO)
            await land.until(lambda: land.all_applied(TWO) and completed(land))
        land.check_order(*STAGES)
        assert land.writes("project"), "the Project tells who manages its members"
        assert all("/projects/" in each.path for each in land.writes("project"))

    in_land(scene, seed=seed)


def test_a_commit_that_breaks_staging_halts_there_and_the_fix_goes_through() -> None:
    async def scene(land: Land) -> None:
        async with land.running():
            await three_stages(land)
            await land.until(lambda: land.all_applied(ONE) and completed(land))
            land.actor.broken.add(("staging-1", TWO))
            await land.announce(TWO)
            await land.until(lambda: land.rollout().status.reason == Reason.STEP_FAILED)
            await anyio.sleep(60)
            status = land.rollout().status
            assert (status.phase, status.current_step) == (Phase.FAILED, 1)
            assert "staging-1 Failed/PlanFailed" in status.message
            assert "[prod]" in status.message
            assert TWO not in land.actor.applied["prod-0"].keys() | land.actor.applied["prod-1"].keys()
            assert land.workspace("prod-0").status.observed_revision == ONE
            await land.announce(THREE)
            await land.until(lambda: land.all_applied(THREE) and completed(land))
            assert TWO not in land.actor.applied["prod-0"].keys() | land.actor.applied["prod-1"].keys()
        land.check_order(*STAGES)

    in_land(scene)


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("https://GIT.example.com:443/demo/", "main"),
        ("git@git.example.com:demo.git", "refs/heads/main"),
        ("ssh://deploy@git.example.com/~/demo", "refs/heads/main"),
    ],
)
def test_a_commit_reaches_a_member_that_spells_the_repository_otherwise_no_sooner(url: str, target: str) -> None:
    async def scene(land: Land) -> None:
        async with land.running():
            await land.add_project()
            await land.add_rollout("dev", "prod")
            await land.add("dev-0", "dev")
            await land.add("prod-0", "prod", source={"repoURL": url, "targetRevision": target})
            await land.until(lambda: land.all_applied(ONE) and completed(land))
            land.actor.broken.add(("dev-0", TWO))
            told = {"metadata": {"annotations": {DETECTED_REVISION: TWO}}}
            await land.user.patch(WORKSPACES, NAMESPACE, "prod-0", told)
            await anyio.sleep(30)
            assert f"prod-0 waits: revision {TWO} not yet applied by dev-0" in land.rollout().status.message
        assert _of(land, TWO) == []

    in_land(scene)


def test_commits_that_follow_each_other_faster_than_runs_skip_but_never_overtake() -> None:
    async def scene(land: Land) -> None:
        async with land.running():
            await three_stages(land)
            for number in range(2, 8):
                await anyio.sleep(land.rng.uniform(0.5, 15))
                await land.announce(str(number) * 40)
            await land.until(lambda: land.all_applied("7" * 40) and completed(land))
        land.check_order(*STAGES)

    in_land(scene)


def test_steps_that_are_reordered_in_the_middle_hold_from_then_on() -> None:
    async def scene(land: Land) -> None:
        async with land.running():
            await three_stages(land, each=1)
            await land.until(lambda: land.all_applied(ONE) and completed(land))
            await land.announce(TWO)
            await land.until(lambda: land.workspace("staging-0").status.phase is Phase.PLANNING)
            await land.edit_rollout("prod", "staging", "dev")
            await land.until(lambda: "prod-0" in land.allowed())
            assert "staging-0" not in land.allowed()
            await land.until(lambda: land.all_applied(TWO) and completed(land))
            applies = [s.workspace for s in land.actor.started if s.phase is Phase.APPLYING and s.revision == TWO]
            assert applies.index("prod-0") < applies.index("staging-0")

    in_land(scene)


def test_a_member_relabelled_in_the_middle_waits_with_its_new_step() -> None:
    async def scene(land: Land) -> None:
        async with land.running():
            await three_stages(land)
            await land.until(lambda: land.all_applied(ONE) and completed(land))
            await land.announce(TWO)
            await land.until(lambda: land.workspace("dev-1").status.phase is Phase.PLANNING)
            await land.relabel("dev-1", "prod")
            await land.until(lambda: "dev-1" not in land.allowed(), within=5)
            await land.until(lambda: land.all_applied(TWO) and completed(land))
            applies = [s.workspace for s in land.actor.started if s.phase is Phase.APPLYING and s.revision == TWO]
            assert applies.index("dev-1") > applies.index("staging-0")
            planned = [s for s in land.actor.started if s.workspace == "dev-1" and s.phase is Phase.PLANNING]
            assert len(planned) == 2, "the plan that ran was neither killed nor repeated"

    in_land(scene)


def test_project_and_rollout_hand_over_in_both_directions() -> None:
    async def scene(land: Land) -> None:
        async with land.running():
            await land.add_project()
            await anyio.sleep(10)
            for stage in STAGES:
                await land.add(f"{stage}-0", stage)
            await land.until(lambda: land.all_applied(ONE))
            assert {w.path.rpartition("/")[2] for w in land.writes("project")} >= {f"{s}-0" for s in STAGES}
            # On creation later steps lose the permission that they have not used, and one alone writes from then on.
            await land.add_rollout(*STAGES)
            await land.until(lambda: completed(land))
            grants = len([w for w in land.writes("project") if "/workspaces/" in w.path])
            await land.announce(TWO)
            await land.until(lambda: land.all_applied(TWO) and completed(land))
            applies = [s.workspace for s in land.actor.started if s.phase is Phase.APPLYING and s.revision == TWO]
            assert applies == [f"{stage}-0" for stage in STAGES]
            # On deletion the Project goes on within ten seconds, where the Rollout had kept everybody waiting.
            land.actor.broken.add(("dev-0", THREE))
            await land.announce(THREE)
            await land.until(lambda: land.rollout().status.reason == Reason.STEP_FAILED)
            assert len([w for w in land.writes("project") if "/workspaces/" in w.path]) == grants
            await land.user.delete(ROLLOUTS, NAMESPACE, PROJECT)
            await land.until(lambda: {"staging-0", "prod-0"} <= {s.workspace for s in _of(land, THREE)}, within=10)

    in_land(scene)


@pytest.mark.parametrize("gap", [0.0, 0.02, 0.3, 2.0])
def test_a_rollout_that_is_created_anew_leaves_no_gap(gap: float) -> None:
    async def scene(land: Land) -> None:
        async with land.running():
            await three_stages(land, each=1)
            await land.until(lambda: land.all_applied(ONE) and completed(land))
            land.actor.broken.add(("dev-0", TWO))
            await land.announce(TWO)
            await land.until(lambda: land.rollout().status.reason == Reason.STEP_FAILED)
            await land.until(lambda: land.workspace("prod-0").status.phase is Phase.PENDING)
            await land.user.delete(ROLLOUTS, NAMESPACE, PROJECT)
            await anyio.sleep(gap)
            if gap > 0.1:
                assert "members may run in parallel from 2" in land.project().status.message
            await land.add_rollout(*STAGES)
            await anyio.sleep(60)
            assert land.project().status.reason == Reason.MANAGED_BY_ROLLOUT
            assert land.project().status.parallel_from is None
            assert {start.workspace for start in _of(land, TWO)} == {"dev-0"}

    in_land(scene)


def test_permission_that_later_steps_have_not_used_is_taken_when_a_rollout_appears() -> None:
    async def scene(land: Land) -> None:
        await land.add_project()
        for stage in STAGES:
            await land.add(f"{stage}-0", stage)
            await land.actor.prepare(f"{stage}-0")
        async with anyio.create_task_group() as group:  # nobody runs, so nobody uses the permission
            for name in ("project", "rollout"):
                group.start_soon(land.manager(name).run)
            await land.until(lambda: land.allowed() == {f"{stage}-0" for stage in STAGES})
            await land.add_rollout(*STAGES)
            await land.until(lambda: land.allowed() == {"dev-0"}, within=5)
            await anyio.sleep(30)
            assert land.allowed() == {"dev-0"}
            await land.user.delete(ROLLOUTS, NAMESPACE, PROJECT)
            await land.until(lambda: land.allowed() == {f"{stage}-0" for stage in STAGES}, within=10)
            group.cancel_scope.cancel()

    in_land(scene)


@pytest.mark.parametrize("seed", range(4))
def test_controllers_killed_at_any_time_promote_in_order_all_the_same(seed: int) -> None:
    async def scene(land: Land) -> None:
        await three_stages(land)
        for number in range(12):
            if number == 4:
                await land.announce(TWO)
            async with land.running():
                await anyio.sleep(land.rng.uniform(0.05, 4.0) + (16.0 if land.rng.random() < 0.4 else 0.0))
        async with land.running():
            await land.until(lambda: land.all_applied(TWO) and completed(land))
        land.check_order(*STAGES)

    in_land(scene, seed=seed)


def test_a_completed_rollout_is_left_alone() -> None:
    async def scene(land: Land) -> None:
        async with land.running():
            await three_stages(land)
            await land.until(lambda: land.all_applied(ONE) and completed(land))
            await anyio.sleep(5)
            before = len(land.writes("rollout")), len(land.writes("project"))
            await anyio.sleep(120)
            assert (len(land.writes("rollout")), len(land.writes("project"))) == before

    in_land(scene)


def _of(land: Land, revision: str) -> list[Start]:
    return [start for start in land.actor.started if start.revision == revision]


def test_metrics_tell_the_level_and_its_moves_for_as_long_as_the_rollout_exists() -> None:
    async def scene(land: Land) -> None:
        rollouts: Informer[Rollout] = Informer(land.user, ROLLOUTS, clock=land.clock, rng=land.rng)
        metrics = RolloutMetrics(rollouts, per_object=True)

        def series(name: str) -> dict[tuple[str, ...], float]:
            family = next(each for each in metrics.collect() if each.name == name)
            return {sample.values: sample.value for sample in family.samples}

        async with anyio.create_task_group() as group, land.running():
            group.start_soon(rollouts.run)
            for stage in STAGES:
                await land.add(f"{stage}-0", stage)
            await land.add_rollout(
                *STAGES
            )  # behind its members: until there are all, the level is the first empty step
            await land.until(lambda: series("rollout_active_count") == {(): 1.0})
            await land.until(lambda: land.all_applied(ONE) and completed(land))
            await land.until(lambda: series("rollout_current_level") == {(NAMESPACE, PROJECT): 3.0})
            moves = series("rollout_level_transitions_total")
            assert moves[NAMESPACE, PROJECT, "0", "1"] == 1.0
            assert moves[NAMESPACE, PROJECT, "2", "3"] == 1.0
            assert series("rollout_active_count") == {(): 0.0}
            await land.user.delete(ROLLOUTS, NAMESPACE, PROJECT)
            await land.until(lambda: series("rollout_level_transitions_total") == {})
            assert series("rollout_current_level") == {}
            group.cancel_scope.cancel()

    in_land(scene)
