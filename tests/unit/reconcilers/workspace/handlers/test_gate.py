"""The gate of spec §6.2.8: closed by a plan, opened by exactly one run ID, never in advance."""

from typing import Any

from magos.api.annotations import APPROVED
from magos.api.kube import JOBS
from magos.api.names import JobType
from magos.api.phases import Phase
from magos.api.reasons import Reason
from magos.api.workspace import ApprovalKind
from tests.unit.reconcilers.cluster import Cluster
from tests.unit.reconcilers.model import OTHER_SHA
from tests.unit.reconcilers.results import apply_result, plan_result, reasons


def gated(**spec: Any) -> Cluster:
    model = Cluster()
    model.to_planning(auto_apply=False, **spec)
    model.run_job_end(JobType.PLAN, plan_result(model))
    assert model.workspace.status.awaiting_approval is not None
    return model


def test_without_auto_apply_a_plan_with_changes_waits() -> None:
    model = gated()
    status = model.workspace.status
    assert (status.phase, status.reason) == (Phase.PLANNED, Reason.PLAN_SUCCEEDED)
    assert [(c.type, c.status) for c in status.conditions] == [("Ready", "Unknown")]
    assert reasons(model.events)[-2:] == ["PlanSucceeded", "AwaitingApproval"]
    assert model.job(JobType.APPLY) is None
    assert status.current_run is not None
    assert status.current_run.apply_job == ""


def test_only_exactly_this_run_id_opens_the_gate() -> None:
    model = gated()
    run_id = model.workspace.status.current_run_id
    for wrong in ("true", run_id.upper() + "x", "20250101T000000-00000000", ""):
        model.annotate(approved=wrong)
        model.settle()
        assert model.job(JobType.APPLY) is None
    model.annotate(approved=run_id, approved_by=f'{{"runID": "{run_id}", "principal": "ann"}}')
    model.settle()
    status = model.workspace.status
    assert (status.phase, status.reason) == (Phase.APPLYING, Reason.APPLY_JOB_CREATED)
    assert status.awaiting_approval is None
    assert status.current_run is not None
    assert status.current_run.approval is not None
    assert (status.current_run.approval.kind, status.current_run.approval.by) == (ApprovalKind.APPROVED, "ann")
    assert "Approved" in reasons(model.events)
    model.run_job(JobType.APPLY, apply_result(model))
    assert model.workspace.status.phase is Phase.APPLIED
    assert APPROVED not in model.workspace.metadata.annotations


def test_an_approval_in_advance_has_no_effect_now_or_later() -> None:
    model = Cluster()
    model.to_planning(auto_apply=False)
    model.annotate(approved=model.workspace.status.current_run_id)
    model.run_job_end(JobType.PLAN, plan_result(model))
    assert model.workspace.status.awaiting_approval is not None
    assert APPROVED not in model.workspace.metadata.annotations
    assert model.job(JobType.APPLY) is None


def test_approval_does_not_replace_permission() -> None:
    model = gated()
    model.annotate(execution_allowed=None, approved=model.workspace.status.current_run_id)
    model.settle()
    status = model.workspace.status
    assert (status.phase, status.reason) == (Phase.PLANNED, Reason.AWAITING_ROLLOUT)
    assert model.job(JobType.APPLY) is None
    model.annotate(execution_allowed="true")
    model.settle()
    assert model.workspace.status.phase is Phase.APPLYING


def test_while_gated_a_commit_waits_and_the_tick_does_nothing() -> None:
    model = gated()
    run_id = model.workspace.status.current_run_id
    model.annotate(detected_revision=OTHER_SHA)
    model.advance(minutes=10)
    model.settle()
    assert model.workspace.status.current_run_id == run_id
    assert model.workspace.status.awaiting_approval is not None


def test_discard_stale_plan_lets_a_commit_abandon_a_gated_plan() -> None:
    model = gated(discard_stale_plan=True)
    model.annotate(detected_revision=OTHER_SHA)
    model.settle()
    assert model.workspace.status.phase is Phase.PENDING
    assert model.workspace.status.awaiting_approval is None


def test_while_gated_a_request_or_a_spec_edit_plans_again() -> None:
    model = gated()
    run_id = model.workspace.status.current_run_id
    model.annotate(reconcile_request="r", approved=run_id)
    model.settle()
    assert model.workspace.status.phase is Phase.PENDING
    assert model.workspace.status.current_run_id != run_id
    assert APPROVED not in model.workspace.metadata.annotations
    assert model.all(JOBS) == []
    other = gated()
    other.edit(discard_stale_plan=True)
    other.settle()
    assert other.workspace.status.phase is Phase.PENDING
