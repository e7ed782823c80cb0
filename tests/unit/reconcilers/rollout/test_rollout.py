"""The Rollout controller, situation by situation (spec §6.4)."""

from typing import Any

import pytest
from msgspec.structs import replace

from magos.api.conditions import find
from magos.api.phases import Phase
from magos.api.project import PROJECTS, Project
from magos.api.reasons import Reason
from magos.api.rollout import ROLLOUTS, Rollout, RolloutStep
from magos.api.selectors import LabelSelector, LabelSelectorRequirement
from magos.api.status import NameReference
from magos.api.triggers import Trigger
from magos.api.workspace import WORKSPACES, Source
from magos.runtime.decision import LiveList, PatchAnnotations, QueryFailure
from tests.unit.reconcilers.cluster import Cluster
from tests.unit.reconcilers.fleet import PROJECT, Fleet, applied, member, rollout, step
from tests.unit.reconcilers.model import LATER_SHA, NAMESPACE, OTHER_SHA, SHA
from tests.unit.reconcilers.results import reasons

STEPS = ("dev", "staging", "prod")


def standing(fleet: Fleet) -> tuple[Phase | None, str, int | None]:
    status = fleet.rollout.status
    return status.phase, status.reason, status.current_step


def condition(made: Rollout, type_: str) -> tuple[str, str] | None:
    found = find(made.status.conditions, type_)
    return (found.status, found.message) if found else None


def test_only_the_first_step_is_granted_while_nothing_has_run() -> None:
    fleet = Fleet(rollout(*STEPS), [member("d", "dev", Phase.PENDING), member("s", "staging"), member("p", "prod")])
    fleet.settle()
    assert fleet.allowed == {"d"}
    assert standing(fleet) == (Phase.RECONCILING, Reason.LEVEL_PROGRESSING, 0)
    assert "[dev]" in fleet.rollout.status.message
    assert condition(fleet.rollout, "Ready") == ("Unknown", fleet.rollout.status.message)
    assert reasons(fleet.events) == ["RolloutBegun", "Granted"]
    begun = fleet.events[0].note
    assert "From an earlier Rollout of this name it takes over nothing but the permission that members carry" in begun


def test_a_commit_walks_from_step_to_step() -> None:
    fleet = Fleet(rollout(*STEPS), [applied(name[0], name, detected=OTHER_SHA) for name in STEPS])
    for index, name in enumerate(STEPS):
        fleet.settle()
        assert standing(fleet) == (Phase.RECONCILING, Reason.LEVEL_PROGRESSING, index)
        assert fleet.allowed == set()  # Applied still: the Workspace has not begun
        fleet.set(member(name[0], name, Phase.PENDING, pinned=OTHER_SHA, observed=SHA, detected=OTHER_SHA))
        fleet.settle()
        assert fleet.allowed == {name[0]}
        fleet.set(applied(name[0], name, OTHER_SHA))
    fleet.settle()
    assert standing(fleet) == (Phase.APPLIED, Reason.ROLLOUT_COMPLETED, 3)
    assert condition(fleet.rollout, "Ready") == ("True", fleet.rollout.status.message)
    assert reasons(fleet.events).count("StepCompleted") == 3
    assert reasons(fleet.events)[-1] == "RolloutCompleted"


def test_no_steps_means_ready_and_nobody_may_run() -> None:
    fleet = Fleet(rollout(), [member("a", "dev", Phase.PENDING, allowed=True)])
    fleet.settle()
    assert standing(fleet) == (Phase.READY, Reason.NO_STEPS, 0)
    assert fleet.allowed == set()
    assert reasons(fleet.events) == ["RolloutBegun", "UnselectedWorkspaces", "Revoked"]


