"""Ended Jobs and pods that somebody clears away: before anybody has read them, or as soon as that is done."""

import random
from functools import partial

import pytest

from magos.api.annotations import RESULT
from magos.api.reasons import Reason
from tests.sim.apiserver.resources import Json
from tests.sim.apiserver.store import Change
from tests.sim.composed import calm_end, play_disturbed
from tests.sim.fleet.cleaner import Cleaner
from tests.sim.fleet.cluster import Fleet
from tests.sim.history.records import WorkspaceWritten
from tests.sim.scenarios import SCENARIOS
from tests.sim.tally import ROUND

_LOST = (Reason.RUN_LOST, Reason.RESULT_MISSING)
_SEEDS = range(2 * ROUND, 2 * ROUND + 2)


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("seed", _SEEDS)
def test_a_scene_ends_well_whatever_ended_job_or_pod_is_gone_too_early(name: str, seed: int) -> None:
    fleet, cleaner = play_disturbed(name, seed, lambda fleet, rng: Cleaner(fleet.server, rng, greedy=True, share=0.3))
    assert cleaner is not None
    assert fleet.terraform.infrastructure == calm_end(name)


@pytest.mark.parametrize("name", SCENARIOS)
def test_what_is_cleared_away_after_it_was_read_is_never_missed(name: str) -> None:
    """Although every process dies right after it has saved a result, and the pod is gone when the next one looks."""

    def make(fleet: Fleet, rng: random.Random) -> Cleaner:
        fleet.server.store.subscribe(partial(_kill_who_saves, fleet))
        return Cleaner(fleet.server, rng, greedy=False)

    fleet, cleaner = play_disturbed(name, ROUND, make)
    assert cleaner is not None
    assert cleaner.faults > 0
    told = [each.new.status for each in fleet.history.records if isinstance(each, WorkspaceWritten) and each.new]
    lost = [each.message for each in told if each.reason in _LOST]
    if name != "job deleted by a person":
        assert lost == []
    assert fleet.terraform.infrastructure == calm_end(name)


def _kill_who_saves(fleet: Fleet, change: Change) -> None:
    if change.resource == "jobs.batch" and _is_saved(change.new) and not _is_saved(change.old):
        fleet.leader("workspace").kill()


def _is_saved(job: Json | None) -> bool:
    return job is not None and RESULT in (job["metadata"].get("annotations") or {})
