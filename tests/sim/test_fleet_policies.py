"""Members with policies that deny, warn and audit, policies that change between plan and apply, lists that fail."""

import pytest

from tests.sim.apiserver import Answer, Lose, Rule
from tests.sim.apiserver.faults import Fault
from tests.sim.composed import judge
from tests.sim.fleet.cluster import Fleet, play
from tests.sim.tally import ROUND, TALLY

TEAMS = ("Deny", "Warn", "Audit", "")


def _member(fleet: Fleet, team: str) -> str:
    name = team.lower() or "free"
    fleet.users.workspace(name, validation={"policySelector": {"matchLabels": {"team": name}}})
    return name


@pytest.mark.parametrize("lenient", [False, True], ids=["runner says so", "runner claims success"])
@pytest.mark.parametrize("seed", [2 * ROUND, 2 * ROUND + 1])
def test_each_member_is_judged_by_its_own_policies_as_they_were_at_its_plan(seed: int, lenient: bool) -> None:
    async def scene(fleet: Fleet) -> None:
        fleet.terraform.lenient = lenient
        fleet.users.project()
        for team in TEAMS:
            fleet.users.policy(f"of-{team.lower() or 'free'}", team, team=team.lower() or "free")
            _member(fleet, team)
        first = fleet.commit()
        await fleet.phase("ValidationFailed", "deny", "warn")
        await fleet.phase("PlannedWithViolations", "audit")
        await fleet.phase("Applied", "free")
        fleet.users.policy("of-audit", "Deny", team="audit")  # after the plan: the approved plan is applied
        fleet.users.approve("audit")
        await fleet.until(lambda: fleet.observed("audit") == first, "the apply of what was judged")
        fleet.users.policy("of-free", "Deny", team="free")
        fleet.users.policy("of-deny", "", team="deny")
        second = fleet.commit()
        await fleet.until(lambda: fleet.observed("deny") == second, "the plan that is kept to now")
        await fleet.phase("ValidationFailed", "warn", "audit", "free")
        assert fleet.observed("free") != second
        await fleet.quiet()

    fleet = play(lambda: Fleet(seed, policies=True, election=bool(seed % 2)), scene, seed=seed)
    judge(fleet)
    assert {name for (_, name), _ in fleet.terraform.applied} == {"audit", "free", "deny"}


@pytest.mark.parametrize("fault", [Answer(code=403, reason="Forbidden"), Answer(code=500), Lose()], ids=repr)
def test_nothing_is_planned_while_policies_cannot_be_listed(fault: Fault) -> None:
    rule = Rule(fault=fault, methods=frozenset({"GET"}), path="/validatingpolicies", times=None)

    async def scene(fleet: Fleet) -> None:
        fleet.users.project()
        fleet.users.policy("of-free", "", team="free")
        fleet.server.faults.add(rule)
        _member(fleet, "")
        sha = fleet.commit()
        await fleet.until(lambda: rule.struck > 2, "some tries")
        assert fleet.items("jobs.batch") == []
        fleet.server.faults.clear()
        await fleet.until(lambda: fleet.observed("free") == sha, "the first run")

    fleet = play(lambda: Fleet(1, policies=True), scene)
    judge(fleet)
    TALLY.faults += rule.struck
