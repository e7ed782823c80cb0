"""Ended Jobs and pods that somebody clears away: before anybody has read them, or as soon as that is done."""

import pytest

from magos.api.reasons import Reason
from tests.sim.composed import calm_end, play_disturbed
from tests.sim.fleet.cleaner import Cleaner
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
    fleet, cleaner = play_disturbed(name, ROUND, lambda fleet, rng: Cleaner(fleet.server, rng, greedy=False))
    assert cleaner is not None
    assert cleaner.faults > 0
    told = [each.new.status for each in fleet.history.records if isinstance(each, WorkspaceWritten) and each.new]
    lost = [each.message for each in told if each.reason in _LOST]
    if name != "job deleted by a person":
        assert lost == []
    assert fleet.terraform.infrastructure == calm_end(name)