def test_a_step_that_selects_nobody_halts_everything_and_all_such_steps_are_named() -> None:
    members = [member("d", "dev", Phase.PENDING, allowed=True), member("x", "", Phase.PENDING, allowed=True)]
    fleet = Fleet(rollout("dev", "staging", "prod"), members)
    fleet.settle()
    assert standing(fleet) == (Phase.FAILED, Reason.NO_WORKSPACES_FOUND, 1)
    assert "[staging, prod]" in fleet.rollout.status.message
    assert fleet.allowed == set()
    ready = find(fleet.rollout.status.conditions, "Ready")
    assert ready is not None
    assert ready.status == "False"
    assert find(fleet.rollout.status.conditions, "Stalled") is None, "another object may heal this"
    fleet.put(WORKSPACES, member("s", "staging"))
    fleet.put(WORKSPACES, member("p", "prod"))
    fleet.settle()
    assert standing(fleet) == (Phase.RECONCILING, Reason.LEVEL_PROGRESSING, 0)
    assert fleet.allowed == {"d"}


def test_an_unparsable_selector_grants_nothing_and_heals_at_once_when_it_is_corrected() -> None:
    nonsense = LabelSelectorRequirement(key="stage", operator="Like", values=("dev",))
    broken = RolloutStep(name="dev", selector=LabelSelector(match_expressions=(nonsense,)))
    fleet = Fleet(rollout(broken, "prod"), [member("d", "dev", Phase.PENDING), member("p", "prod")])
    fleet.settle()
    assert standing(fleet) == (Phase.FAILED, Reason.RECONCILE_ERROR, 0)
    assert "[dev]" in fleet.rollout.status.message
    assert "Like" in fleet.rollout.status.message
    assert condition(fleet.rollout, "Stalled") is not None
    assert fleet.allowed == set()
    fleet.edit_steps("dev", "prod")
    fleet.settle()
    assert fleet.allowed == {"d"}


def test_a_rollout_of_another_project_touches_nobody() -> None:
    fleet = Fleet(rollout("dev", project="other"), [member("d", "dev", Phase.PENDING)])
    fleet.settle()
    assert standing(fleet) == (Phase.FAILED, Reason.RECONCILE_ERROR, 0)
    assert fleet.allowed == set()


def test_a_workspace_in_two_steps_belongs_to_the_earlier_one() -> None:
    steps = (step("dev"), step("most", "dev", "prod"))
    fleet = Fleet(rollout(*steps), [member("d", "dev", Phase.PENDING), member("p", "prod", Phase.PENDING)])
    fleet.settle()
    assert fleet.allowed == {"d"}
    fleet.set(applied("d", "dev"))
    fleet.settle()
    assert fleet.allowed == {"p"}


def test_steps_with_the_same_matches_are_shown_together_and_are_one() -> None:
    steps = (step("dev"), step("dev-eu", "dev"), step("prod"))
    fleet = Fleet(rollout(*steps), [member("d", "dev", Phase.PENDING), member("p", "prod", Phase.PENDING)])
    fleet.settle()
    assert "[dev, dev-eu]" in fleet.rollout.status.message
    fleet.set(applied("d", "dev"))
    fleet.settle()
    assert standing(fleet)[2] == 2
    assert fleet.allowed == {"p"}
    fleet.set(applied("p", "prod"))
    fleet.settle()
    assert standing(fleet) == (Phase.APPLIED, Reason.ROLLOUT_COMPLETED, 3)


def test_unselected_members_are_counted_named_and_never_run() -> None:
    strays = [member(f"x{number:02}", "", Phase.PENDING, allowed=True) for number in range(12)]
    fleet = Fleet(rollout("dev"), [member("d", "dev", Phase.PENDING), *strays])
    fleet.settle()
    assert fleet.allowed == {"d"}
    assert fleet.rollout.status.unselected_workspaces == 12
    told = condition(fleet.rollout, "UnselectedWorkspaces")
    assert told is not None
    assert told[0] == "True"
    assert "x09" in told[1]
    assert "x10" not in told[1]
    for each in strays:
        fleet.remove(WORKSPACES, each.metadata.name)
    fleet.settle()
    assert fleet.rollout.status.unselected_workspaces == 0
    assert condition(fleet.rollout, "UnselectedWorkspaces") is None


