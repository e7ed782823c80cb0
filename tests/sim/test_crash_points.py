"""I14: whatever process dies at whatever step of whatever scene, the end is the same and no invariant breaks.

Every step of every scene is struck in all three moments: a process dies before or after the step, or the step is done
and answered by an error. With ``restart`` the process that died starts again, and one that lost an answer lives on and
has to find out; with ``change of leader`` its standby takes over in all three cases.
"""

from collections import Counter

import pytest

from tests.sim.fleet.cluster import Fleet
from tests.sim.fleet.crash import Moment
from tests.sim.fleet.forks import explore
from tests.sim.scenarios import SCENARIOS
from tests.sim.tally import ROUND, TALLY, is_over

_SEED = 1 + ROUND
_CASES = [
    pytest.param(name, election, id=f"{name}-{'change of leader' if election else 'restart'}")
    for name, scenario in SCENARIOS.items()
    for election in scenario.elections
]


@pytest.mark.parametrize(("name", "election"), _CASES)
def test_a_crash_at_any_step_changes_nothing_in_the_end(name: str, election: bool) -> None:
    scenario = SCENARIOS[name]
    found = explore(scenario.play, seed=_SEED, programs=scenario.programs, election=election, is_over=is_over)
    TALLY.histories += found.points + 1
    TALLY.crash_points += found.points
    TALLY.violations += len(found.problems)
    assert not found.problems, "\n".join([*found.problems[:20], "the first one's history:", *found.story])
    assert found.points > 0 or is_over()
    assert found.points % len(Moment) == 0


def test_a_crash_that_shows_in_the_end_is_found_and_told_with_its_history() -> None:
    """The exploration itself: somebody counts the processes' lives and leaves the count where it does not belong."""

    async def scene(fleet: Fleet) -> None:
        await SCENARIOS["first run"].play(fleet)
        fleet.terraform.infrastructure["default", "lives"] = str(sum(each.starts for each in fleet.replicas))

    found = explore(scene, seed=1, programs=("workspace", "project"), election=False)
    restarts = [each for each in found.problems if "infrastructure of lives: '2' became '3'" in each]
    assert len(restarts) == len(found.problems)
    moments = Counter(moment for moment in Moment for each in restarts if f"'{moment}'" in each)
    assert moments.keys() == {Moment.BEFORE, Moment.AFTER}, "a lost answer starts nobody anew"
    assert moments[Moment.BEFORE] == found.points // len(Moment)
    # One grant meets a write of the Workspace's own: what conflicts has not taken place, and nothing comes behind it.
    assert moments[Moment.AFTER] in (moments[Moment.BEFORE] - 1, moments[Moment.BEFORE])
    assert all(each.startswith("seed 1, election False, point ") for each in found.problems)
    assert any("WorkspaceWritten a Applied/" in line for line in found.story)
