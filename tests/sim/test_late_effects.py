"""Requests that take effect after their client has given them up: every scene ends well, and no invariant breaks.

The creation of a Job cannot be made conditional on anything but its name, so one that comes late is a second one. An
apply Job starts only when it is let go (spec §6.2.8), so that is of no matter. Of a plan Job less holds: the tool never
works twice, nothing else breaks, and every scene still comes to its end.
"""

import random

import anyio
import pytest

from tests.sim.apiserver import Late, Rule
from tests.sim.composed import Make, calm_end, judge, play_disturbed
from tests.sim.fleet.cluster import Fleet, play
from tests.sim.fleet.lateness import LateEffects, LateJobs, creates_job
from tests.sim.history.checker import Violation
from tests.sim.scenarios import SCENARIOS
from tests.sim.tally import ROUND

_SEEDS = range(3 * ROUND, 3 * ROUND + 3)
_READS = 3
"""A Job that is not there after its creation is created again, by a pass that reads everything anew."""


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("seed", _SEEDS)
def test_a_scene_ends_well_however_late_a_write_takes_effect(name: str, seed: int) -> None:
    fleet, late = play_disturbed(name, seed, lambda fleet, rng: LateEffects(fleet.server, rng))
    assert late is not None
    assert late.faults > 0
    assert fleet.terraform.infrastructure == calm_end(name)


@pytest.mark.parametrize("name", SCENARIOS)
def test_jobs_that_are_created_late_make_no_tool_work_twice_and_stop_nobody(name: str) -> None:
    seed = ROUND
    fleet, late = play_disturbed(name, seed, _late_jobs(probability=0.5), known=_is_second_job, repeats=_READS)
    assert late is not None
    assert fleet.terraform.infrastructure == calm_end(name)


@pytest.mark.parametrize("name", SCENARIOS)
def test_no_apply_begins_once_its_client_has_given_it_up(name: str) -> None:
    fleet, _ = play_disturbed(name, ROUND + 1, _late_jobs(probability=0.7), known=lambda _: True, repeats=_READS)
    assert [each for each in fleet.violations() if "apply" in each.text] == []


def test_a_job_of_an_earlier_run_that_comes_late_holds_no_apply() -> None:
    """The plan Job of the first run comes once more while the plan of the second waits for approval."""

    async def scene(fleet: Fleet) -> None:
        late = Late(seconds=(60.0, 60.0), reset=True)
        fleet.server.faults.add(Rule(fault=late, only=creates_job))
        fleet.users.project()
        fleet.users.workspace("a", autoApply=False)
        fleet.commit()
        await fleet.until(lambda: fleet.gated("a"), "the gate")
        fleet.users.edit("a", terraform={"version": "1.9.9"})
        await fleet.until(lambda: fleet.gated("a") and fleet.current("a"), "the second gate")
        assert fleet.clock.monotonic() < 60
        await anyio.sleep(70)
        fleet.users.approve("a")
        await fleet.phase("Applied", "a", within=60)

    judge(play(lambda: Fleet(1), scene), _is_second_job)


def _late_jobs(probability: float) -> Make:
    def make(fleet: Fleet, rng: random.Random) -> LateJobs:
        return LateJobs(fleet.server, reset=rng.random() < 0.5, probability=probability)

    return make


def _is_second_job(violation: Violation) -> bool:
    """What a Job that comes late breaks by being there at all."""
    return violation.invariant in ("I1", "I2", "I4", "I15") and not violation.text.startswith("the tool")
