"""I14: whatever process dies at whatever step of whatever scene, the end is the same and no invariant breaks.

With ``restart`` a process dies before or after the step, or lives on and does not know that the step was done. With
``change of leader`` its standby takes over in all three cases; there the fixed set takes the moments in turn, the soak
all of them.
"""

import pytest

from tests.sim.fleet.forks import explore
from tests.sim.scenarios import SCENARIOS
from tests.sim.tally import ROUND, TALLY

_SEED = 1 + ROUND
_CASES = [
    pytest.param(name, election, id=f"{name}-{'change of leader' if election else 'restart'}")
    for name, scenario in SCENARIOS.items()
    for election in scenario.elections
]


@pytest.mark.parametrize(("name", "election"), _CASES)
def test_a_crash_at_any_step_changes_nothing_in_the_end(name: str, election: bool) -> None:
    scenario = SCENARIOS[name]
    every = bool(ROUND) or not election
    found = explore(scenario.play, seed=_SEED, programs=scenario.programs, election=election, every=every)
    TALLY.histories += found.points + 1
    TALLY.crash_points += found.points
    TALLY.violations += len(found.problems)
    assert not found.problems, "\n".join(found.problems[:20])
    assert found.points > 0
