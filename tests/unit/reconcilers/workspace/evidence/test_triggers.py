"""The rows of spec §6.2.4, what they amend, and what they must not start."""

from contextlib import suppress

from msgspec.structs import replace

from magos.api.annotations import DETECTED_REVISION, EXECUTION_ALLOWED
from magos.api.kube import JOBS
from magos.api.meta import ObjectMeta
from magos.api.names import JobType
from magos.api.phases import Phase
from magos.api.project import PROJECTS, Project, ProjectSpec, ProjectValidation
from magos.api.reasons import Reason
from magos.api.selectors import LabelSelector
from magos.api.timestamps import parse_time
from magos.api.workspace import WORKSPACES, Source, Validation
from tests.unit.reconcilers.cluster import Cluster
from tests.unit.reconcilers.model import LATER_SHA, NAMESPACE, OTHER_SHA, SHA, Crash, workspace_manifest
from tests.unit.reconcilers.results import apply_result, encode, failed, plan_result, reasons


def trigger(model: Cluster) -> tuple[Phase | None, str]:
    status = model.workspace.status
    return status.phase, str(status.current_run_trigger)


def test_a_new_commit_starts_one_run_of_exactly_that_commit() -> None:
    model = Cluster()
    model.to_applied()
    model.annotate(detected_revision=OTHER_SHA)
    model.settle()
    assert trigger(model) == (Phase.PENDING, "revision")
    assert (Phase.PENDING, Reason.NEW_REVISION_DETECTED) in model.history
    assert model.workspace.status.current_run is not None
    assert model.workspace.status.current_run.revision == OTHER_SHA
    assert model.all(JOBS) == []  # the last Jobs stay until the reset
    model.annotate(execution_allowed="true")
    model.settle()
    model.run_job(JobType.PLAN, failed(model, JobType.PLAN, "PlanFailed", "broken"))
    assert model.workspace.status.phase is Phase.FAILED
    before = len(model.created_jobs)
    model.annotate(execution_allowed="true")
    model.settle()
    assert len(model.created_jobs) == before  # the same failing commit: one attempt


def test_a_commit_of_another_source_is_ignored() -> None:
    model = Cluster()
    model.to_applied()
    model.annotate(detected_revision=OTHER_SHA, detected_source="0" * 16)
    model.settle()
    assert model.workspace.status.phase is Phase.APPLIED


def test_garbage_is_no_commit() -> None:
    model = Cluster()
    model.to_applied()
    for garbage in ("main", "abc123", OTHER_SHA.upper(), OTHER_SHA + "0"):
        model.annotate(detected_revision=garbage)
        model.settle()
        assert model.workspace.status.phase is Phase.APPLIED


def test_a_pinned_target_revision_cannot_be_overtaken() -> None:
    model = Cluster()
    model.to_applied(source=Source(repo_url="https://git.example.com/demo.git", target_revision=LATER_SHA))
    assert model.workspace.status.observed_revision == LATER_SHA
    model.annotate(detected_revision=OTHER_SHA)
    for _ in range(3):
        model.settle()
    assert model.workspace.status.phase is Phase.APPLIED


def test_a_failed_run_is_retried_on_the_tick_with_a_fresh_plan() -> None:
    model = Cluster()
    model.to_planning()
    model.run_job_end(JobType.PLAN, failed(model, JobType.PLAN, "PlanFailed", "x"))
    first = model.workspace.status.current_run_id
    model.advance(minutes=2)
    model.settle()
    assert model.workspace.status.current_run_id == first
    model.advance(minutes=1, seconds=1)
    model.settle()
    assert (Phase.PENDING, Reason.RETRY_PLAN) in model.history
    assert trigger(model) == (Phase.PENDING, "retry")
    assert model.workspace.status.current_run is not None
    assert model.workspace.status.current_run.revision == SHA


def test_a_failed_apply_is_retried_as_such_and_plans_again() -> None:
    model = Cluster()
    model.to_applying()
    model.run_job_end(JobType.APPLY, failed(model, JobType.APPLY, "ApplyFailed", "x"))
    model.advance(minutes=4)
    model.settle()
    assert (Phase.PENDING, Reason.RETRY_APPLY) in model.history
    model.annotate(execution_allowed="true")
    model.settle()
    assert model.created_jobs[-1].metadata.labels["magosproject.io/job-type"] == "plan"


def test_a_manual_retry_after_a_failed_apply_creates_both_jobs_anew() -> None:
    model = Cluster()
    model.to_applying()
    model.run_job_end(JobType.APPLY, failed(model, JobType.APPLY, "ApplyFailed", "x"))
    model.annotate(reconcile_request="r")
    model.settle()
    model.annotate(execution_allowed="true")
    model.settle()
    model.run_job(JobType.PLAN, plan_result(model))
    model.run_job(JobType.APPLY, apply_result(model))
    assert model.workspace.status.phase is Phase.APPLIED
    assert len({manifest.metadata.name for manifest in model.created_jobs}) == 4