@pytest.mark.parametrize("phase", [Phase.FAILED, Phase.VALIDATION_FAILED])
def test_a_failed_member_halts_its_step_and_all_later_ones(phase: Phase) -> None:
    members = [
        applied("d", "dev", OTHER_SHA),
        member("s", "staging", phase, pinned=OTHER_SHA, observed=SHA),
        member("t", "staging", Phase.PENDING, pinned=OTHER_SHA),
        member("p", "prod", Phase.PENDING, pinned=OTHER_SHA, observed=SHA, allowed=True),
    ]
    fleet = Fleet(rollout(*STEPS), members)
    fleet.settle()
    assert standing(fleet) == (Phase.FAILED, Reason.STEP_FAILED, 1)
    status = fleet.rollout.status
    assert "[staging]" in status.message
    assert f"s {phase}/" in status.message
    assert "[prod]" in status.message, "who waits for it is said"
    assert fleet.allowed == set(), "no grants, but revocations"
    assert condition(fleet.rollout, "Stalled") is not None
    fleet.set(member("s", "staging", Phase.PENDING, trigger=Trigger.RETRY, pinned=OTHER_SHA))
    fleet.settle()
    assert fleet.allowed == {"s", "t"}


def test_drift_of_an_earlier_step_waits_for_the_next_pass() -> None:
    drifting = member("d", "dev", Phase.PENDING, trigger=Trigger.SCHEDULED, observed=SHA)
    fleet = Fleet(rollout("dev", "prod"), [applied("d", "dev"), member("p", "prod", Phase.PENDING)])
    fleet.settle()
    assert standing(fleet)[2] == 1
    fleet.set(drifting)
    fleet.settle()
    assert (standing(fleet)[2], fleet.allowed) == (1, {"p"})
    fleet.set(applied("p", "prod"))
    fleet.settle()
    assert (standing(fleet)[2], fleet.allowed) == (0, {"d"})
    fleet.set(applied("d", "dev"))
    fleet.settle()
    assert standing(fleet) == (Phase.APPLIED, Reason.ROLLOUT_COMPLETED, 2)


@pytest.mark.parametrize(
    "trigger", [Trigger.CONFIGURATION, Trigger.REVISION, Trigger.VARIABLES, Trigger.MANUAL, Trigger.RETRY]
)
def test_any_other_work_of_an_earlier_step_rewinds_to_it(trigger: Trigger) -> None:
    fleet = Fleet(rollout("dev", "prod"), [applied("d", "dev"), member("p", "prod", Phase.PLANNED, allowed=True)])
    fleet.settle()
    assert standing(fleet)[2] == 1
    fleet.set(member("d", "dev", Phase.PENDING, trigger=trigger, observed=SHA))
    fleet.settle()
    assert (standing(fleet)[2], fleet.allowed) == (0, {"d"})


@pytest.mark.parametrize(
    "news",
    [
        {"detected": OTHER_SHA},
        {"request": "now"},
    ],
)
def test_work_that_a_workspace_has_not_begun_yet_rewinds_already(news: dict[str, Any]) -> None:
    fleet = Fleet(rollout("dev", "prod"), [applied("d", "dev", **news), member("p", "prod", Phase.PENDING)])
    fleet.settle()
    assert (standing(fleet)[2], fleet.allowed) == (0, set())
    assert "with new work d" in fleet.rollout.status.message


def test_an_edited_spec_rewinds_before_the_workspace_has_seen_it() -> None:
    dev = applied("d", "dev")
    dev = replace(dev, metadata=replace(dev.metadata, generation=2))
    fleet = Fleet(rollout("dev", "prod"), [dev, member("p", "prod", Phase.PENDING)])
    fleet.settle()
    assert (standing(fleet)[2], fleet.allowed) == (0, set())


