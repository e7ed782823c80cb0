"""Deletion of a Workspace (spec §6.2.10)."""

import pytest
from msgspec.structs import replace

from magos.api.kube import JOBS, PODS, Job, PodCondition, PodStatus
from magos.api.names import JobType
from magos.api.phases import Phase
from magos.api.reasons import Reason
from magos.api.workspace import WORKSPACES
from magos.reconcilers.effects import JobWarning
from magos.runtime.decision import Delete
from tests.unit.reconcilers.cluster import Cluster
from tests.unit.reconcilers.model import NAME
from tests.unit.reconcilers.results import apply_result, encode, plan_result


def gone(model: Cluster) -> bool:
    return model.get(WORKSPACES, NAME) is None


def test_a_waiting_an_applied_and_a_gated_workspace_go_at_once() -> None:
    for auto_apply in (True, False):
        model = Cluster()
        model.to_planning(auto_apply=auto_apply)
        model.run_job_end(JobType.PLAN, plan_result(model, has_changes=not auto_apply))
        model.user_deletes(WORKSPACES, NAME)
        model.settle()
        assert gone(model)
    waiting = Cluster()
    waiting.add_workspace()
    waiting.user_deletes(WORKSPACES, NAME)
    waiting.settle()
    assert gone(waiting)


def test_a_running_plan_is_cancelled_and_its_pod_waited_for() -> None:
    model = Cluster()
    job = model.to_planning()
    model.user_deletes(WORKSPACES, NAME)
    model.settle()
    assert model.get(JOBS, job.metadata.name) is None
    assert (model.workspace.status.phase, model.workspace.status.reason) == (Phase.DELETING, Reason.DELETING)
    pod = model.pod_of(job)
    assert pod is not None
    assert pod.metadata.name in model.workspace.status.message
    model.end_pod(job, "", exit_code=143)
    model.settle()
    assert gone(model)


def test_a_cancellation_that_is_refused_is_told_and_tried_again_a_minute_later() -> None:
    model = Cluster()
    job = model.to_planning()
    model.refusals.append((Delete, JOBS.resource, 403, "Forbidden", "webhook says no"))
    model.user_deletes(WORKSPACES, NAME)
    model.settle()
    assert "webhook says no. Check the rights" in model.workspace.status.message
    again = model.decide().requeue_at
    assert again is not None
    assert (again - model.now).total_seconds() == 60
    model.refusals.clear()
    model.now = again
    model.settle()
    assert model.get(JOBS, job.metadata.name) is None
    model.end_pod(job, "", exit_code=143)
    model.settle()
    assert gone(model)


def test_a_running_apply_is_waited_for_and_says_so() -> None:
    model = Cluster()
    job = model.to_applying()
    model.user_deletes(WORKSPACES, NAME)
    model.settle()
    assert model.get(JOBS, job.metadata.name) is not None
    assert job.metadata.name in model.workspace.status.message
    assert "force-delete" in model.workspace.status.message
    before = model.versions
    model.advance(minutes=30)
    model.step()
    assert model.versions == before
    model.end_pod(job, encode(apply_result(model)))
    model.finish_jobs()
    model.settle()
    assert gone(model)


def unstarted_apply(pod: PodStatus | None) -> tuple[Cluster, Job]:
    """A Workspace that is deleted while no container of its apply has started."""
    model = Cluster()
    model.to_planning()
    model.run_job_end(JobType.PLAN, plan_result(model))
    job = model.job(JobType.APPLY)
    assert job is not None
    if pod is not None:
        model.create_pods()
        found = model.pod_of(job)
        assert found is not None
        model.put(PODS, replace(found, status=pod))
    model.user_deletes(WORKSPACES, NAME)
    model.settle()
    return model, job


UNSCHEDULED = PodStatus(
    phase="Pending",
    conditions=(PodCondition(type="PodScheduled", status="False", reason="Unschedulable", message="0/3 nodes fit"),),
)
NO_ROOM = JobWarning(reason="FailedCreate", note='pods "x" is forbidden: exceeded quota: compute')


