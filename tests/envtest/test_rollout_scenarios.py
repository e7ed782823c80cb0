"""Every situation of spec §6.4 on a real API server: both controllers run under their own ServiceAccounts' rights."""

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from magos.api.annotations import DETECTED_REVISION, EXECUTION_ALLOWED, RECONCILE_REQUEST, TRUE
from magos.api.conditions import find
from magos.api.phases import Phase
from magos.api.reasons import Reason
from magos.api.status import NameReference
from magos.api.triggers import Trigger
from magos.api.workspace import Source
from magos.errors import MagosError
from tests.envtest.audit import WRITE_VERBS
from tests.envtest.cluster import Cluster, eventually
from tests.envtest.rollouts import ACCOUNTS, Fleet, controllers
from tests.unit.reconcilers.fleet import applied, member, step
from tests.unit.reconcilers.model import LATER_SHA, OTHER_SHA, SHA

STEPS = ("dev", "staging", "prod")
PROGRESS = (Phase.RECONCILING, Reason.LEVEL_PROGRESSING)
COMPLETE = (Phase.APPLIED, Reason.ROLLOUT_COMPLETED)
HOLD = "example.com/hold"


@pytest.fixture(scope="module")
def started(control_plane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Both controllers run for this module; the audit log's end before they started."""
    mark = control_plane.audit.mark()
    with controllers(control_plane, tmp_path_factory.mktemp("rollout")):
        yield mark


@pytest.fixture
def fleet(control_plane: Cluster, namespace: str, started: int) -> Fleet:
    assert started >= 0
    return Fleet(control_plane, namespace)


def drifting(name: str, stage: str) -> Any:
    """A member that waits to look for drift."""
    return member(name, stage, Phase.PENDING, trigger=Trigger.SCHEDULED, observed=SHA)


def half_way(fleet: Fleet) -> None:
    """``d`` of step dev has applied, ``p`` of step prod is granted. It takes no Project object."""
    fleet.create(applied("d", "dev"), member("p", "prod", Phase.PENDING))
    fleet.direct("dev", "prod")
    fleet.comes_to(*PROGRESS, 1, {"p"})


# --- rules 1 to 4: steps and who is in them --------------------------------------------------------------------------


def test_no_steps_means_ready_and_permission_is_taken_from_everybody(fleet: Fleet) -> None:
    fleet.create(member("a", "dev", Phase.PENDING, allowed=True), member("b", "dev", Phase.PENDING))
    fleet.direct()
    fleet.reaches(Phase.READY, Reason.NO_STEPS, 0, set())
    fleet.edit_steps("dev")
    fleet.comes_to(*PROGRESS, 0, {"a", "b"})


def test_steps_that_select_nobody_halt_everything_are_all_named_and_heal(fleet: Fleet) -> None:
    fleet.create(member("d", "dev", Phase.PENDING, allowed=True), member("x", "", Phase.PENDING, allowed=True))
    fleet.direct(*STEPS)
    fleet.reaches(Phase.FAILED, Reason.NO_WORKSPACES_FOUND, 1, set(), says="[staging, prod]")
    assert [each.status for each in fleet.rollout.status.conditions if each.type == "Ready"] == ["False"]
    fleet.create(member("s", "staging"), member("p", "prod"))
    fleet.reaches(*PROGRESS, 0, {"d"})


NONSENSE: dict[str, dict[str, Any]] = {
    "operator must be": {"operator": "Like", "values": ["dev"]},
    "In requires at least one value": {"operator": "In"},
    "Exists must not have values": {"operator": "Exists", "values": ["dev"]},
    "invalid label": {"operator": "In", "values": ["not a label"]},
}


def test_a_selector_that_means_nothing_is_refused_at_admission_and_the_old_steps_stay(fleet: Fleet) -> None:
    half_way(fleet)
    for message, expression in NONSENSE.items():
        with pytest.raises(MagosError, match=message):
            fleet.put_selector({"matchExpressions": [{"key": "stage", **expression}]})
    fleet.reaches(*PROGRESS, 1, {"p"})


def test_a_member_of_two_steps_belongs_to_the_earlier_one(fleet: Fleet) -> None:
    fleet.create(member("d", "dev", Phase.PENDING), member("p", "prod", Phase.PENDING))
    fleet.direct(step("dev"), step("most", "dev", "prod"))
    fleet.reaches(*PROGRESS, 0, {"d"}, says="[dev]")
    fleet.enter(applied("d", "dev"))
    fleet.comes_to(*PROGRESS, 1, {"p"}, says="[most]")


def test_steps_with_the_same_matches_are_shown_together_and_complete_together(fleet: Fleet) -> None:
    fleet.create(member("d", "dev", Phase.PENDING), member("p", "prod", Phase.PENDING))
    fleet.direct(step("dev"), step("dev-eu", "dev"), step("prod"))
    fleet.comes_to(*PROGRESS, 0, {"d"}, says="[dev, dev-eu]")
    fleet.enter(applied("d", "dev"))
    fleet.reaches(*PROGRESS, 2, {"p"}, says="[prod]")
    fleet.enter(applied("p", "prod"))
    fleet.comes_to(*COMPLETE, 3, set())


def test_members_in_no_step_are_counted_and_named_and_never_run(fleet: Fleet) -> None:
    strays = [f"x{number:02}" for number in range(11)]
    fleet.create(
        member("d", "dev", Phase.PENDING), *(member(name, "", Phase.PENDING, allowed=name < "x04") for name in strays)
    )
    fleet.direct("dev")
    fleet.reaches(*PROGRESS, 0, {"d"})
    status = fleet.rollout.status
    assert status.unselected_workspaces == 11
    told = [each.message for each in status.conditions if each.type == "UnselectedWorkspaces"]
    assert [("x09" in message, "x10" in message) for message in told] == [(True, False)]
    eventually(
        lambda: fleet.events() >= {("platform", "Warning", "UnselectedWorkspaces"), ("x00", "Normal", "Revoked")}
    )
    for name in strays[1:]:
        fleet.delete("workspaces", name)
    fleet.relabel("x00", "dev")
    fleet.comes_to(*PROGRESS, 0, {"d", "x00"})
    assert fleet.rollout.status.unselected_workspaces == 0
    assert find(fleet.rollout.status.conditions, "UnselectedWorkspaces") is None


def test_members_of_other_projects_are_nobody(fleet: Fleet) -> None:
    other = NameReference(name="other")
    fleet.create(member("o", "dev", Phase.PENDING, allowed=True, project_ref=other), member("d", "dev", Phase.PENDING))
    fleet.create(member("q", "dev", Phase.FAILED, project_ref=other))
    fleet.direct("dev")
    fleet.reaches(*PROGRESS, 0, {"d"})
    assert Fleet(fleet.cluster, fleet.namespace, "other").allowed == {"o"}


# --- rules 5 to 7: where the promotion stands ------------------------------------------------------------------------


def test_a_commit_walks_through_the_steps_in_order(fleet: Fleet) -> None:
    fleet.create(*(applied(name[0], name) for name in STEPS))
    fleet.direct(*STEPS)
    fleet.comes_to(*COMPLETE, 3, set())
    mark = fleet.cluster.audit.mark()
    for name in reversed(STEPS):
        fleet.annotate(name[0], DETECTED_REVISION, OTHER_SHA)
    for index, name in enumerate(STEPS):
        fleet.reaches(*PROGRESS, index, set(), says=f"with new work {name[0]}")
        fleet.enter(member(name[0], name, Phase.PENDING, pinned=OTHER_SHA, observed=SHA))
        fleet.comes_to(*PROGRESS, index, {name[0]})
        fleet.enter(applied(name[0], name, OTHER_SHA))
    fleet.comes_to(*COMPLETE, 3, set())
    written = [each.name for each in fleet.writes("rollout", "workspaces", mark) if each.code == 200]
    assert list(dict.fromkeys(written)) == ["d", "s", "p"]
    told = {("platform", "Normal", reason) for reason in ("StepCompleted", "RolloutCompleted")}
    eventually(lambda: fleet.events() >= {*told, ("p", "Normal", "Granted"), ("p", "Normal", "Revoked")})


@pytest.mark.parametrize("phase", [Phase.FAILED, Phase.VALIDATION_FAILED])
def test_a_failed_member_halts_its_step_and_all_later_ones_until_it_is_tried_again(fleet: Fleet, phase: Phase) -> None:
    fleet.create(
        applied("d", "dev", OTHER_SHA),
        member("s", "staging", phase, pinned=OTHER_SHA, observed=SHA),
        member("t", "staging", Phase.PENDING, pinned=OTHER_SHA),
        member("p", "prod", Phase.PENDING, pinned=OTHER_SHA, observed=SHA, allowed=True),
    )
    fleet.direct(*STEPS)
    fleet.reaches(Phase.FAILED, Reason.STEP_FAILED, 1, set(), says=f"Step [staging]: s {phase}/")
    assert "[prod] waits" in fleet.rollout.status.message
    assert find(fleet.rollout.status.conditions, "Stalled") is not None
    fleet.enter(member("s", "staging", Phase.PENDING, trigger=Trigger.RETRY, pinned=OTHER_SHA))
    fleet.comes_to(*PROGRESS, 1, {"s", "t"})
    assert find(fleet.rollout.status.conditions, "Stalled") is None


def test_a_request_for_a_failed_member_does_not_hide_the_failure_before_its_run_begins(fleet: Fleet) -> None:
    half_way(fleet)
    fleet.enter(member("p", "prod", Phase.FAILED, observed=SHA))
    fleet.comes_to(Phase.FAILED, Reason.STEP_FAILED, 1, {"p"}, says="p Failed/")
    fleet.annotate("p", RECONCILE_REQUEST, "again")
    fleet.annotate("p", EXECUTION_ALLOWED, None)
    fleet.reaches(Phase.FAILED, Reason.STEP_FAILED, 1, set(), says="p Failed/")


def test_drift_of_an_earlier_step_waits_for_the_next_pass(fleet: Fleet) -> None:
    half_way(fleet)
    fleet.enter(drifting("d", "dev"))
    fleet.reaches(*PROGRESS, 1, {"p"})
    fleet.enter(applied("p", "prod"))
    fleet.reaches(*PROGRESS, 0, {"d"})
    fleet.enter(applied("d", "dev"))
    fleet.comes_to(*COMPLETE, 2, set())


def test_every_other_trigger_of_an_earlier_step_rewinds_to_it(fleet: Fleet) -> None:
    half_way(fleet)
    for trigger in (Trigger.CONFIGURATION, Trigger.REVISION, Trigger.VARIABLES, Trigger.MANUAL, Trigger.RETRY):
        fleet.enter(member("d", "dev", Phase.PENDING, trigger=trigger, observed=SHA))
        fleet.comes_to(*PROGRESS, 0, {"d"})
        fleet.enter(applied("d", "dev"))
        fleet.comes_to(*PROGRESS, 1, {"p"})


@pytest.mark.parametrize("key", [DETECTED_REVISION, RECONCILE_REQUEST])
def test_an_announcement_rewinds_before_its_run_begins(fleet: Fleet, key: str) -> None:
    half_way(fleet)
    fleet.annotate("d", key, OTHER_SHA)
    fleet.reaches(*PROGRESS, 0, set(), says="with new work d")
    fleet.annotate("d", key, None)
    fleet.comes_to(*PROGRESS, 1, {"p"})


def test_an_edited_spec_rewinds_before_the_workspace_has_seen_it(fleet: Fleet) -> None:
    half_way(fleet)
    fleet.edit_spec("d", autoApply=False)
    fleet.reaches(*PROGRESS, 0, set(), says="with new work d")
    fleet.enter(applied("d", "dev"))
    fleet.comes_to(*PROGRESS, 1, {"p"})


def test_a_gated_plan_holds_its_step_but_a_gated_drift_run_holds_nobody(fleet: Fleet) -> None:
    fleet.create(member("d", "dev", Phase.PLANNED, gated=True), member("p", "prod", Phase.PENDING))
    fleet.direct("dev", "prod")
    fleet.reaches(*PROGRESS, 0, {"d"}, says="gated d")
    fleet.enter(member("d", "dev", Phase.PLANNED, gated=True, trigger=Trigger.SCHEDULED, observed=SHA))
    fleet.reaches(*PROGRESS, 1, {"p"})


# --- rule 8: the promotion guarantee ---------------------------------------------------------------------------------


def test_a_commit_that_an_earlier_step_has_not_applied_is_not_promoted(fleet: Fleet) -> None:
    fleet.create(applied("d", "dev"), member("p", "prod", Phase.PENDING, pinned=OTHER_SHA, detected=OTHER_SHA))
    fleet.direct("dev", "prod")
    fleet.reaches(*PROGRESS, 1, set(), says=f"p waits: revision {OTHER_SHA} not yet applied by d ({SHA} applied)")
    fleet.enter(applied("d", "dev", OTHER_SHA))
    fleet.comes_to(*PROGRESS, 1, {"p"})


def test_an_unknown_commit_is_promoted_only_to_members_with_nobody_of_their_source_before_them(fleet: Fleet) -> None:
    elsewhere = Source(repo_url="https://git.example.com/other.git", target_revision="main")
    fleet.create(applied("d", "dev"), member("p", "prod"), member("q", "prod", Phase.PENDING, source=elsewhere))
    fleet.direct("dev", "prod")
    fleet.reaches(*PROGRESS, 1, {"q"}, says="p waits: RefWatcher has not detected its revision yet")
    fleet.annotate("p", DETECTED_REVISION, SHA)
    fleet.reaches(*PROGRESS, 1, {"q"}, says=f"p waits: the workspace controller has not recorded revision {SHA}")
    fleet.enter(member("p", "prod", Phase.PENDING))
    fleet.comes_to(*PROGRESS, 1, {"p", "q"})


def test_a_commit_of_another_branch_needs_nobody_before_it(fleet: Fleet) -> None:
    release = Source(repo_url="https://git.example.com/demo.git", target_revision="release")
    fleet.create(applied("d", "dev"), member("p", "prod", Phase.PENDING, pinned=OTHER_SHA, source=release))
    fleet.direct("dev", "prod")
    fleet.reaches(*PROGRESS, 1, {"p"})


def test_what_an_earlier_step_applied_of_another_source_does_not_count(fleet: Fleet) -> None:
    dev = applied("d", "dev", OTHER_SHA)
    dev = replace(dev, status=replace(dev.status, observed_source="0" * 16))
    fleet.create(dev, member("p", "prod", Phase.PENDING, pinned=OTHER_SHA))
    fleet.direct("dev", "prod")
    fleet.reaches(*PROGRESS, 1, set(), says="(nothing applied)")


def test_a_plan_whose_own_commit_was_skipped_is_not_let_through_by_a_newer_one(fleet: Fleet) -> None:
    stale = member("p", "prod", Phase.PLANNED, pinned=LATER_SHA, detected=OTHER_SHA, gated=True)
    fleet.create(applied("d", "dev", OTHER_SHA), stale)
    fleet.direct("dev", "prod")
    fleet.reaches(*PROGRESS, 1, set(), says=LATER_SHA)


# --- rule 9: permission is taken back --------------------------------------------------------------------------------


def test_permission_outside_the_active_step_is_taken_back_and_a_running_job_is_left_alone(fleet: Fleet) -> None:
    fleet.create(member("d", "dev", Phase.PENDING), member("p", "prod", Phase.APPLYING, allowed=True))
    fleet.direct("dev", "prod")
    fleet.reaches(*PROGRESS, 0, {"d"})
    fleet.annotate("p", EXECUTION_ALLOWED, TRUE)
    fleet.reaches(*PROGRESS, 0, {"d"})
    assert [each.status.phase for each in fleet.members if each.metadata.name == "p"] == [Phase.APPLYING]
    assert fleet.writes("rollout", "jobs") == []


def test_a_terminating_workspace_gets_no_grant_and_halts_nobody(fleet: Fleet) -> None:
    going = [member("d", "dev", Phase.PENDING), member("f", "dev", Phase.FAILED)]
    fleet.create(*(replace(each, metadata=replace(each.metadata, finalizers=(HOLD,))) for each in going))
    fleet.create(member("e", "dev", Phase.PENDING))
    for each in going:
        fleet.delete("workspaces", each.metadata.name)
    fleet.direct("dev")
    fleet.reaches(*PROGRESS, 0, {"e"})
    fleet.enter(applied("e", "dev"))
    fleet.comes_to(*COMPLETE, 1, set())


# --- steps, members and the Rollout itself change under way ----------------------------------------------------------


def test_reordered_steps_are_counted_from_the_first_again(fleet: Fleet) -> None:
    half_way(fleet)
    fleet.enter(drifting("p", "prod"))
    fleet.enter(drifting("d", "dev"))
    fleet.reaches(*PROGRESS, 1, {"p"})
    fleet.edit_steps("prod", "dev")
    fleet.reaches(*PROGRESS, 0, {"p"}, says="[prod]")


def test_fewer_steps_than_were_done_are_no_trouble(fleet: Fleet) -> None:
    fleet.create(*(applied(name[0], name) for name in STEPS))
    fleet.direct(*STEPS)
    fleet.comes_to(*COMPLETE, 3, set())
    fleet.edit_steps("dev")
    fleet.reaches(*COMPLETE, 1, set())
    assert fleet.rollout.status.unselected_workspaces == 2


def test_a_relabelled_member_loses_the_permission_of_its_old_step(fleet: Fleet) -> None:
    fleet.create(*(member(name, stage, Phase.PENDING) for name, stage in (("d", "dev"), ("e", "dev"), ("p", "prod"))))
    fleet.direct("dev", "prod")
    fleet.comes_to(*PROGRESS, 0, {"d", "e"})
    fleet.enter(member("e", "dev", Phase.PLANNING))
    fleet.relabel("e", "prod")
    fleet.reaches(*PROGRESS, 0, {"d"})
    fleet.enter(applied("d", "dev"))
    eventually(lambda: "d" not in fleet.allowed)  # the step is left, before another member makes it active again
    fleet.relabel("p", "dev")
    fleet.reaches(*PROGRESS, 0, {"p"})


def test_a_rollout_created_again_begins_at_the_first_step(fleet: Fleet) -> None:
    half_way(fleet)
    fleet.enter(drifting("d", "dev"))
    fleet.reaches(*PROGRESS, 1, {"p"})
    fleet.delete("rollouts", fleet.name)
    fleet.direct("dev", "prod")
    fleet.reaches(*PROGRESS, 0, {"d"})


# --- handover between Project and Rollout ----------------------------------------------------------------------------


def test_a_project_hands_over_to_a_rollout_and_takes_over_again_when_it_is_deleted(fleet: Fleet) -> None:
    fleet.create(*(member(name[0], name, Phase.PENDING) for name in STEPS))
    fleet.gather()
    eventually(lambda: fleet.allowed == {"d", "s", "p"})
    eventually(lambda: fleet.project.status.reason == Reason.DEFAULT_PARALLEL)
    fleet.direct(*STEPS)
    fleet.comes_to(*PROGRESS, 0, {"d"})
    eventually(lambda: fleet.project.status.reason == Reason.MANAGED_BY_ROLLOUT)
    mark = fleet.cluster.audit.mark()
    fleet.enter(applied("d", "dev"))
    fleet.reaches(*PROGRESS, 1, {"s"})
    fleet.create(member("x", "prod", Phase.PENDING))
    eventually(lambda: fleet.project.status.members == 4)  # the Project's own pass over all that was written until now
    assert fleet.writes("project", "workspaces", mark) == []
    fleet.delete("rollouts", fleet.name)
    eventually(lambda: fleet.allowed == {"s", "p", "x"})
    eventually(lambda: fleet.project.status.reason == Reason.DEFAULT_PARALLEL)


def test_a_terminating_rollout_decides_nothing_and_still_keeps_the_project_away(fleet: Fleet) -> None:
    fleet.create(member("d", "dev", Phase.PENDING), member("p", "prod", Phase.PENDING))
    fleet.direct("dev", "prod", finalizers=(HOLD,))
    fleet.gather()
    fleet.reaches(*PROGRESS, 0, {"d"})
    fleet.delete("rollouts", fleet.name)
    fleet.annotate("d", EXECUTION_ALLOWED, None)
    fleet.annotate("p", EXECUTION_ALLOWED, TRUE)
    # Both controllers are seen at work on what came later; the Project's grace is over for the one who came first.
    stepwise, parallel = (Fleet(fleet.cluster, fleet.namespace, name) for name in ("stepwise", "parallel"))
    stepwise.create(member("o", "dev", Phase.PENDING, project_ref=NameReference(name="stepwise")))
    stepwise.direct("dev")
    stepwise.reaches(*PROGRESS, 0, {"o"})
    parallel.create(member("l", "dev", Phase.PENDING, project_ref=NameReference(name="parallel")))
    parallel.gather()
    eventually(lambda: parallel.allowed == {"l"})
    assert fleet.allowed == {"p"}
    assert fleet.project.status.reason == Reason.MANAGED_BY_ROLLOUT
    fleet.release("rollouts", fleet.name)
    eventually(lambda: fleet.allowed == {"d", "p"})


# --- the accounts ----------------------------------------------------------------------------------------------------


def test_both_accounts_were_refused_nothing_and_wrote_only_what_is_theirs(fleet: Fleet, started: int) -> None:
    """The last test of the module: it reads what all others caused."""
    half_way(fleet)
    requests = fleet.cluster.audit.requests(started)
    mine = [each for each in requests if each.user in ACCOUNTS.values()]
    assert {each.user for each in mine} == set(ACCOUNTS.values())
    # Nothing can be created in the namespaces of the tests before, which are being deleted.
    open_ = [each for each in mine if each.verb != "create" or each.namespace in (fleet.namespace, "magos-system")]
    assert [each for each in open_ if each.code in (401, 403)] == []
    written = {(each.user, each.resource) for each in mine if each.verb in WRITE_VERBS}
    kinds = {name: {resource for user, resource in written if user == ACCOUNTS[name]} for name in ACCOUNTS}
    assert kinds["rollout"] == {"workspaces", "rollouts/status", "events", "leases"}
    assert kinds["project"] <= {"workspaces", "projects", "projects/status", "events", "leases"}