def test_a_request_that_a_finished_run_has_recorded_is_consumed() -> None:
    dev = applied("d", "dev", request="x")
    assert dev.status.current_run is not None
    dev = replace(dev, status=replace(dev.status, current_run=replace(dev.status.current_run, request="x")))
    fleet = Fleet(rollout("dev"), [dev])
    fleet.settle()
    assert standing(fleet)[1] == Reason.ROLLOUT_COMPLETED


def test_a_gated_plan_holds_its_step_but_a_gated_drift_run_holds_nobody() -> None:
    gated = member("d", "dev", Phase.PLANNED, gated=True)
    fleet = Fleet(rollout("dev", "prod"), [gated, member("p", "prod", Phase.PENDING)])
    fleet.settle()
    assert (standing(fleet)[2], fleet.allowed) == (0, {"d"})
    assert "gated d" in fleet.rollout.status.message
    fleet.set(member("d", "dev", Phase.PLANNED, gated=True, trigger=Trigger.SCHEDULED, observed=SHA))
    fleet.settle()
    assert (standing(fleet)[2], fleet.allowed) == (1, {"p"})


def test_a_person_s_permission_outside_the_active_step_is_taken_back() -> None:
    fleet = Fleet(rollout("dev", "prod"), [member("d", "dev", Phase.PENDING), member("p", "prod", Phase.APPLYING)])
    fleet.settle()
    fleet.annotate("p", execution_allowed="true")
    fleet.settle()
    assert fleet.allowed == {"d"}


def test_terminating_members_are_nobody() -> None:
    going = member("d", "dev", Phase.FAILED, allowed=True)
    going = replace(going, metadata=replace(going.metadata, deletion_timestamp="2026-01-01T00:00:00Z"))
    fleet = Fleet(rollout("dev"), [going, applied("e", "dev")])
    fleet.settle()
    assert standing(fleet)[1] == Reason.ROLLOUT_COMPLETED
    assert fleet.allowed == {"d"}


def test_members_of_other_projects_are_nobody() -> None:
    other = member("o", "dev", Phase.PENDING, allowed=True, project_ref=NameReference(name="other"))
    fleet = Fleet(rollout("dev"), [other, member("d", "dev", Phase.PENDING)])
    fleet.settle()
    assert fleet.allowed == {"o", "d"}


# --- the promotion guarantee -----------------------------------------------------------------------------------------


def test_a_commit_that_an_earlier_step_has_not_applied_is_not_promoted() -> None:
    prod = member("p", "prod", Phase.PENDING, pinned=OTHER_SHA, detected=OTHER_SHA)
    fleet = Fleet(rollout("dev", "prod"), [applied("d", "dev"), prod])
    fleet.settle()
    assert (standing(fleet)[2], fleet.allowed) == (1, set())
    message = fleet.rollout.status.message
    assert f"p waits: revision {OTHER_SHA} not yet applied by d" in message
    fleet.set(applied("d", "dev", OTHER_SHA))
    fleet.settle()
    assert fleet.allowed == {"p"}


def test_an_unknown_commit_is_promoted_to_nobody_who_has_somebody_before_it() -> None:
    fleet = Fleet(rollout("dev", "prod"), [applied("d", "dev"), member("p", "prod")])
    fleet.settle()
    assert fleet.allowed == set()
    assert "p waits" in fleet.rollout.status.message
    elsewhere = Source(repo_url="https://git.example.com/other.git", target_revision="main")
    fleet.put(WORKSPACES, member("q", "prod", Phase.PENDING, source=elsewhere))
    fleet.settle()
    assert fleet.allowed == {"q"}


def test_other_branches_and_repositories_promise_nothing() -> None:
    release = Source(repo_url="https://git.example.com/demo.git", target_revision="release")
    prod = member("p", "prod", Phase.PENDING, pinned=OTHER_SHA, source=release)
    fleet = Fleet(rollout("dev", "prod"), [applied("d", "dev"), prod])
    fleet.settle()
    assert fleet.allowed == {"p"}


