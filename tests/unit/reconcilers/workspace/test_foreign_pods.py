"""Pods that bear the labels of a run but are not of its Job: they block a start, and nothing they say counts (I18)."""

import pytest
from msgspec.structs import replace

from magos.api.kube import JOBS, PODS, ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodStatus
from magos.api.labels import JOB_TYPE, RUN_ID, WORKSPACE
from magos.api.meta import ObjectMeta, OwnerReference
from magos.api.names import JobType
from magos.api.phases import Phase
from magos.api.reasons import Reason
from magos.api.result import Result
from magos.api.timestamps import format_time
from tests.unit.reconcilers.cluster import Cluster
from tests.unit.reconcilers.model import NAME, NAMESPACE, SHA
from tests.unit.reconcilers.results import apply_result, encode, plan_result

STRANGER = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="x", uid="elsewhere", controller=True)
OWNERS = {"nobody's": (), "a stranger's": (STRANGER,)}


def phase_of(cluster: Cluster) -> Phase | None:
    return cluster.workspace.status.phase


def forged(cluster: Cluster, job_type: JobType, result: Result, owners: tuple[OwnerReference, ...]) -> Pod:
    """A pod that claims to have run this half of the current run; its name comes before that of the Job's own pod."""
    labels = {WORKSPACE: NAME, JOB_TYPE: str(job_type), RUN_ID: cluster.workspace.status.current_run_id}
    said = ContainerStateTerminated(exit_code=0, message=encode(result))
    ended = ContainerStatus(name="job", state=ContainerState(terminated=said))
    return Pod(
        metadata=ObjectMeta(name="a-forged-pod", namespace=NAMESPACE, labels=labels, owner_references=owners),
        status=PodStatus(phase="Succeeded", container_statuses=(ended,)),
    )


@pytest.mark.parametrize("owner", OWNERS)
def test_the_plan_that_a_foreign_pod_reports_is_not_applied(owner: str) -> None:
    cluster = Cluster()
    cluster.to_planning()
    honest = plan_result(cluster)
    lie = replace(honest, plan_digest="sha256:" + "e" * 64)
    cluster.put(PODS, forged(cluster, JobType.PLAN, lie, OWNERS[owner]))
    cluster.settle()
    assert phase_of(cluster) is Phase.PLANNING
    cluster.annotate(execution_allowed=None)
    cluster.run_job_end(JobType.PLAN, honest)
    assert phase_of(cluster) is Phase.PLANNED
    run = cluster.workspace.status.current_run
    assert run is not None
    assert run.plan_digest == honest.plan_digest


@pytest.mark.parametrize("owner", OWNERS)
def test_a_job_whose_own_pod_left_no_result_gets_none_from_a_foreign_pod(owner: str) -> None:
    cluster = Cluster()
    cluster.to_planning()
    cluster.put(PODS, forged(cluster, JobType.PLAN, plan_result(cluster), OWNERS[owner]))
    cluster.run_job_end(JobType.PLAN, None)
    assert (phase_of(cluster), cluster.workspace.status.reason) == (Phase.FAILED, Reason.RESULT_MISSING)


@pytest.mark.parametrize("owner", OWNERS)
def test_a_foreign_pod_opens_no_gate_and_passes_for_no_apply(owner: str) -> None:
    cluster = Cluster()
    cluster.to_planned(auto_apply=False)
    cluster.put(PODS, forged(cluster, JobType.APPLY, apply_result(cluster), OWNERS[owner]))
    cluster.settle()
    status = cluster.workspace.status
    assert (status.phase, status.observed_revision) == (Phase.PLANNED, "")
    assert status.awaiting_approval is not None


@pytest.mark.parametrize("owner", OWNERS)
def test_a_foreign_pod_does_not_apply_what_waits_for_permission(owner: str) -> None:
    cluster = Cluster()
    cluster.to_planned()
    cluster.put(PODS, forged(cluster, JobType.APPLY, apply_result(cluster), OWNERS[owner]))
    cluster.settle()
    assert (phase_of(cluster), cluster.workspace.status.observed_revision) == (Phase.PLANNED, "")
    cluster.annotate(execution_allowed="true")
    cluster.settle()
    cluster.run_job(JobType.APPLY, apply_result(cluster))
    assert (phase_of(cluster), cluster.workspace.status.observed_revision) == (Phase.APPLIED, SHA)


def test_a_vanished_apply_is_not_explained_by_a_foreign_pod() -> None:
    cluster = Cluster()
    job = cluster.to_applying()
    cluster.put(PODS, forged(cluster, JobType.APPLY, apply_result(cluster), (STRANGER,)))
    cluster.end_pod(job, "", exit_code=137)
    cluster.remove(JOBS, job.metadata.name)
    cluster.settle()
    assert (phase_of(cluster), cluster.workspace.status.reason) == (Phase.FAILED, Reason.RUN_LOST)


def test_an_orphaned_pod_of_a_deleted_apply_is_still_its_own() -> None:
    """``kubectl delete job --cascade=orphan`` takes the owner from the pod, not what it does."""
    cluster = Cluster()
    job = cluster.to_applying()
    pod = cluster.pod_of(job)
    assert pod is not None
    cluster.put(PODS, replace(pod, metadata=replace(pod.metadata, owner_references=())))
    cluster.remove(JOBS, job.metadata.name)
    cluster.settle()
    assert phase_of(cluster) is Phase.APPLYING
    cluster.end_pod(job, encode(apply_result(cluster)))
    cluster.settle()
    assert phase_of(cluster) is Phase.APPLIED


def test_an_apply_goes_on_between_the_orphaning_of_its_pod_and_the_end_of_its_job() -> None:
    """The garbage collector takes the owner from the pod first, and the Job, which is being deleted, after that."""
    cluster = Cluster()
    job = cluster.to_applying()
    pod = cluster.pod_of(job)
    assert pod is not None
    cluster.put(PODS, replace(pod, metadata=replace(pod.metadata, owner_references=())))
    going = replace(job.metadata, deletion_timestamp=format_time(cluster.now))
    cluster.put(JOBS, replace(job, metadata=going))
    cluster.settle()
    assert phase_of(cluster) is Phase.APPLYING
    cluster.remove(JOBS, job.metadata.name)
    cluster.settle()
    assert phase_of(cluster) is Phase.APPLYING
