"""I15: no controller runs hot, counted in requests of every verb and with every answer."""

import random
from contextlib import suppress

import anyio
import pytest

from magos.api.workspace import WORKSPACES
from magos.runtime.client.client import ApiClient
from magos.runtime.client.errors import ApiError
from tests.sim.composed import judge, too_hot
from tests.sim.fleet.cluster import Fleet, play
from tests.sim.fleet.turbulence import Turbulence
from tests.sim.fleet.users import NAMESPACE, URL
from tests.sim.scenarios import SCENARIOS
from tests.sim.tally import ROUND


@pytest.mark.parametrize("name", SCENARIOS)
def test_no_controller_runs_hot_in_turbulence(name: str) -> None:
    seed = 2 + ROUND
    scenario = SCENARIOS[name]
    election = scenario.elections[seed % len(scenario.elections)]

    async def scene(fleet: Fleet) -> None:
        fleet.also.start_soon(Turbulence(fleet.server, random.Random(seed + 100), seconds=25.0).run)
        await scenario.play(fleet)

    judge(play(lambda: Fleet(seed, programs=scenario.programs, election=election), scene, seed=seed))


def test_a_project_whose_cache_does_not_know_the_rollout_yet_writes_status_once() -> None:
    async def scene(fleet: Fleet) -> None:
        fleet.git.push(URL)
        fleet.users.project()
        await anyio.sleep(10)
        for watch in fleet.server.watches:
            if watch.request.resource.plural == "rollouts":
                watch.hold()
        fleet.users.rollout(("dev", {"step": "dev"}), ("prod", {"step": "prod"}))
        fleet.users.workspace("dev", labels={"step": "dev"})
        fleet.users.workspace("prod", labels={"step": "prod"})
        await anyio.sleep(60)

    fleet = play(lambda: Fleet(1, programs=("workspace", "project")), scene)
    judge(fleet)
    written = [each for each in fleet.server.served if each.user == "project" and each.verb == "patch"]
    assert len([each for each in written if each.path.endswith("/projects/platform/status")]) <= 4


@pytest.mark.parametrize("kind", ["reads", "is refused", "writes"])
def test_a_planted_hot_loop_is_noticed(kind: str) -> None:
    """The check itself: a controller that reads, is refused, or writes to and fro, without end."""

    async def scene(fleet: Fleet) -> None:
        client = fleet.server.client("workspace")
        fleet.users.project()
        fleet.users.workspace("a")
        await anyio.sleep(5)
        for number in range(90):  # as many as a controller that is slowed down makes within a minute
            await anyio.sleep(0.5)
            await _once(client, kind, number)

    fleet = play(lambda: Fleet(1), scene)
    found = {(each.user, each.target.rpartition("/")[2]) for each in too_hot(fleet)}
    assert found == {("workspace", "a")}


async def _once(client: ApiClient, kind: str, number: int) -> None:
    match kind:
        case "reads":
            await client.get(WORKSPACES, NAMESPACE, "a")
        case "is refused":
            with suppress(ApiError):
                await client.patch(WORKSPACES, NAMESPACE, "a", {"metadata": {"resourceVersion": "1"}})
        case _:
            body = {"status": {"observedGeneration": number % 2}}
            await client.patch(WORKSPACES, NAMESPACE, "a", body, subresource="status")