@pytest.mark.parametrize(
    ("pod", "warnings", "cause"),
    [
        (None, (NO_ROOM,), "exceeded quota: compute"),
        (UNSCHEDULED, (), "0/3 nodes fit"),
        (PodStatus(phase="Pending"), (), "has reported no container"),
    ],
)
def test_an_apply_that_never_started_is_told_with_its_cause_and_given_up_after_the_start_limit(
    pod: PodStatus | None, warnings: tuple[JobWarning, ...], cause: str
) -> None:
    model, job = unstarted_apply(pod)
    model.warnings = warnings
    assert model.workspace.status.phase is Phase.DELETING
    model.advance(seconds=61)
    model.settle()
    message = model.workspace.status.message
    assert job.metadata.name in message
    assert cause in message
    assert "force-delete" in message
    again = model.decide().requeue_at
    assert again is not None
    assert (again - model.now).total_seconds() <= 15
    model.advance(minutes=8)
    model.settle()
    assert model.get(JOBS, job.metadata.name) is not None
    model.advance(minutes=1)
    model.settle()
    assert model.get(JOBS, job.metadata.name) is None
    for left in model.all(PODS):
        model.remove(PODS, left.metadata.name)  # no node has it
    model.settle()
    assert gone(model)


@pytest.mark.parametrize("lagging", [False, True])
def test_an_apply_that_started_late_is_waited_for_also_if_only_the_server_knows(lagging: bool) -> None:
    model, job = unstarted_apply(PodStatus(phase="Pending"))
    model.sync()
    if lagging:
        model.lagging.add(PODS.resource)
    model.start(job)
    model.advance(minutes=30)
    for _ in range(4):
        model.step()
    assert model.get(JOBS, job.metadata.name) is not None
    assert not gone(model)


def test_a_refused_deletion_of_an_apply_that_never_started_does_not_loop() -> None:
    model, _ = unstarted_apply(None)
    model.refusals.append((Delete, JOBS.resource, 403, "Forbidden", "webhook says no"))
    model.advance(minutes=11)
    model.settle()
    assert "webhook says no" in model.workspace.status.message
    again = model.decide().requeue_at
    assert again is not None
    assert (again - model.now).total_seconds() == 60
    model.refusals.clear()
    model.now = again
    model.settle()
    assert gone(model)


def test_an_unstarted_apply_that_status_does_not_name_is_given_up_too() -> None:
    model, job = unstarted_apply(None)
    status = model.workspace.status
    model.put(WORKSPACES, replace(model.workspace, status=replace(status, current_run=None)))
    model.advance(minutes=11)
    model.settle()
    assert model.get(JOBS, job.metadata.name) is None
    assert gone(model)


def test_force_delete_does_not_wait() -> None:
    model = Cluster()
    model.to_applying()
    model.annotate(force_delete="true")
    model.user_deletes(WORKSPACES, NAME)
    model.settle()
    assert gone(model)
    assert model.all(PODS)[0].metadata.deletion_timestamp is not None


def test_an_apply_that_only_the_server_knows_keeps_the_finalizer() -> None:
    model = Cluster()
    model.to_planned()
    model.annotate(execution_allowed="true")
    model.sync()
    stale = {key: dict(value) for key, value in model.cache.items()}
    model.settle()
    assert model.job(JobType.APPLY) is not None
    model.user_deletes(WORKSPACES, NAME)
    model.cache[JOBS.resource] = stale[JOBS.resource]
    model.lagging.add(JOBS.resource)
    for _ in range(4):
        model.step()
    assert not gone(model)


def test_nothing_starts_while_deleting() -> None:
    model = Cluster()
    job = model.to_applying()
    model.user_deletes(WORKSPACES, NAME)
    model.annotate(reconcile_request="r", execution_allowed="true", detected_revision="d" * 40)
    model.settle()
    assert len(model.created_jobs) == 2
    assert model.get(JOBS, job.metadata.name) is not None


def test_a_workspace_without_our_finalizer_is_left_alone() -> None:
    model = Cluster()
    model.add_workspace()
    model.user_deletes(WORKSPACES, NAME)
    workspace = model.workspace
    model.put(WORKSPACES, replace(workspace, metadata=replace(workspace.metadata, finalizers=("other",))))
    decision = model.decide()
    assert decision.status is None
    assert decision.effects == ()
