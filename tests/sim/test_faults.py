"""Whatever goes wrong between controllers and API server, every scene comes to its end and no invariant breaks."""

import random

import pytest

from tests.sim.fleet.cluster import Fleet, play
from tests.sim.fleet.turbulence import Turbulence
from tests.sim.scenarios import SCENARIOS
from tests.sim.tally import ROUND, TALLY

_SEEDS = range(40 * ROUND, 40 * ROUND + (40 if ROUND else 3))
_SECONDS = 25.0


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("seed", _SEEDS)
def test_a_scene_ends_well_in_any_turbulence(name: str, seed: int) -> None:
    scenario = SCENARIOS[name]
    election = scenario.elections[seed % len(scenario.elections)]
    turbulence: list[Turbulence] = []

    async def scene(fleet: Fleet) -> None:
        turbulence.append(Turbulence(fleet.server, random.Random(seed + 100), seconds=_SECONDS))
        fleet.also.start_soon(turbulence[0].run)
        await scenario.play(fleet)

    fleet = play(lambda: Fleet(seed, programs=scenario.programs, election=election), scene, seed=seed)
    found = fleet.violations()
    TALLY.histories += 1
    TALLY.faults += turbulence[0].faults
    TALLY.violations += len(found)
    assert not found, f"seed {seed}: " + "\n".join(map(str, found))
    calm = play(lambda: Fleet(seed, programs=scenario.programs, election=election), scenario.play, seed=seed)
    assert fleet.terraform.infrastructure == calm.terraform.infrastructure
    assert turbulence[0].faults > 0
