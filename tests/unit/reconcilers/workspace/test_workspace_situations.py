"""The situations of spec §6.2.11, one test each, and what a gated plan is not moved by (§6.2.8)."""

from typing import Any

import pytest
from msgspec.structs import replace

from magos.api.annotations import APPROVED, RECONCILE_REQUEST
from magos.api.kube import JOBS, PODS
from magos.api.names import JobType
from magos.api.phases import Phase
from magos.api.project import PROJECTS
from magos.api.reasons import Reason
from magos.api.workspace import ApprovalKind
from magos.reconcilers.workspace.pod.settings import WorkspaceSettings
from tests.unit.reconcilers.cluster import Cluster
from tests.unit.reconcilers.model import NAME, NAMESPACE, OTHER_SHA, SETTINGS, SHA
from tests.unit.reconcilers.results import apply_result, encode, failed, plan_result, reasons


def outcome(model: Cluster) -> tuple[Phase | None, str]:
    return model.workspace.status.phase, model.workspace.status.reason


def run_id(model: Cluster) -> str:
    return model.workspace.status.current_run_id


def gated(settings: WorkspaceSettings = SETTINGS, **spec: Any) -> Cluster:
    model = Cluster(settings)
    model.to_planning(auto_apply=False, **spec)
    model.run_job_end(JobType.PLAN, plan_result(model))
    assert model.workspace.status.awaiting_approval is not None
    return model


# --- permission --------------------------------------------------------------------------------------------------


def test_permission_revoked_during_a_plan_refuses_only_the_apply() -> None:
    model = Cluster()
    model.to_planning()
    model.annotate(execution_allowed=None)
    model.settle()
    assert outcome(model)[0] is Phase.PLANNING
    model.run_job_end(JobType.PLAN, plan_result(model))
    assert outcome(model) == (Phase.PLANNED, Reason.AWAITING_ROLLOUT)
    assert Reason.AWAITING_ROLLOUT in reasons(model.events)
    model.annotate(execution_allowed="true")
    model.settle()
    assert outcome(model)[0] is Phase.APPLYING


def test_permission_revoked_during_an_apply_changes_nothing() -> None:
    model = Cluster()
    model.to_applying()
    model.annotate(execution_allowed=None)
    model.settle()
    model.run_job_end(JobType.APPLY, apply_result(model))
    assert outcome(model) == (Phase.APPLIED, Reason.APPLY_SUCCEEDED)


# --- approvals ---------------------------------------------------------------------------------------------------


def test_an_approval_of_an_earlier_run_opens_no_later_gate() -> None:
    model = gated()
    earlier = run_id(model)
    model.annotate(reconcile_request="again")
    model.settle()
    model.annotate(execution_allowed="true", approved=earlier)
    model.settle()
    model.run_job(JobType.PLAN, plan_result(model))
    assert model.workspace.status.awaiting_approval is not None
    model.annotate(approved=earlier)
    model.settle()
    assert model.workspace.status.awaiting_approval is not None
    assert model.job(JobType.APPLY) is None


@pytest.mark.parametrize(
    ("said", "by"),
    [
        ('{{"runID": "{0}", "principal": "ann"}}', "ann"),
        ('{{"runID": "20250101T000000-00000000", "principal": "eve"}}', "direct edit (unverified)"),
        ("nonsense {0}", "direct edit (unverified)"),
        (None, "direct edit (unverified)"),
    ],
)
def test_who_approved_counts_only_for_exactly_this_run(said: str | None, by: str) -> None:
    model = gated()
    wanted = run_id(model)
    model.annotate(approved=wanted, approved_by=said.format(wanted) if said is not None else None)
    model.settle()
    run = model.workspace.status.current_run
    assert run is not None
    assert run.approval is not None
    assert (run.approval.kind, run.approval.by) == (ApprovalKind.APPROVED, by)
    assert run.approval.at == "2026-01-02T03:04:05Z"


