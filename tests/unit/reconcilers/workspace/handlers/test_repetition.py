"""A plan that infrastructure ended begins anew: when, how often, and what cuts the pause short."""

from msgspec.structs import replace

from magos.api.kube import JOBS
from magos.api.names import JobType
from magos.api.phases import Phase
from magos.api.reasons import Reason
from magos.api.timestamps import format_time
from magos.api.triggers import Trigger
from magos.api.workspace import WORKSPACES, CurrentRun
from magos.reconcilers.permission import granted_for, permitted
from tests.unit.reconcilers.cluster import Cluster
from tests.unit.reconcilers.model import LATER_SHA, OTHER_SHA
from tests.unit.reconcilers.results import failed, reasons


def interrupt(model: Cluster) -> None:
    """The runner of the plan is asked to stop."""
    stopped = failed(model, JobType.PLAN, "Interrupted", "the terraform stage was asked to stop", exit_code=143)
    model.run_job_end(JobType.PLAN, stopped)


def run_of(model: Cluster) -> CurrentRun:
    found = model.workspace.status.current_run
    assert found is not None
    return found


def plan_again(model: Cluster) -> None:
    model.annotate(execution_allowed="true")
    model.settle()
    model.create_pods()
    job = model.job(JobType.PLAN)
    assert job is not None
    model.start(job)
    model.settle()


def paused() -> Cluster:
    model = Cluster()
    model.to_planning()
    interrupt(model)
    return model


def test_the_repetition_is_a_new_run_with_the_trigger_of_the_first_and_without_its_permission() -> None:
    model = Cluster()
    job = model.to_planning()
    first, trigger = model.workspace.status.current_run_id, model.workspace.status.current_run_trigger
    interrupt(model)
    status = model.workspace.status
    assert (status.phase, status.reason) == (Phase.PENDING, Reason.INTERRUPTED)
    assert status.current_run_id != first
    assert status.current_run_trigger is trigger
    assert "magosproject.io/execution-allowed" not in model.workspace.metadata.annotations
    assert model.get(JOBS, job.metadata.name) is None
    assert reasons(model.events)[-1] == Reason.INTERRUPTED
    begins = run_of(model).not_before
    assert begins is not None
    assert status.message == (
        f"Run {first} was interrupted: the terraform stage was asked to stop; attempt 2 of 4 begins in 30 s, at"
        f" {begins}, as run {status.current_run_id}."
    )


def test_nothing_starts_before_the_pause_is_over_although_permission_is_there() -> None:
    model = paused()
    model.annotate(execution_allowed="true")
    model.settle()
    model.advance(seconds=29)
    model.settle()
    assert model.job(JobType.PLAN) is None
    assert model.workspace.status.reason == Reason.INTERRUPTED
    model.advance(seconds=2)
    model.settle()
    assert model.job(JobType.PLAN) is not None


def test_pauses_double_and_the_fourth_attempt_is_the_last() -> None:
    model = Cluster()
    model.to_planning()
    for pause in (30, 60, 120):
        interrupt(model)
        assert f"begins in {pause} s" in model.workspace.status.message
        model.advance(seconds=pause + 1)
        plan_again(model)
    interrupt(model)
    status = model.workspace.status
    assert (status.phase, status.reason) == (Phase.FAILED, Reason.INTERRUPTED)
    assert "4 times in a row" in status.message


def test_the_count_begins_anew_behind_a_plan_that_was_not_interrupted() -> None:
    model = paused()
    model.advance(seconds=31)
    plan_again(model)
    assert run_of(model).interruptions == 1
    model.run_job_end(JobType.PLAN, failed(model, JobType.PLAN, "PlanFailed", "no"))
    model.advance(minutes=5)
    model.settle()
    assert model.workspace.status.current_run_trigger is Trigger.RETRY
    assert run_of(model).interruptions == 0


def test_a_commit_during_the_pause_begins_at_once() -> None:
    model = paused()
    model.annotate(detected_revision=LATER_SHA)
    model.settle()
    assert (run_of(model).revision, run_of(model).interruptions, run_of(model).not_before) == (LATER_SHA, 0, None)
    assert model.workspace.status.reason != Reason.INTERRUPTED
    plan_again(model)
    assert model.workspace.status.phase is Phase.PLANNING


def test_a_request_during_the_pause_begins_at_once() -> None:
    model = paused()
    model.annotate(reconcile_request="now")
    model.settle()
    plan_again(model)
    assert model.workspace.status.phase is Phase.PLANNING
    assert run_of(model).request == "now"


def test_a_commit_that_came_while_the_plan_ran_is_planned_at_once_instead() -> None:
    model = Cluster()
    model.to_planning()
    model.annotate(detected_revision=OTHER_SHA)
    interrupt(model)
    assert (run_of(model).revision, run_of(model).interruptions) == (OTHER_SHA, 0)
    assert model.workspace.status.reason != Reason.INTERRUPTED


def test_a_revision_that_only_fills_the_gap_leaves_the_pause_as_it_is() -> None:
    model = Cluster()
    model.to_planning(revision="")
    interrupt(model)
    before, message = run_of(model), model.workspace.status.message
    assert before.revision == ""
    model.annotate(detected_revision=LATER_SHA)
    model.settle()
    assert run_of(model).revision == LATER_SHA
    assert (run_of(model).interruptions, run_of(model).not_before) == (before.interruptions, before.not_before)
    assert model.workspace.status.message == message


def test_a_pause_longer_than_any_of_ours_keeps_nothing() -> None:
    model = paused()
    run = replace(run_of(model), not_before=format_time(model.now.replace(year=2099)))
    model.put(WORKSPACES, replace(model.workspace, status=replace(model.workspace.status, current_run=run)))
    plan_again(model)
    assert model.workspace.status.phase is Phase.PLANNING


def test_a_crash_behind_the_status_write_leaves_no_permission_to_the_repetition() -> None:
    model = Cluster()
    model.to_planning()
    job, granted = model.get(JOBS, run_of(model).plan_job), granted_for(model.workspace)
    interrupt(model)
    model.put(JOBS, replace(job, metadata=replace(job.metadata, uid="")))  # as if nothing had followed the status
    model.annotate(execution_allowed="true", execution_granted_for=granted)
    model.settle()
    assert not permitted(model.workspace)
    assert model.get(JOBS, job.metadata.name) is None