def test_an_applied_workspace_runs_on_the_schedule() -> None:
    model = Cluster()
    model.to_applied()
    tick = parse_time(model.workspace.status.next_reconcile_time or "")
    model.now = tick
    model.settle()
    assert (Phase.PENDING, Reason.SCHEDULED_RECONCILE) in model.history
    assert trigger(model) == (Phase.PENDING, "scheduled")
    assert parse_time(model.workspace.status.next_reconcile_time or "") > tick


def test_a_manual_run_does_not_move_the_schedule() -> None:
    model = Cluster()
    model.to_applied()
    tick = model.workspace.status.next_reconcile_time
    model.annotate(reconcile_request="r")
    model.settle()
    model.annotate(execution_allowed="true")
    model.settle()
    assert model.workspace.status.next_reconcile_time == tick


def test_a_request_that_is_recorded_starts_nothing_again() -> None:
    model = Cluster()
    model.to_applied()
    model.annotate(reconcile_request="r")
    model.settle()
    first = model.workspace.status.current_run_id
    model.settle()
    assert model.workspace.status.current_run_id == first
    assert model.workspace.metadata.annotations["magosproject.io/reconcile-request"] == "r"


def test_a_request_of_any_length_causes_one_run_and_is_not_copied_into_status() -> None:
    model = Cluster()
    model.to_applied()
    first = model.workspace.status.current_run_id
    model.annotate(reconcile_request='"' * 200_000)
    model.settle()
    second = model.workspace.status.current_run_id
    assert (trigger(model), second != first) == ((Phase.PENDING, "manual"), True)
    model.annotate(execution_allowed="true")
    model.settle()
    model.run_job(JobType.PLAN, plan_result(model, has_changes=False))
    assert trigger(model) == (Phase.APPLIED, "manual")
    assert model.workspace.status.current_run_id == second
    assert "magosproject.io/reconcile-request" not in model.workspace.metadata.annotations
    assert model.workspace.status.last_handled_reconcile_request.startswith("sha256:")
    assert max(len(text) for job in model.all(JOBS) for text in job.metadata.annotations.values()) < 10_000


def test_who_asked_is_kept_only_for_exactly_this_request() -> None:
    model = Cluster()
    model.to_applied()
    model.annotate(reconcile_request="r", requested_by='{"request": "other", "principal": "eve"}')
    model.settle()
    assert model.workspace.status.current_run is not None
    assert model.workspace.status.current_run.principal == "direct edit (unverified)"
    other = Cluster()
    other.to_applied()
    other.annotate(reconcile_request="r", requested_by='{"request": "r", "principal": "ann"}')
    other.settle()
    assert other.workspace.status.current_run is not None
    assert other.workspace.status.current_run.principal == "ann"


# --- in Pending -------------------------------------------------------------------------------------------------------


def waiting(revision: str = SHA) -> Cluster:
    model = Cluster()
    model.put(PROJECTS, Project(metadata=ObjectMeta(name="platform", namespace=NAMESPACE)))
    model.add_workspace()
    model.annotate(detected_revision=revision)
    model.settle()
    return model


def test_a_waiting_run_is_amended_and_keeps_its_identity() -> None:
    model = waiting()
    run_id = model.workspace.status.current_run_id
    model.annotate(detected_revision=OTHER_SHA, reconcile_request="r")
    model.settle()
    status = model.workspace.status
    assert status.current_run_id == run_id
    assert status.current_run is not None
    assert (status.current_run.revision, status.current_run.request) == (OTHER_SHA, "r")
    assert status.current_run_trigger == "configuration"


def test_a_branch_that_moves_back_is_followed_by_the_waiting_run() -> None:
    model = waiting()
    model.annotate(detected_revision=OTHER_SHA)
    model.settle()
    model.annotate(detected_revision=SHA)
    model.settle()
    assert model.workspace.status.current_run is not None
    assert model.workspace.status.current_run.revision == SHA


def test_permission_given_for_another_commit_is_removed_before_the_run_is_amended() -> None:
    model = waiting()
    model.annotate(execution_allowed="true", detected_revision=OTHER_SHA)
    decision = model.decide()
    assert decision.status is None
    [effect] = decision.effects
    assert getattr(effect, "annotations", None) == {EXECUTION_ALLOWED: None}
    model.settle()
    assert model.created_jobs == []
    assert model.workspace.status.reason == Reason.AWAITING_ROLLOUT


def test_a_revision_that_becomes_known_only_fills_the_gap() -> None:
    model = Cluster()
    model.add_workspace()
    assert model.workspace.status.current_run is not None
    assert model.workspace.status.current_run.revision == ""
    model.annotate(execution_allowed="true", detected_revision=SHA)
    model.settle()
    assert model.workspace.status.phase is Phase.PLANNING
    assert trigger(model)[1] == "configuration"
    assert model.workspace.status.current_run.revision == SHA


def test_an_amendment_that_crosses_the_creation_does_not_relabel_the_run() -> None:
    model = waiting()
    model.annotate(execution_allowed="true")
    model.step()
    job = model.job(JobType.PLAN)
    assert job is not None
    # A second controller with old caches amends status although the Job exists.
    run = model.workspace.status.current_run
    assert run is not None
    status = replace(model.workspace.status, current_run=replace(run, revision=OTHER_SHA))
    model.put(WORKSPACES, replace(model.workspace, status=status))
    model.settle()
    assert model.workspace.status.phase is Phase.PLANNING
    assert model.workspace.status.current_run is not None
    assert model.workspace.status.current_run.revision == SHA