def test_nobody_is_named_where_anybody_could_have_written_the_name() -> None:
    model = Cluster(replace(SETTINGS, verified_principals=False))
    model.to_applied()
    model.annotate(reconcile_request="r", requested_by='{"request": "r", "principal": "ciso"}')
    model.settle()
    run = model.workspace.status.current_run
    assert run is not None
    assert run.principal == "direct edit (unverified)"
    gate = gated(replace(SETTINGS, verified_principals=False))
    approved = run_id(gate)
    gate.annotate(approved=approved, approved_by=f'{{"runID": "{approved}", "principal": "ciso"}}')
    gate.settle()
    run = gate.workspace.status.current_run
    assert run is not None
    assert run.approval is not None
    assert run.approval.by == "direct edit (unverified)"
    assert "ciso" not in gate.workspace.status.message


def test_an_opened_gate_stays_open_while_permission_is_missing() -> None:
    model = gated()
    model.annotate(execution_allowed=None, approved=run_id(model))
    model.settle()
    model.annotate(approved=None)
    model.settle()
    assert outcome(model) == (Phase.PLANNED, Reason.AWAITING_ROLLOUT)
    assert model.workspace.status.awaiting_approval is None
    model.annotate(execution_allowed="true")
    model.settle()
    assert outcome(model)[0] is Phase.APPLYING


# --- the gate ----------------------------------------------------------------------------------------------------


def test_ticks_commits_and_revocation_leave_a_gated_plan_as_it_is() -> None:
    model = gated()
    before = (outcome(model), model.workspace.status.awaiting_approval, run_id(model))
    model.annotate(detected_revision=OTHER_SHA, execution_allowed=None)
    for _ in range(5):
        model.advance(minutes=3)
        model.settle()
    assert (outcome(model), model.workspace.status.awaiting_approval, run_id(model)) == before
    model.annotate(execution_allowed="true", approved=run_id(model))
    model.settle()
    model.run_job(JobType.APPLY, apply_result(model))
    status = model.workspace.status
    assert (status.observed_revision, str(status.current_run_trigger)) == (SHA, "revision")  # the commit's own run
    assert status.current_run is not None
    assert status.current_run.revision == OTHER_SHA


def test_an_approval_and_a_spec_edit_at_once_plan_again() -> None:
    model = gated()
    model.annotate(approved=run_id(model))
    model.edit(service_account_name="other")
    model.settle()
    assert outcome(model)[0] is Phase.PENDING
    assert model.job(JobType.APPLY) is None
    assert APPROVED not in model.workspace.metadata.annotations
    assert "PlanDiscarded" in reasons(model.events)


def test_an_approval_and_a_commit_at_once_discard_a_stale_plan_where_that_is_wanted() -> None:
    for discard, phase in ((True, Phase.PENDING), (False, Phase.APPLYING)):
        model = gated(discard_stale_plan=discard)
        model.annotate(approved=run_id(model), detected_revision=OTHER_SHA)
        model.settle()
        assert outcome(model)[0] is phase


# --- requests and commits ----------------------------------------------------------------------------------------


def test_a_request_during_a_run_causes_one_run_afterwards() -> None:
    model = Cluster()
    model.to_applying()
    first = run_id(model)
    model.annotate(reconcile_request="now")
    model.settle()
    assert run_id(model) == first
    model.run_job_end(JobType.APPLY, apply_result(model))
    assert run_id(model) != first
    assert str(model.workspace.status.current_run_trigger) == "manual"
    model.annotate(execution_allowed="true")
    model.settle()
    model.run_job(JobType.PLAN, plan_result(model, has_changes=False))
    assert model.workspace.status.last_handled_reconcile_request == "now"
    assert RECONCILE_REQUEST not in model.workspace.metadata.annotations
    assert outcome(model) == (Phase.APPLIED, Reason.NO_CHANGES)


