"""A status that another version, or another hand, has written: it is worked with, never stumbled over (I17)."""

import pytest
from msgspec.structs import replace

from magos.api.conditions import find
from magos.api.names import JobType
from magos.api.phases import Phase
from magos.api.triggers import Trigger
from magos.api.workspace import WORKSPACES
from tests.unit.reconcilers.cluster import Cluster
from tests.unit.reconcilers.model import SHA
from tests.unit.reconcilers.results import apply_result, plan_result

FOREIGN = ("ApprovalExpired", "", "not a word", "x" * 2000)


def write(cluster: Cluster, **fields: object) -> None:
    """Somebody writes the Workspace's status."""
    found = cluster.workspace
    cluster.put(WORKSPACES, replace(found, status=replace(found.status, **fields)))


@pytest.mark.parametrize("reason", FOREIGN)
def test_a_reason_that_is_not_ours_stops_no_run(reason: str) -> None:
    """As after a downgrade: every phase goes on from where it is."""
    cluster = Cluster()
    cluster.add_workspace(auto_apply=False)
    cluster.annotate(detected_revision=SHA)
    for phase in (Phase.PENDING, Phase.PLANNING, Phase.PLANNED, Phase.APPLYING, Phase.APPLIED):
        assert cluster.workspace.status.phase is phase
        write(cluster, reason=reason)
        cluster.step()
        ready = find(cluster.workspace.status.conditions, "Ready")
        assert ready is not None
        assert ready.reason == cluster.workspace.status.reason != ""
        _next(cluster, phase)


def _next(cluster: Cluster, phase: Phase) -> None:
    match phase:
        case Phase.PENDING:
            cluster.annotate(execution_allowed="true")
            cluster.settle()
            cluster.create_pods()
            job = cluster.job(JobType.PLAN)
            assert job is not None
            cluster.start(job)
            cluster.settle()
        case Phase.PLANNING:
            cluster.run_job_end(JobType.PLAN, plan_result(cluster))
        case Phase.PLANNED:
            cluster.annotate(approved=cluster.workspace.status.current_run_id)
            cluster.settle()
            cluster.create_pods()
            cluster.settle()
        case Phase.APPLYING:
            cluster.run_job_end(JobType.APPLY, apply_result(cluster))
        case _:
            cluster.settle()


@pytest.mark.parametrize("phase", [Phase.FAILED, Phase.VALIDATION_FAILED])
@pytest.mark.parametrize("reason", FOREIGN)
def test_a_failure_whose_reason_is_not_ours_is_retried_on_the_tick(phase: Phase, reason: str) -> None:
    cluster = Cluster()
    cluster.to_applied()
    write(cluster, phase=phase, reason=reason)
    cluster.settle()
    assert cluster.workspace.status.phase is phase
    cluster.advance(minutes=3)
    cluster.settle()
    assert (cluster.workspace.status.phase, cluster.workspace.status.current_run_trigger) == (
        Phase.PENDING,
        Trigger.RETRY,
    )


@pytest.mark.parametrize("phase", [Phase.READY, Phase.RECONCILING, Phase.IDLE, Phase.DELETING])
def test_a_phase_that_no_workspace_can_be_in_begins_a_run_whose_trigger_nobody_knows(phase: Phase) -> None:
    cluster = Cluster()
    cluster.to_applied()
    before = cluster.workspace.status.current_run_id
    write(cluster, phase=phase)
    cluster.settle()
    status = cluster.workspace.status
    assert (status.phase, status.current_run_trigger) == (Phase.PENDING, Trigger.UNKNOWN)
    assert status.current_run_id != before
