"""Clocks that disagree: creation times are the API server's, pod times the node's, decisions the replica's."""

from functools import partial

import anyio
import pytest

from tests.sim.composed import calm_end, judge, play_disturbed
from tests.sim.fleet.clocks import Clocks
from tests.sim.fleet.cluster import Fleet, play
from tests.sim.fleet.replica import Replica
from tests.sim.fleet.users import URL
from tests.sim.scenarios import SCENARIOS
from tests.sim.tally import ROUND

SKEWS = {
    "replicas a minute apart": Clocks(replicas=(30.0, -30.0), nodes=-30.0),
    "API server 10 min ahead": Clocks(api=600.0),
    "nodes 10 min ahead": Clocks(nodes=600.0),
    "replicas 10 min ahead": Clocks(replicas=(600.0, 600.0)),
    "replicas up to 10 min behind": Clocks(replicas=(0.0, -600.0), nodes=-600.0),
}
TAKEOVER_SECONDS = 20.0
"""The Lease of a leader that died, the pause until it is looked at, and the first pass."""


_CASES = [
    (name, skew)
    for number, name in enumerate(SCENARIOS)
    for other, skew in enumerate(SKEWS)
    if (number + other) % 2 == ROUND % 2  # a soak takes the other half in every second round
]


@pytest.mark.parametrize(("name", "skew"), _CASES)
def test_a_scene_ends_well_whatever_the_clocks_say(name: str, skew: str) -> None:
    seed = 5 * ROUND + list(SKEWS).index(skew)
    fleet, _ = play_disturbed(name, seed, clocks=SKEWS[skew])
    assert fleet.terraform.infrastructure == calm_end(name)


def test_a_replica_ten_minutes_ahead_gives_up_no_start_that_has_just_begun() -> None:
    """The start timeout is two minutes here."""

    async def scene(fleet: Fleet) -> None:
        fleet.git.push(URL)
        fleet.users.project()
        fleet.users.workspace("a")
        await fleet.phase("Applied", "a", within=120)

    judge(play(lambda: Fleet(1, clocks=Clocks(replicas=(600.0,))), scene))


@pytest.mark.parametrize("clocks", [Clocks(replicas=(600.0,)), Clocks(api=600.0), Clocks(api=86400.0)], ids=str)
def test_a_start_that_fails_is_told_and_given_up_in_time_whatever_the_clocks_say(clocks: Clocks) -> None:
    """The cause is shown after 10 s, and the start given up after two minutes; the permission is a person's."""

    async def scene(fleet: Fleet) -> None:
        fleet.git.push(URL)
        fleet.kubelet.starts = False
        fleet.users.workspace("a")
        fleet.users.annotate("a", execution_allowed="true")
        await fleet.until(lambda: fleet.phase_of("a") == "Planning", "the plan")
        await anyio.sleep(30)
        found = fleet.users.find("a")
        assert found is not None
        assert "ImagePullBackOff" in found.status.message
        await fleet.reason("ImagePullFailed", "a", within=120)

    judge(play(lambda: Fleet(1, programs=("workspace",), clocks=clocks), scene))


@pytest.mark.parametrize("skews", [(600.0, -600.0), (-600.0, 600.0), (30.0, -30.0)], ids=str)
def test_the_lease_minds_no_wall_clock(skews: tuple[float, float]) -> None:
    """Never do two replicas lead, and a standby takes over as fast as if the clocks agreed."""
    both: list[float] = []
    took: list[float] = []

    async def watch(fleet: Fleet) -> None:
        while True:
            if sum(each.leads for each in fleet.replicas) > 1:
                both.append(fleet.clock.monotonic())
            await anyio.sleep(0.1)

    async def scene(fleet: Fleet) -> None:
        fleet.also.start_soon(watch, fleet)
        fleet.git.push(URL)
        fleet.users.workspace("a")
        for _ in range(4):
            await fleet.until(lambda: any(each.leads for each in fleet.replicas), "a leader", within=60)
            leader = fleet.leader("workspace")
            await anyio.sleep(30)
            leader.held = True
            leader.kill()
            began = fleet.clock.monotonic()
            await fleet.until(partial(_leads_but, fleet, leader), "another leader", within=60)
            took.append(fleet.clock.monotonic() - began)
            leader.held = False

    judge(play(lambda: Fleet(1, programs=("workspace",), election=True, clocks=Clocks(replicas=skews)), scene))
    assert both == []
    assert max(took) <= TAKEOVER_SECONDS, took


def _leads_but(fleet: Fleet, former: Replica) -> bool:
    return any(each.leads for each in fleet.replicas if each is not former)
