"""What a person asks for is a patch that names the version it was judged by, or a refusal that says what waits."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magos.actions import (
    AnotherRun,
    BeingDeleted,
    NotGated,
    UnacknowledgedWarnings,
    approve,
    discard,
    discarded,
    reconcile,
)
from magos.api.annotations import APPROVED, APPROVED_BY, RECONCILE_REQUEST, REQUESTED_BY
from magos.api.phases import Phase
from magos.api.workspace import AwaitingApproval, GateReason, PlanSummary, PolicyViolation, Workspace
from tests.unit.explain.objects import COMMIT, NOW, RUN, with_meta, workspace


def _gated(reason: GateReason = GateReason.MANUAL_APPROVAL, **status: Any) -> Workspace:
    gate = AwaitingApproval(run_id=RUN, reason=reason, since="2026-05-01T11:59:30Z", revision=COMMIT)
    return workspace(Phase.PLANNED, "PlanSucceeded", awaiting_approval=gate, **status)


LEAVING = with_meta(_gated(), deletion_timestamp="2026-05-01T11:59:00Z")


def test_a_reconcile_request_is_the_time_in_nanoseconds_and_conditional_on_what_was_judged() -> None:
    now = datetime(2026, 5, 1, 12, 0, 0, 123456, tzinfo=UTC)
    assert reconcile(workspace(Phase.APPLIED), now) == {
        "metadata": {
            "resourceVersion": "7",
            "annotations": {RECONCILE_REQUEST: "2026-05-01T12:00:00.123456000Z", REQUESTED_BY: None},
        }
    }


@given(principal=st.text(min_size=1))
def test_who_asks_is_named_together_with_exactly_what_was_asked(principal: str) -> None:
    asked = reconcile(workspace(Phase.APPLIED), NOW, principal)["metadata"]["annotations"]
    assert json.loads(asked[REQUESTED_BY]) == {"request": asked[RECONCILE_REQUEST], "principal": principal}
    given_ = approve(_gated(), RUN, principal=principal)["metadata"]["annotations"]
    assert json.loads(given_[APPROVED_BY]) == {"runID": RUN, "principal": principal}


def test_an_earlier_name_never_stays_beside_a_new_request() -> None:
    assert approve(_gated(), RUN)["metadata"]["annotations"] == {APPROVED: RUN, APPROVED_BY: None}
    assert discard(_gated(), NOW)["metadata"]["annotations"][REQUESTED_BY] is None


def test_an_approval_is_for_the_run_that_waits_and_conditional_on_what_was_judged() -> None:
    assert approve(_gated(), RUN)["metadata"]["resourceVersion"] == "7"
    with pytest.raises(AnotherRun, match=f"waits for the approval of run {RUN}, not of 20250101T000000-00000000") as no:
        approve(_gated(), "20250101T000000-00000000")
    assert no.value.waiting == RUN


def test_violations_have_to_be_acknowledged() -> None:
    violations = (PolicyViolation(policy="a", message="b"),)
    violated = _gated(GateReason.AUDIT_VIOLATIONS, policy_violations=violations)
    with pytest.raises(UnacknowledgedWarnings, match="violates 1 policy: read it"):
        approve(violated, RUN)
    assert approve(violated, RUN, acknowledge_warnings=True)["metadata"]["annotations"][APPROVED] == RUN


@pytest.mark.parametrize("phase", [None, Phase.PENDING, Phase.PLANNING, Phase.APPLIED, Phase.FAILED])
def test_without_a_plan_that_waits_nothing_is_approved_and_nothing_discarded(phase: Phase | None) -> None:
    subject = workspace(phase)
    with pytest.raises(NotGated, match=f"no plan that waits for approval: it is {phase or 'Pending'}"):
        approve(subject, RUN)
    with pytest.raises(NotGated, match="there is nothing to discard"):
        discard(subject, NOW)
    assert discarded(subject) == ""


def test_a_workspace_that_is_being_deleted_takes_no_request() -> None:
    with pytest.raises(BeingDeleted, match="is being deleted"):
        reconcile(LEAVING, NOW)
    with pytest.raises(NotGated, match="is being deleted"):
        approve(LEAVING, RUN)
    with pytest.raises(NotGated, match="is being deleted"):
        discard(LEAVING, NOW)


def test_to_discard_is_to_ask_for_a_new_run_and_says_what_is_given_up() -> None:
    gated = _gated(plan_summary=PlanSummary(add=1, change=2, destroy=3, no_changes=False))
    assert discard(gated, NOW, "ada") == reconcile(gated, NOW, "ada")
    assert discarded(gated) == f"the plan of run {RUN} of commit c0ffee0 (3 to destroy, 2 to change, 1 to add)"
    assert discarded(_gated()) == f"the plan of run {RUN} of commit c0ffee0"