# --- configuration ----------------------------------------------------------------------------------------------------


def test_a_changed_spec_starts_a_run_and_a_default_written_out_does_not() -> None:
    model = Cluster()
    model.to_applied()
    model.edit(auto_apply=True, service_account_name="magos-job", annotations={})
    model.settle()
    assert model.workspace.status.phase is Phase.APPLIED
    model.edit(service_account_name="special")
    model.settle()
    assert trigger(model) == (Phase.PENDING, "configuration")


def test_another_source_forgets_the_attempted_revision_and_ignores_the_old_commit() -> None:
    model = Cluster()
    model.to_planning()
    model.run_job_end(JobType.PLAN, failed(model, JobType.PLAN, "PlanFailed", "x"))
    model.annotate(detected_source=None, detected_revision=None)
    model.edit(source=Source(repo_url="https://git.example.com/other.git", target_revision="main"))
    model.settle()
    status = model.workspace.status
    assert status.last_attempted_revision == ""
    assert status.current_run is not None
    assert status.current_run.revision == ""


def test_a_selector_of_the_project_is_part_of_the_configuration_and_its_absence_is_not() -> None:
    model = Cluster()
    model.to_applied()
    model.remove(PROJECTS, "platform")
    model.settle()
    assert model.workspace.status.phase is Phase.APPLIED
    spec = ProjectSpec(validation=ProjectValidation(policy_selector=LabelSelector(match_labels={"tier": "gold"})))
    model.put(PROJECTS, Project(metadata=ObjectMeta(name="platform", namespace=NAMESPACE), spec=spec))
    model.settle()
    assert trigger(model) == (Phase.PENDING, "configuration")


def test_a_plan_is_not_discarded_for_a_project_that_the_cache_shows_as_it_was() -> None:
    model = Cluster()
    model.put(PROJECTS, Project(metadata=ObjectMeta(name="platform", namespace=NAMESPACE)))
    model.sync()
    model.lagging.add(PROJECTS.resource)
    spec = ProjectSpec(validation=ProjectValidation(policy_selector=LabelSelector(match_labels={"tier": "gold"})))
    project = model.get(PROJECTS, "platform")
    model.put(PROJECTS, replace(project, spec=spec))
    model.put(WORKSPACES, workspace_manifest())
    model.settle()
    for _ in range(2):  # what the server knows is seen at the start, and takes the first permission with it
        model.annotate(execution_allowed="true")
        model.settle()
    run = model.workspace.status.current_run_id
    model.run_job(JobType.PLAN, plan_result(model))
    assert (model.workspace.status.phase, model.workspace.status.current_run_id) == (Phase.APPLYING, run)


def test_a_plan_without_gate_and_permission_yields_to_a_new_commit() -> None:
    model = Cluster()
    model.to_planned()
    assert model.workspace.status.reason == Reason.AWAITING_ROLLOUT
    model.annotate(detected_revision=OTHER_SHA)
    model.settle()
    assert trigger(model) == (Phase.PENDING, "revision")
    assert "PlanDiscarded" in reasons(model.events)


def test_a_plan_that_may_be_applied_is_applied_whatever_is_newer() -> None:
    model = Cluster()
    model.to_planning()
    model.annotate(detected_revision=OTHER_SHA)
    model.run_job_end(JobType.PLAN, plan_result(model))
    assert model.workspace.status.phase is Phase.APPLYING
    model.run_job(JobType.APPLY, apply_result(model))
    assert (Phase.APPLIED, Reason.APPLY_SUCCEEDED) in model.history
    assert trigger(model) == (Phase.PENDING, "revision")
    assert model.workspace.metadata.annotations[DETECTED_REVISION] == OTHER_SHA


def test_a_spec_edit_discards_a_plan_and_takes_its_permission() -> None:
    model = Cluster()
    model.to_planned()
    model.annotate(execution_allowed="true")
    model.edit(validation=Validation())
    model.step()  # permission that names nothing goes first
    model.step()
    assert trigger(model) == (Phase.PENDING, "configuration")
    model.settle()
    assert EXECUTION_ALLOWED not in model.workspace.metadata.annotations
    assert len(model.created_jobs) == 1


def test_a_crash_leaves_no_permission_of_a_discarded_plan_whose_job_is_being_deleted() -> None:
    model = Cluster()
    job = model.to_planning()
    model.put(JOBS, replace(job, metadata=replace(job.metadata, finalizers=("foregroundDeletion",))))
    model.user_deletes(JOBS, job.metadata.name)
    model.edit(service_account_name="other")
    model.end_pod(job, encode(plan_result(model)))
    model.step()  # the result is saved
    model.crash_after = 1
    for _ in range(3):
        with suppress(Crash):
            model.step()
    model.crash_after = None
    model.settle()
    assert model.workspace.status.phase is Phase.PENDING
    assert EXECUTION_ALLOWED not in model.workspace.metadata.annotations