def test_an_observed_revision_of_another_source_does_not_count() -> None:
    dev = applied("d", "dev", OTHER_SHA)
    dev = replace(dev, status=replace(dev.status, observed_source="0" * 16))
    prod = member("p", "prod", Phase.PENDING, pinned=OTHER_SHA)
    fleet = Fleet(rollout("dev", "prod"), [dev, prod])
    fleet.settle()
    assert fleet.allowed == set()


def test_a_plan_whose_own_commit_was_skipped_is_not_let_through_by_a_newer_one() -> None:
    stale = member("p", "prod", Phase.PLANNED, pinned=LATER_SHA, detected=OTHER_SHA, gated=True)
    fleet = Fleet(rollout("dev", "prod"), [applied("d", "dev", OTHER_SHA), stale])
    fleet.settle()
    assert fleet.allowed == set()
    assert LATER_SHA in fleet.rollout.status.message


# --- members and steps that change under way (F44) -------------------------------------------------------------------


def test_reordered_steps_are_counted_from_the_first_again() -> None:
    drifting = member("d", "dev", Phase.PENDING, trigger=Trigger.SCHEDULED, observed=SHA)
    fleet = Fleet(rollout("dev", "prod"), [applied("d", "dev"), member("p", "prod", Phase.PENDING)])
    fleet.settle()
    assert standing(fleet)[2] == 1
    fleet.set(drifting)
    fleet.set(member("p", "prod", Phase.PENDING, trigger=Trigger.SCHEDULED, observed=SHA))
    fleet.edit_steps("prod", "dev")
    fleet.settle()
    assert (standing(fleet)[2], fleet.allowed) == (0, {"p"})


def test_fewer_steps_than_the_stored_one_are_no_trouble() -> None:
    fleet = Fleet(rollout(*STEPS), [applied(name[0], name) for name in STEPS])
    fleet.settle()
    assert standing(fleet)[2] == 3
    fleet.edit_steps("dev")
    fleet.settle()
    assert standing(fleet) == (Phase.APPLIED, Reason.ROLLOUT_COMPLETED, 1)
    assert fleet.rollout.status.unselected_workspaces == 2


def test_a_relabelled_member_loses_the_permission_of_its_old_step() -> None:
    members = [member("d", "dev", Phase.PENDING), member("e", "dev", Phase.PENDING), member("p", "prod", Phase.PENDING)]
    fleet = Fleet(rollout("dev", "prod"), members)
    fleet.settle()
    assert fleet.allowed == {"d", "e"}
    fleet.set(member("e", "prod", Phase.PLANNING, allowed=True))
    fleet.settle()
    assert fleet.allowed == {"d"}


# --- who is asked, and what is refused -------------------------------------------------------------------------------


def test_what_only_the_server_knows_is_what_counts() -> None:
    fleet = Fleet(rollout("dev", "prod"), [applied("d", "dev"), member("p", "prod", Phase.PENDING)])
    fleet.sync()
    fleet.lagging.add(WORKSPACES.resource)
    fleet.set(applied("d", "dev", detected=OTHER_SHA))
    fleet.step()
    assert fleet.allowed == set()
    assert standing(fleet)[2] == 0


def test_a_rollout_that_is_gone_on_the_server_grants_nothing() -> None:
    fleet = Fleet(rollout("dev"), [member("d", "dev", Phase.PENDING)])
    fleet.sync()
    fleet.lagging.add(ROLLOUTS.resource)
    fleet.remove(ROLLOUTS, PROJECT)
    fleet.step()
    assert fleet.allowed == set()


def test_a_terminating_rollout_is_ignored() -> None:
    fleet = Fleet(rollout("dev"), [member("d", "dev", Phase.PENDING, allowed=True)])
    going = fleet.rollout
    fleet.put(ROLLOUTS, replace(going, metadata=replace(going.metadata, deletion_timestamp="2026-01-01T00:00:00Z")))
    before = fleet.versions
    fleet.settle()
    assert fleet.versions == before


