"""Names at the limits: as long as may be, alike for longer than any derived name reaches, different only in the end.

What is derived from a name (Jobs, claims, labels, pods, states) is nobody else's, and every member runs by itself.
"""

from collections.abc import Sequence

import pytest

from magos.api.kube import JOBS, PERSISTENT_VOLUME_CLAIMS
from magos.api.workspace import WORKSPACES
from tests.sim.composed import judge
from tests.sim.fleet.cluster import Fleet, play
from tests.sim.fleet.users import NAMESPACE
from tests.sim.tally import ROUND

PROGRAMS = ("workspace", "project", "rollout", "variableset")
_LONGEST = 248
"""A volume claim is named ``<workspace>-data`` and has up to 253 characters."""

_CUT, _LABEL = 48, 63
"""Names of Jobs and values of labels hold so much of a Workspace's name."""

_JUST_CUT = "infrastructure-of-the-department-".ljust(_CUT, "x")
NAMES = (
    "a",
    _JUST_CUT,
    f"{_JUST_CUT}-",  # completed below
    f"{_JUST_CUT}-plan",
    f"{_JUST_CUT}-apply",
    f"{_JUST_CUT}-data",
    "l".ljust(_LABEL, "l"),
    "l".ljust(_LABEL + 1, "l"),
    "l".ljust(_LABEL + 2, "l"),
    f"{'dotted.name.' * 20}".ljust(_LONGEST, "z"),
    f"{'dotted.name.' * 20}".ljust(_LONGEST - 1, "z"),
    f"{'dotted.name.' * 20}".ljust(_LONGEST - 1, "z") + "y",
)
WORKSPACE_NAMES = tuple(name if name[-1].isalnum() else f"{name}0" for name in NAMES)
LONG_PROJECT = f"{'platform.' * 28}".ljust(253, "p")
LONG_SETS = tuple(f"{'shared.' * 35}".ljust(252, "s") + end for end in "ab")


@pytest.mark.parametrize("ordered", [False, True], ids=["project", "rollout"])
def test_members_with_names_at_the_limits_do_not_get_into_each_others_way(ordered: bool) -> None:
    """Each has an infrastructure of its own with its own values, also after one of them is deleted and made anew."""

    async def scene(fleet: Fleet) -> None:
        fleet.users.project(LONG_PROJECT)
        for number, name in enumerate(LONG_SETS):
            fleet.users.variable_set(name, [{"name": "which", "value": str(number)}])
        if ordered:
            steps = [("first", {"half": "0"}), ("second", {"half": "1"})]
            fleet.users.rollout(*steps, name=LONG_PROJECT)
        for number, name in enumerate(WORKSPACE_NAMES):
            _member(fleet, number, name)
        sha = fleet.commit()
        await _all_have(fleet, WORKSPACE_NAMES, sha)
        victim = WORKSPACE_NAMES[-1]
        fleet.users.delete(WORKSPACES, victim)
        await fleet.phase("gone", victim)
        _member(fleet, len(WORKSPACE_NAMES) - 1, victim)
        sha = fleet.commit()
        await _all_have(fleet, WORKSPACE_NAMES, sha)
        await fleet.quiet()

    fleet = play(lambda: Fleet(1 + ROUND, programs=PROGRAMS), scene)
    judge(fleet)
    for number, name in enumerate(WORKSPACE_NAMES):
        assert fleet.infrastructure(name).endswith(f"which={number % 2}")
    owners = {each["metadata"]["ownerReferences"][0]["name"] for each in fleet.items(PERSISTENT_VOLUME_CLAIMS.resource)}
    assert owners == set(WORKSPACE_NAMES)
    assert all(len(each["metadata"]["name"]) <= _LABEL for each in fleet.items(JOBS.resource))
    assert {owner for owner, _ in fleet.terraform.applied} == {(NAMESPACE, name) for name in WORKSPACE_NAMES}


def _member(fleet: Fleet, number: int, name: str) -> None:
    sets = [{"name": LONG_SETS[number % 2]}]
    fleet.users.workspace(name, labels={"half": str(number % 2)}, project=LONG_PROJECT, variableSetRef=sets)


async def _all_have(fleet: Fleet, names: Sequence[str], sha: str) -> None:
    await fleet.until(lambda: all(fleet.observed(name) == sha for name in names), "the commit everywhere")
