"""Volume claims that are bound late, resized, deleted while a pod uses them, or not bound at all for a while."""

import anyio
import pytest

from magos.api.kube import PERSISTENT_VOLUME_CLAIMS
from magos.api.names import JobType
from tests.sim.composed import calm_end, judge, play_disturbed
from tests.sim.fleet.binding import Binder, Claims
from tests.sim.fleet.cluster import Fleet, play
from tests.sim.fleet.users import URL
from tests.sim.scenarios import SCENARIOS
from tests.sim.tally import ROUND

_APPROVED_ONCE = ("approval", "discard", "variables rotated in the gate")
"""Scenes in which nobody approves the plan that follows one whose volume is gone."""


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name not in _APPROVED_ONCE])
def test_a_scene_ends_well_whatever_becomes_of_claims(name: str) -> None:
    fleet, claims = play_disturbed(name, ROUND, Claims)
    assert claims is not None
    assert claims.faults > 0
    assert fleet.terraform.infrastructure == calm_end(name)


def test_a_claim_that_is_deleted_in_use_lets_its_pod_end_and_nobody_else_begin() -> None:
    """It goes with the end of the plan, the next run makes a new one, and no pod waits for what is about to go."""

    async def scene(fleet: Fleet) -> None:
        fleet.also.start_soon(Binder(fleet, fleet.rng, seconds=(0.0, 2.0)).run)
        fleet.terraform.slow["a"] = 10.0
        fleet.git.push(URL)
        fleet.users.project()
        fleet.users.workspace("a")
        await fleet.phase("Applied", "a")
        fleet.users.annotate("a", reconcile_request="again")
        fleet.commit()
        await fleet.at_work("a", JobType.PLAN)
        fleet.users.delete(PERSISTENT_VOLUME_CLAIMS, "a-data")
        fleet.users.edit("a", terraform={"version": "1.9.9"})
        await anyio.sleep(1)
        assert "deletionTimestamp" in fleet.items("persistentvolumeclaims")[0]["metadata"]
        await fleet.until(lambda: fleet.phase_of("a") == "Applied" and fleet.current("a"), "the next run", within=90)

    judge(play(lambda: Fleet(1), scene))


def test_a_claim_that_nobody_binds_is_told_and_a_provisioner_that_comes_later_heals() -> None:
    async def scene(fleet: Fleet) -> None:
        binder = Binder(fleet, fleet.rng, seconds=(0.0, 2.0))
        binder.up = False
        fleet.also.start_soon(binder.run)
        fleet.git.push(URL)
        fleet.users.project()
        fleet.users.workspace("a")
        await fleet.reason("VolumeUnavailable", "a")
        found = fleet.users.find("a")
        assert found is not None
        assert "unbound immediate PersistentVolumeClaims" in found.status.message
        binder.up = True
        binder.wake()
        await fleet.phase("Applied", "a", within=400)

    judge(play(lambda: Fleet(1), scene))
