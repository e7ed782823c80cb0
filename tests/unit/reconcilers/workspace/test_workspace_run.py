"""A run from Pending to Applied, as the tables of spec §6.2 tell it, on the model."""

from magos.api.annotations import EXECUTION_ALLOWED, RESULT
from magos.api.kube import JOBS, PERSISTENT_VOLUME_CLAIMS
from magos.api.labels import FINALIZER
from magos.api.meta import ObjectMeta
from magos.api.names import JobType
from magos.api.phases import Phase
from magos.api.project import PROJECTS, Project
from magos.api.reasons import Reason
from magos.api.workspace import WORKSPACES
from tests.unit.reconcilers.cluster import Cluster
from tests.unit.reconcilers.model import NAME, NAMESPACE, SHA, workspace_manifest
from tests.unit.reconcilers.results import apply_result, encode, plan_result, reasons


def test_a_run_takes_at_most_fifteen_writes_from_pending_to_applied() -> None:
    model = Cluster()
    model.put(PROJECTS, Project(metadata=ObjectMeta(name="platform", namespace=NAMESPACE)))
    model.settle(project=True)
    model.put(WORKSPACES, workspace_manifest())
    model.annotate(detected_revision=SHA)
    model.settle(project=True)
    model.step()  # the finalizer
    model.writes.clear()
    model.settle()
    assert model.history[-1] == (Phase.PENDING, Reason.AWAITING_ROLLOUT)
    model.advance(seconds=5)
    model.settle(project=True)
    model.settle()
    model.run_job(JobType.PLAN, plan_result(model))
    model.run_job(JobType.APPLY, apply_result(model))
    model.settle(project=True)
    assert model.workspace.status.phase is Phase.APPLIED
    clean_up = model.writes.pop()
    assert clean_up == "patch workspaces"
    assert EXECUTION_ALLOWED not in model.workspace.metadata.annotations
    assert len(model.writes) <= 15, model.writes
    assert model.history == [
        (Phase.PENDING, Reason.CONFIGURATION_CHANGED),
        (Phase.PENDING, Reason.AWAITING_ROLLOUT),
        (Phase.PLANNING, Reason.PLAN_JOB_CREATED),
        (Phase.PLANNING, Reason.PLANNING),
        (Phase.PLANNED, Reason.PLAN_SUCCEEDED),
        (Phase.APPLYING, Reason.APPLY_JOB_CREATED),
        (Phase.APPLYING, Reason.APPLYING),
        (Phase.APPLIED, Reason.APPLY_SUCCEEDED),
    ]
    assert reasons(model.events) == [
        "RunPending",
        "Granted",
        "PlanStarted",
        "PlanSucceeded",
        "ApplyStarted",
        "ApplySucceeded",
    ]


def test_after_the_run_the_world_is_at_rest() -> None:
    model = Cluster()
    model.to_applied()
    model.settle(project=True)
    before = model.versions
    for _ in range(3):
        model.advance(seconds=20)
        decision = model.step()
        assert decision.status is None
        assert (decision.effects, decision.queries) == ((), ())
        model.step(project=True)
    assert model.versions == before


def test_status_after_a_run_says_what_ran() -> None:
    model = Cluster()
    model.to_applied()
    workspace = model.workspace
    status = workspace.status
    assert status.observed_revision == status.last_attempted_revision == SHA
    assert status.current_run is not None
    assert status.observed_source == status.current_run.source_key
    assert status.plan_summary is not None
    assert (status.plan_summary.add, status.plan_summary.no_changes) == (1, False)
    assert status.current_run_trigger == "configuration"
    assert status.last_run_started_at is not None
    assert status.observed_generation == 1
    assert [(c.type, c.status, c.reason) for c in status.conditions] == [("Ready", "True", "ApplySucceeded")]
    assert workspace.metadata.finalizers == (FINALIZER,)
    assert workspace.metadata.annotations == {}  # the reached revision is gone as well
    assert {job.metadata.annotations.keys() >= {RESULT} for job in model.all(JOBS)} == {True}


def test_the_result_is_saved_on_the_job_before_status_acts_on_it() -> None:
    model = Cluster()
    job = model.to_planning()
    model.end_pod(job, '{"not": "readable"}')
    model.finish_jobs()
    decision = model.decide()
    assert decision.status is None
    assert decision.queries  # nothing readable: concluded from live reads only
    model.end_pod(job, encode(plan_result(model)))
    decision = model.decide()
    assert decision.status is None
    [effect] = decision.effects
    assert effect.kind is JOBS


def test_an_empty_plan_goes_from_planning_to_applied_without_an_apply_job() -> None:
    model = Cluster()
    model.to_planning()
    model.run_job_end(JobType.PLAN, plan_result(model, has_changes=False))
    status = model.workspace.status
    assert (status.phase, status.reason) == (Phase.APPLIED, Reason.NO_CHANGES)
    assert status.observed_revision == SHA
    assert model.job(JobType.APPLY) is None
    assert EXECUTION_ALLOWED not in model.workspace.metadata.annotations
    assert status.plan_summary is not None
    assert status.plan_summary.no_changes


def test_an_unknown_revision_is_pinned_as_the_runner_reports_it() -> None:
    model = Cluster()
    model.to_planning(revision="")
    assert model.workspace.status.current_run is not None
    assert model.workspace.status.current_run.revision == ""
    model.run_job_end(JobType.PLAN, plan_result(model, revision="d" * 40))
    status = model.workspace.status
    assert status.current_run is not None
    assert status.current_run.revision == status.last_attempted_revision == "d" * 40
    environment = model.created_jobs[-1].spec.template.spec.init_containers[0].env
    assert ("MAGOS_REVISION", "d" * 40) in [(each.name, each.value) for each in environment]


def test_a_missing_project_is_named_while_permission_is_awaited() -> None:
    model = Cluster()
    model.add_workspace()
    status = model.workspace.status
    assert status.reason == Reason.AWAITING_ROLLOUT
    assert "Project team-a/platform does not exist" in status.message
    assert {c.type for c in status.conditions} == {"Ready", "Reconciling"}


def test_permission_that_is_not_exactly_true_starts_nothing() -> None:
    model = Cluster()
    model.add_workspace()
    for value in ("True", "1", "yes", "", " true"):
        model.annotate(execution_allowed=value)
        model.settle()
        assert model.created_jobs == []


def test_permission_given_by_a_person_before_the_first_run_is_honoured() -> None:
    model = Cluster()
    model.put(WORKSPACES, workspace_manifest())
    model.annotate(execution_allowed="true")
    model.settle()
    assert model.workspace.status.phase is Phase.PLANNING


def test_permission_withdrawn_between_cache_and_server_creates_no_job() -> None:
    model = Cluster()
    model.add_workspace()
    model.annotate(execution_allowed="true")
    model.sync()
    model.lagging.add(WORKSPACES.resource)
    model.annotate(execution_allowed=None)
    model.step()
    assert model.created_jobs == []
    assert model.get(WORKSPACES, NAME).metadata.annotations == {}


def test_a_claim_is_created_once_and_kept() -> None:
    model = Cluster()
    model.to_applied()
    [claim] = model.all(PERSISTENT_VOLUME_CLAIMS)
    assert claim.metadata.name == "network-data"
    assert claim.spec.resources.requests == {"storage": "1Gi"}
    assert model.writes.count("create persistentvolumeclaims") == 1
