"""A request of the real controllers that fails for minutes: status says so within one, pauses grow, all heals."""

from dataclasses import dataclass

import anyio
import pytest

from magos.api.conditions import ConditionType, find
from magos.runtime.client.transport import HttpRequest
from tests.sim.apiserver import Answer, Rule
from tests.sim.apiserver.faults import Fault, Hang, Lose
from tests.sim.fleet.cluster import Fleet, play
from tests.sim.fleet.users import URL
from tests.sim.history.story import story
from tests.sim.tally import TALLY

MINUTE = 60.0
_REQUESTS_BEFORE_BACKOFF_GROWS = 250
"""Of both controllers, for some fifteen tries with everything that is read for a start."""

_REQUESTS_A_TICK = 60
"""Each tick of the schedule, every three minutes, may try a whole start again: its reads, and what follows them."""

FAULTS: dict[str, Fault] = {
    "500": Answer(),
    "409": Answer(code=409, reason="Conflict", message="the object has been modified"),
    "403": Answer(code=403, reason="Forbidden", message="a webhook denies it"),
    "reset": Lose(),
    "silence": Hang(),
}


@dataclass(frozen=True)
class Struck:
    """The requests of the workspace controller that fail."""

    method: str
    path: str
    told: bool = True
    """Whether a status can be written, so that it says what is wrong."""

    def covers(self, request: HttpRequest) -> bool:
        """Tell whether the request is one of them; an annotation patch is no status patch."""
        return request.path.endswith(self.path)


REQUESTS = {
    "create jobs": Struck("POST", "/jobs"),
    "create claims": Struck("POST", "/persistentvolumeclaims"),
    "patch workspaces": Struck("PATCH", "/workspaces/a"),
    "patch status": Struck("PATCH", "/workspaces/a/status", told=False),
    "list pods": Struck("GET", "/namespaces/default/pods"),
    "read claims": Struck("GET", "/persistentvolumeclaims/a-data"),
}


def requests_by_controllers(fleet: Fleet) -> int:
    """Return how often the controllers asked anything, leases, Events and watches left out."""
    return sum(
        1
        for each in fleet.server.served
        if each.user.startswith(fleet.programs)
        and each.verb != "watch"
        and "/leases" not in each.path
        and "/events" not in each.path
    )


def complaint(fleet: Fleet) -> str:
    """Return what status says about the fault: the condition, or the reason of a refusal."""
    found = fleet.users.find("a")
    if found is None:
        return ""
    trouble = find(found.status.conditions, ConditionType.API_TROUBLE)
    if trouble is not None:
        return trouble.message
    refused = found.status.reason in ("JobRejected", "ReconcileError", "PolicyEvaluationFailed", "VolumeConflict")
    return found.status.message if refused else ""


@pytest.mark.parametrize("minutes", [1, 10, 60])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("struck", REQUESTS)
def test_a_lasting_fault_is_told_slows_the_tries_and_heals_unaided(struck: str, fault: str, minutes: int) -> None:
    requests = REQUESTS[struck]
    rule = Rule(fault=FAULTS[fault], methods=frozenset({requests.method}), times=None, only=requests.covers)
    told: list[str] = []
    asked: list[int] = []

    async def scene(fleet: Fleet) -> None:
        sha = fleet.git.push(URL)
        fleet.server.faults.add(rule)
        fleet.users.project()
        fleet.users.workspace("a")
        fleet.server.served.clear()
        for _ in range(int(MINUTE)):
            await anyio.sleep(1)
            told.extend(filter(None, [complaint(fleet)]))
        await anyio.sleep((minutes - 1) * MINUTE)
        asked.append(requests_by_controllers(fleet))
        fleet.server.faults.clear()
        await fleet.until(lambda: fleet.observed("a") == sha, "Applied", within=1100 + 2 * minutes * MINUTE)
        await fleet.until(lambda: not complaint(fleet), "the end of the complaint", within=600)

    fleet = play(lambda: Fleet(1), scene)
    found = fleet.violations()
    TALLY.histories += 1
    TALLY.faults += rule.struck
    TALLY.lasting_faults += 1
    TALLY.violations += len(found)
    assert not found, "\n".join([*map(str, found), *story(fleet.history.records)])
    assert rule.struck > 0
    ticks = minutes / 3
    assert asked[0] <= _REQUESTS_BEFORE_BACKOFF_GROWS + ticks * _REQUESTS_A_TICK
    if requests.told:
        assert told, "status says nothing within a minute"
