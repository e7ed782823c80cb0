"""History is kept: whatever dies or does not answer, every run ends with its records and its logs (spec §8.2).

The records of a started run are complete, and its logs are stored, unless the row says why not; nothing is left behind
in the cluster; and no run was delayed.
"""

import random
from collections.abc import Awaitable, Callable

import anyio
import pytest

from magos.api.kube import JOBS, NAMESPACES
from magos.api.names import JobType
from magos.api.workspace import WORKSPACES
from tests.sim.fleet.cleaner import Cleaner
from tests.sim.fleet.cluster import KEPT, Fleet, play
from tests.sim.fleet.forks import explore
from tests.sim.fleet.turbulence import Turbulence
from tests.sim.fleet.users import NAMESPACE
from tests.sim.history.story import story
from tests.sim.scenarios import SCENARIOS
from tests.sim.tally import ROUND, TALLY, is_over

Scene = Callable[[Fleet], Awaitable[None]]

_SEED = 1 + ROUND
_STRUCK = ("first run", "discard", "job deleted by a person", "deletion during apply")


def _until_archived(scene: Scene) -> Scene:
    async def kept(fleet: Fleet) -> None:
        await scene(fleet)
        await fleet.archived()
        await fleet.quiet()

    return kept


def _judge(fleet: Fleet) -> None:
    TALLY.histories += 1
    found = [*map(str, fleet.violations()), *fleet.lacking()]
    TALLY.violations += len(found)
    assert not found, "\n".join([f"seed {fleet.seed}", *found, *story(fleet.history.records)])


@pytest.mark.parametrize("name", _STRUCK)
def test_a_crash_between_record_archive_and_release_loses_nothing(name: str) -> None:
    scenario = SCENARIOS[name]
    found = explore(
        _until_archived(scenario.play),
        seed=_SEED,
        programs=scenario.programs,
        election=False,
        is_over=is_over,
        keeping=KEPT,
    )
    TALLY.histories += found.points + 1
    TALLY.crash_points += found.points
    TALLY.violations += len(found.problems)
    assert not found.problems, "\n".join([*found.problems[:20], "the first one's history:", *found.story])
    assert found.points > 0 or is_over()


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scene_leaves_complete_records_and_logs_whatever_fails(name: str) -> None:
    scenario = SCENARIOS[name]
    seed = _SEED + len(name)

    async def scene(fleet: Fleet) -> None:
        fleet.evidence.database.weather.share = fleet.evidence.bucket.weather.share = 0.3
        turbulence = Turbulence(fleet.server, random.Random(seed), seconds=25.0)
        fleet.also.start_soon(turbulence.run)
        await _until_archived(scenario.play)(fleet)

    fleet = play(
        lambda: Fleet(seed, programs=scenario.programs, election=scenario.elections[-1], keeping=KEPT), scene, seed=seed
    )
    TALLY.faults += fleet.evidence.database.weather.faults + fleet.evidence.bucket.weather.faults
    _judge(fleet)


def test_an_outage_delays_no_run_and_is_shown_and_over_everything_is_stored() -> None:
    async def scene(fleet: Fleet) -> None:
        fleet.evidence.down(is_down=True)
        fleet.users.project()
        fleet.users.workspace("a")
        fleet.users.annotate("a", reconcile_interval="1h")
        for _ in range(3):
            sha = fleet.commit()
            await fleet.until(lambda sha=sha: fleet.observed("a") == sha, "the commit", within=120.0)  # type: ignore[misc]
        await fleet.until(lambda: "HistoryBacklog" in _conditions(fleet), "the condition", within=120.0)
        await anyio.sleep(60.0)
        writes = fleet.writes()
        await anyio.sleep(600.0)
        assert fleet.writes() == writes, "an outage is told once, not with every try"
        fleet.evidence.down(is_down=False)
        await fleet.archived()
        await fleet.until(lambda: "HistoryBacklog" not in _conditions(fleet), "the end of the condition")

    fleet = play(lambda: Fleet(_SEED, keeping=KEPT), scene)
    _judge(fleet)
    assert len(fleet.evidence.database.runs) == 3
    assert len(fleet.evidence.bucket.logs) == 6


def _conditions(fleet: Fleet) -> list[str]:
    found = fleet.users.find("a")
    return [] if found is None else [each.type for each in found.status.conditions]


def test_what_a_deleted_workspace_leaves_is_stored_although_nobody_answered_at_first() -> None:
    async def scene(fleet: Fleet) -> None:
        fleet.evidence.down(is_down=True)
        await SCENARIOS["first run"].play(fleet)
        fleet.users.delete(WORKSPACES, "a")
        await fleet.until(lambda: fleet.phase_of("a") == "gone", "the deletion", within=60.0)
        assert fleet.items("configmaps")
        fleet.evidence.down(is_down=False)
        await fleet.archived()

    fleet = play(lambda: Fleet(_SEED, keeping=KEPT), scene)
    _judge(fleet)
    assert not fleet.items("configmaps")
    assert not fleet.items("jobs.batch")


def test_the_deletion_of_a_namespace_waits_for_an_outage_for_a_minute_at_most() -> None:
    async def scene(fleet: Fleet) -> None:
        fleet.evidence.down(is_down=True)
        await SCENARIOS["first run"].play(fleet)
        server = fleet.server
        server.writer.delete(server.resource(NAMESPACES), ("", NAMESPACE), {}, server.clock.now())
        await fleet.until(lambda: not fleet.items("jobs.batch"), "the Jobs", within=75.0)

    play(lambda: Fleet(_SEED, keeping=KEPT), scene)


@pytest.mark.parametrize("greedy", [False, True])
def test_whoever_clears_away_ended_jobs_and_pods_takes_no_record(greedy: bool) -> None:
    async def scene(fleet: Fleet) -> None:
        cleaner = Cleaner(fleet.server, random.Random(_SEED), greedy=greedy)
        fleet.also.start_soon(cleaner.run)
        await _until_archived(SCENARIOS["commit during apply"].play)(fleet)

    _judge(play(lambda: Fleet(_SEED, keeping=KEPT), scene))


def test_an_apply_whose_job_a_person_deletes_is_recorded_as_it_ended() -> None:
    async def scene(fleet: Fleet) -> None:
        fleet.users.project()
        fleet.users.workspace("a")
        fleet.commit()
        await fleet.at_work("a", JobType.APPLY)
        found = fleet.users.find("a")
        assert found is not None
        assert found.status.current_run is not None
        fleet.users.delete(JOBS, found.status.current_run.apply_job)
        await fleet.phase("Applied", "a")
        await fleet.archived()

    _judge(play(lambda: Fleet(_SEED, keeping=KEPT), scene))