def test_the_request_that_a_run_has_recorded_causes_no_second_one() -> None:
    model = Cluster()
    model.to_applied()
    model.annotate(reconcile_request="now")
    model.settle()
    model.annotate(execution_allowed="true")
    model.settle()
    model.run_job(JobType.PLAN, plan_result(model, has_changes=False))
    jobs = len(model.created_jobs)
    model.annotate(reconcile_request="now")  # somebody writes it again before anybody has seen it gone
    model.settle()
    assert len(model.created_jobs) == jobs
    assert outcome(model) == (Phase.APPLIED, Reason.NO_CHANGES)


def test_a_branch_that_moves_back_after_a_failed_attempt_is_planned_again() -> None:
    model = Cluster()
    model.to_applied()
    model.annotate(detected_revision=OTHER_SHA)
    model.settle()
    model.annotate(execution_allowed="true")
    model.settle()
    model.run_job(JobType.PLAN, failed(model, JobType.PLAN, "PlanFailed", "broken"))
    assert outcome(model)[0] is Phase.FAILED
    model.annotate(detected_revision=SHA)
    model.settle()
    assert str(model.workspace.status.current_run_trigger) == "revision"
    assert model.workspace.status.current_run is not None
    assert model.workspace.status.current_run.revision == SHA


# --- Jobs deleted by a person ------------------------------------------------------------------------------------


def test_a_job_deleted_after_its_run_ended_is_not_missed() -> None:
    model = Cluster()
    model.to_applied()
    history = len(model.history)
    for job in model.all(JOBS):
        model.user_deletes(JOBS, job.metadata.name)
    model.settle()
    assert len(model.history) == history


def test_a_plan_job_deleted_once_too_often_is_a_lost_run_that_the_tick_repeats() -> None:
    model = Cluster()
    job = model.to_planning()
    model.exhaust_repetitions()
    model.user_deletes(JOBS, job.metadata.name)
    model.settle()
    assert outcome(model) == (Phase.FAILED, Reason.RUN_LOST)
    for pod in model.all(PODS):
        model.remove(PODS, pod.metadata.name)
    model.advance(minutes=4)
    model.settle()
    assert str(model.workspace.status.current_run_trigger) == "retry"


def test_an_apply_job_deleted_while_it_runs_is_waited_for_and_its_result_counts() -> None:
    model = Cluster()
    job = model.to_applying()
    model.user_deletes(JOBS, job.metadata.name)
    model.settle()
    assert outcome(model)[0] is Phase.APPLYING
    assert model.created_jobs[-1].metadata.name == job.metadata.name
    pod = model.pod_of(job)
    assert pod is not None
    model.state[PODS.resource][NAMESPACE, pod.metadata.name] = replace(
        pod, metadata=replace(pod.metadata, deletion_timestamp=None)
    )
    model.end_pod(job, encode(apply_result(model)))
    model.settle()
    assert outcome(model) == (Phase.APPLIED, Reason.APPLY_SUCCEEDED)


# --- the Project -------------------------------------------------------------------------------------------------


def test_without_its_project_a_workspace_stays_as_it_is_and_its_next_run_waits() -> None:
    model = Cluster()
    model.to_applied()
    model.remove(PROJECTS, "platform")
    model.settle()
    assert outcome(model) == (Phase.APPLIED, Reason.APPLY_SUCCEEDED)
    model.advance(minutes=4)
    model.settle()
    assert outcome(model) == (Phase.PENDING, Reason.AWAITING_ROLLOUT)
    assert f"Project {NAMESPACE}/platform does not exist" in model.workspace.status.message
    assert model.workspace.metadata.name == NAME
    [told] = [event for event in model.events if event.reason == Reason.AWAITING_ROLLOUT]
    assert told.type == "Warning"


def test_an_ordinary_wait_for_permission_is_no_warning() -> None:
    model = Cluster()
    model.to_applied()
    assert not [event for event in model.events if event.type == "Warning"]
