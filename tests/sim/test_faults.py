"""Whatever goes wrong between controllers and API server, every scene comes to its end and no invariant breaks."""

import random
from functools import cache

import pytest

from tests.sim.apiserver import Answer, Rule
from tests.sim.apiserver.faults import Fault, Late
from tests.sim.fleet.cluster import Fleet, play
from tests.sim.fleet.turbulence import FAULTS, METHODS, Turbulence
from tests.sim.history.story import story
from tests.sim.scenarios import SCENARIOS
from tests.sim.tally import ROUND, TALLY

_SEEDS = range(3 * ROUND, 3 * ROUND + 3)
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
    assert not found, "\n".join([f"seed {seed}", *map(str, found), *story(fleet.history.records)])
    assert fleet.terraform.infrastructure == _calm(name)
    assert turbulence[0].faults > 0


@cache
def _calm(name: str) -> dict[tuple[str, str], str]:
    """What the infrastructure is like after the scene in good weather."""
    scenario = SCENARIOS[name]
    fleet = play(lambda: Fleet(1, programs=scenario.programs, election=scenario.elections[0]), scenario.play)
    return fleet.terraform.infrastructure


def _name(fault: Fault) -> str:
    what = str(fault.code) if isinstance(fault, Answer) else type(fault).__name__.lower()
    return f"{what}-committed" if not isinstance(fault, Late) and fault.effect else what


@pytest.mark.parametrize("fault", FAULTS, ids=_name)
@pytest.mark.parametrize("method", METHODS)
def test_a_run_ends_well_whatever_answers_a_verb(method: str, fault: Fault) -> None:
    """Half of the requests of one verb are struck, 40 in all; the Lease is renewed by PUT, so there is an election."""
    rare = method == "DELETE"
    probability, times = (1.0, 3) if rare else (0.5, 40)
    rule = Rule(fault=fault, methods=frozenset({method}), times=times, probability=probability)

    async def scene(fleet: Fleet) -> None:
        fleet.server.faults.add(rule)
        await SCENARIOS["request after failure"].play(fleet)

    fleet = play(lambda: Fleet(1, programs=("workspace", "project"), election=True), scene)
    found = fleet.violations()
    TALLY.histories += 1
    TALLY.faults += rule.struck
    TALLY.violations += len(found)
    assert not found, "\n".join([*map(str, found), *story(fleet.history.records)])
    assert rule.struck > 0
    assert [run.count("apply") for run in fleet.outcome()["runs"]["a"]].count(1) == 1
