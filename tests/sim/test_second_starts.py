"""Pods that start twice, or that nobody hears of: the tool works once for each half of a run, one pod at a time."""

import random

import pytest

from tests.sim.apiserver.resources import Json
from tests.sim.composed import calm_end, play_disturbed
from tests.sim.fleet.cluster import Fleet
from tests.sim.fleet.nodes import Blow, RoughNodes
from tests.sim.history.checker import Violation
from tests.sim.scenarios import SCENARIOS
from tests.sim.tally import ROUND

_APPROVED_ONCE = ("approval", "discard", "variables rotated in the gate")
"""Scenes in which nobody approves a plan that follows one whose apply broke off."""

_CLUSTERS_OWN = ("gets a second pod", "starts while")


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name not in _APPROVED_ONCE])
def test_a_scene_ends_well_whatever_becomes_of_nodes(name: str) -> None:
    def make(fleet: Fleet, rng: random.Random) -> RoughNodes:
        return RoughNodes(fleet, rng, Blow.REBOOT, Blow.UNREACHABLE, Blow.FORCED)

    fleet, rough = play_disturbed(name, ROUND, make)
    assert rough is not None
    assert rough.faults > 0
    assert fleet.terraform.infrastructure == calm_end(name)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_second_pod_of_a_job_works_on_nothing(name: str) -> None:
    """That there is one is the cluster's doing; the tool does not start in it, and nothing of the run is lost."""
    fleet, rough = play_disturbed(name, ROUND, _second_pods, known=_is_the_clusters)
    assert rough is not None
    assert rough.faults > 0
    assert fleet.terraform.infrastructure == calm_end(name)


def test_without_the_marker_of_a_start_the_second_pod_is_noticed() -> None:
    """The model itself: a runner that does not look whether its phase was started before."""

    class Forgetful(dict[tuple[str, str], Json]):
        def __contains__(self, key: object) -> bool:
            return not str(key).endswith(".started')") and super().__contains__(key)

    def make(fleet: Fleet, rng: random.Random) -> RoughNodes:
        fleet.terraform.files = Forgetful()
        return _second_pods(fleet, rng)

    found: list[Violation] = []

    def note(violation: Violation) -> bool:
        found.append(violation)
        return True

    play_disturbed("commit during plan", 1, make, known=note)
    assert any(each.text.startswith("the tool runs twice") for each in found)


def _second_pods(fleet: Fleet, rng: random.Random) -> RoughNodes:
    return RoughNodes(fleet, rng, Blow.SECOND_POD)


def _is_the_clusters(violation: Violation) -> bool:
    return any(each in violation.text for each in _CLUSTERS_OWN)