def test_a_refused_grant_is_told_and_tried_again_a_minute_later() -> None:
    fleet = Fleet(rollout("dev"), [member("d", "dev", Phase.PENDING)])
    fleet.refusals.append((PatchAnnotations, WORKSPACES.resource, 403, "Forbidden", "webhook says no"))
    fleet.settle()
    assert standing(fleet) == (Phase.FAILED, Reason.RECONCILE_ERROR, 0)
    assert "webhook says no" in fleet.rollout.status.message
    decision = fleet.decide()
    assert decision.queries == ()
    assert decision.requeue_at is not None
    fleet.refusals.clear()
    fleet.advance(seconds=61)
    fleet.settle()
    assert fleet.allowed == {"d"}
    assert standing(fleet)[1] == Reason.LEVEL_PROGRESSING


def test_workspaces_that_may_not_be_listed_are_told() -> None:
    fleet = Fleet(rollout("dev"), [member("d", "dev", Phase.PENDING)])
    fleet.failing_probes[LiveList] = QueryFailure(reason="Forbidden", message="not allowed to list")
    fleet.settle()
    assert standing(fleet)[1] == Reason.RECONCILE_ERROR
    assert "not allowed to list" in fleet.rollout.status.message
    assert fleet.allowed == set()


def test_a_stale_view_is_not_judged_but_asked_again() -> None:
    fleet = Fleet(rollout("dev"), [member("d", "dev", Phase.PENDING)])
    fleet.stale = True
    decision = fleet.decide()
    assert (decision.status, decision.effects) == (None, ())
    assert decision.queries


# --- handover between Project and Rollout (F45) ----------------------------------------------------------------------


def test_a_new_rollout_takes_unused_permission_from_later_steps_and_its_end_gives_it_back() -> None:
    made = rollout(*STEPS)
    fleet = Fleet(made, [member(name[0], name, Phase.PENDING, allowed=True) for name in STEPS])
    fleet.settle()
    assert fleet.allowed == {"d"}
    cluster = Cluster()
    cluster.now = fleet.now
    cluster.put(PROJECTS, Project(metadata=replace(made.metadata, name=PROJECT, namespace=NAMESPACE)))
    for each in fleet.all(WORKSPACES):
        cluster.put(WORKSPACES, each)
    cluster.put(ROLLOUTS, made)
    cluster.advance(seconds=10)
    cluster.settle(project=True)
    assert len(_allowed(cluster)) == 1
    cluster.remove(ROLLOUTS, PROJECT)
    cluster.settle(project=True)
    cluster.advance(seconds=10)
    cluster.settle(project=True)
    assert _allowed(cluster) == {"d", "s", "p"}


def test_a_project_with_many_members_asks_again_for_a_rollout_after_a_handful_of_grants() -> None:
    cluster = Cluster()
    cluster.put(PROJECTS, Project(metadata=replace(rollout().metadata)))
    for number in range(50):
        cluster.put(WORKSPACES, member(f"m{number:02}", "dev", Phase.PENDING))
    cluster.settle(project=True)
    cluster.advance(seconds=10)
    cluster.step(project=True)
    assert len(_allowed(cluster)) == 20
    cluster.put(ROLLOUTS, rollout("dev"))
    cluster.settle(project=True)
    assert len(_allowed(cluster)) == 20
    cluster.remove(ROLLOUTS, PROJECT)
    cluster.settle(project=True)
    cluster.advance(seconds=10)
    cluster.settle(project=True)
    assert len(_allowed(cluster)) == 50


def _allowed(cluster: Cluster) -> set[str]:
    found = (each.metadata for each in cluster.all(WORKSPACES))
    return {meta.name for meta in found if meta.annotations.get("magosproject.io/execution-allowed") == "true"}
