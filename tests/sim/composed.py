"""A canonical scene played while something else goes on in the cluster, with the checker on and the figures counted."""

import random
from collections.abc import Callable, Mapping
from functools import cache
from typing import Protocol

from magos.api.workspace import WORKSPACES
from tests.sim.fleet.clocks import EXACT, Clocks
from tests.sim.fleet.cluster import Fleet, play
from tests.sim.history.checker import Violation
from tests.sim.history.pace import Pace, paces
from tests.sim.history.story import story
from tests.sim.scenarios import SCENARIOS
from tests.sim.tally import TALLY

__all__ = ["Disturbance", "Make", "calm_end", "judge", "play_disturbed", "too_hot"]


MOST_REQUESTS = 60
"""Requests of one controller for one thing within a minute: scenes take up to 45, and a controller that writes without
end is slowed down only after as many writes as this."""

MOST_OF_A_MEMBER = 15
"""What each Workspace may add to the requests for a collection, or for the status of its Project and its Rollout."""


class Disturbance(Protocol):
    """Something that goes on beside a scene until its end; ``faults`` counts what it has done."""

    @property
    def faults(self) -> int:
        """Number of things done so far."""
        ...

    async def run(self) -> None:
        """Go on until cancelled or done."""
        ...


Make = Callable[[Fleet, random.Random], Disturbance]


Known = Callable[[Violation], bool]


def _none(_: Violation) -> bool:
    return False


def play_disturbed(
    name: str, seed: int, make: Make | None = None, *, clocks: Clocks = EXACT, known: Known = _none, repeats: int = 0
) -> tuple[Fleet, Disturbance | None]:
    """Play the scene, judge its history, and return the fleet as it was left, with what disturbed it.

    ``known`` are violations that the disturbance is known to cause. ``repeats`` is how often one thing is asked for
    again because of each fault.
    """
    scenario = SCENARIOS[name]
    elected = scenario.elections[seed % len(scenario.elections)]
    made: list[Disturbance] = []

    async def scene(fleet: Fleet) -> None:
        if make is not None:
            made.append(make(fleet, random.Random(seed + 100)))
            fleet.also.start_soon(made[0].run)
        await scenario.play(fleet)

    fleet = play(lambda: Fleet(seed, programs=scenario.programs, election=elected, clocks=clocks), scene, seed=seed)
    judge(fleet, known, repeats * sum(each.faults for each in made))
    TALLY.faults += sum(each.faults for each in made)
    return fleet, made[0] if made else None


def judge(fleet: Fleet, known: Known = _none, repeated: int = 0) -> None:
    """Count the history, and assert that it breaks no invariant but in ways that are known.

    ``repeated`` are requests for one thing that faults explain, on top of those that the scene does.
    """
    found = [each for each in fleet.violations() if not known(each)]
    TALLY.histories += 1
    TALLY.violations += len(found)
    assert not found, "\n".join([f"seed {fleet.seed}", *map(str, found), *story(fleet.history.records)])
    hot = too_hot(fleet, repeated)
    assert not hot, f"seed {fleet.seed}: " + "; ".join(map(str, hot))


def too_hot(fleet: Fleet, repeated: int = 0) -> list[Pace]:
    """Return what a controller asked for more often within a minute than the scene's size explains."""
    found = paces(fleet.server.served, fleet.programs)
    return [each for each in found if each.requests > _bound(fleet, each) + repeated]


def _bound(fleet: Fleet, pace: Pace) -> int:
    members = 0 if pace.of_workspace else len(fleet.items(WORKSPACES.resource))
    return MOST_REQUESTS + MOST_OF_A_MEMBER * members


@cache
def calm_end(name: str) -> Mapping[tuple[str, str], str]:
    """Return what the infrastructure is like after the scene when nothing disturbs it."""
    scenario = SCENARIOS[name]
    fleet = play(lambda: Fleet(1, programs=scenario.programs, election=scenario.elections[0]), scenario.play)
    return fleet.terraform.infrastructure
