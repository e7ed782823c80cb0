"""Jobs that are there for the archive alone are in nobody's way, and those that may still work are (invariant I1)."""

from msgspec.structs import replace

from magos.api.kube import JOBS, PODS, Job, Pod, PodStatus
from magos.api.labels import ARCHIVE_FINALIZER, FINALIZER, FOREGROUND, RUN_ID
from magos.api.meta import ObjectMeta, OwnerReference
from magos.api.names import JobType
from magos.api.reasons import Reason
from magos.api.workspace import WORKSPACES
from magos.reconcilers.archive.keeping import Keeping
from magos.reconcilers.workspace.handlers.reset import delete_job
from magos.runtime.decision import Delete, Propagation
from tests.unit.reconcilers.cluster import Cluster
from tests.unit.reconcilers.model import NAME, NAMESPACE, SETTINGS
from tests.unit.reconcilers.results import plan_result

KEPT = replace(SETTINGS, keeping=Keeping(records=True, logs=True, namespace="magos-system"))
EARLIER = "20250101T000000-00000001"


def deleted_job(model: Cluster, run_id: str, name: str, *, finalizers: tuple[str, ...] = (ARCHIVE_FINALIZER,)) -> Job:
    """A Job of ours that was deleted before it ended."""
    owner = OwnerReference(
        api_version=WORKSPACES.api_version,
        kind=WORKSPACES.name,
        name=NAME,
        uid=model.workspace.metadata.uid,
        controller=True,
    )
    labels = {"magosproject.io/workspace": NAME, "magosproject.io/job-type": "plan", RUN_ID: run_id}
    meta = ObjectMeta(
        name=name,
        namespace=NAMESPACE,
        labels=labels,
        owner_references=(owner,),
        finalizers=finalizers,
        deletion_timestamp="2026-01-01T00:00:00Z",
    )
    found: Job = model.put(JOBS, Job(metadata=meta))
    return found


def waiting_to_start(run_id: str = EARLIER, *, finalizers: tuple[str, ...] = (ARCHIVE_FINALIZER,)) -> Cluster:
    """A Workspace that may start, while a deleted Job of an earlier run is there."""
    model = Cluster(KEPT)
    model.add_workspace()
    model.settle()
    deleted_job(model, run_id, "network-plan-earlier", finalizers=finalizers)
    return model


def start(model: Cluster) -> tuple[int, str]:
    model.annotate(execution_allowed="true")
    model.settle()
    return len(model.created_jobs), model.workspace.status.reason


def test_a_deleted_job_that_waits_for_the_archive_holds_up_no_start() -> None:
    created, _ = start(waiting_to_start())
    assert created == 1


def test_a_deleted_job_that_others_hold_or_that_is_still_being_stopped_does() -> None:
    for finalizers in (("example.com/holds",), (ARCHIVE_FINALIZER, FOREGROUND)):
        assert start(waiting_to_start(finalizers=finalizers)) == (0, Reason.PREVIOUS_RUNNER_TERMINATING)


def test_a_job_whose_pod_works_is_in_the_way_whatever_it_waits_for() -> None:
    model = waiting_to_start()
    job = model.get(JOBS, "network-plan-earlier")
    owner = OwnerReference(api_version="batch/v1", kind="Job", name=job.metadata.name, uid=job.metadata.uid)
    meta = ObjectMeta(
        name="pod",
        namespace=NAMESPACE,
        labels=job.metadata.labels,
        owner_references=(replace(owner, controller=True),),
    )
    model.put(PODS, Pod(metadata=meta, status=PodStatus(phase="Running")))
    created, reason = start(model)
    assert (created, reason) == (0, Reason.PREVIOUS_RUNNER_TERMINATING)
    assert model.workspace.status.message.startswith(f"Run {model.workspace.status.current_run_id} waits: Job ")


def test_a_job_under_the_name_of_the_next_one_is_waited_for() -> None:
    model = Cluster(KEPT)
    model.to_planning(auto_apply=False)
    model.run_job_end(JobType.PLAN, plan_result(model))
    run = model.workspace.status.current_run_id
    deleted_job(model, run, "network-apply-late")
    model.annotate(approved=run, execution_allowed="true")
    model.settle()
    assert len(model.created_jobs) == 1
    assert "Job network-apply-late" in model.workspace.status.message


def test_a_deletion_does_not_wait_for_the_archive() -> None:
    model = waiting_to_start()
    meta = replace(model.workspace.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    model.put(WORKSPACES, replace(model.workspace, metadata=meta))
    model.settle()
    found = model.get(WORKSPACES, NAME)
    assert found is None or FINALIZER not in found.metadata.finalizers


def test_jobs_that_work_are_stopped_before_they_wait_and_those_that_ended_keep_their_pod() -> None:
    model = Cluster(KEPT)
    working = model.to_planning()
    assert working.metadata.finalizers == (ARCHIVE_FINALIZER,)
    assert _how(working) is Propagation.FOREGROUND
    assert _how(replace(working, metadata=replace(working.metadata, finalizers=()))) is Propagation.BACKGROUND
    model.run_job_end(JobType.PLAN, plan_result(model))
    ended = model.get(JOBS, working.metadata.name)
    assert _how(ended) is Propagation.BACKGROUND


def _how(job: Job) -> Propagation:
    effect = delete_job(job)
    assert isinstance(effect, Delete)
    return effect.propagation
