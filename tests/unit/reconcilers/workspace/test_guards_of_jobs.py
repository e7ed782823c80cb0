"""What work that may still go on is kept from: deletion, a second start, a judgement by caches that are behind.

In each test status, caches or names say that nothing is in the way; only one guard knows better.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from magos.api.annotations import RELEASED
from magos.api.kube import JOBS, PERSISTENT_VOLUME_CLAIMS, Job, PersistentVolumeClaim
from magos.api.labels import ARCHIVE_FINALIZER
from magos.api.meta import ObjectMeta, OwnerReference
from magos.api.names import JobType
from magos.api.phases import Phase
from magos.api.reasons import Reason
from magos.api.workspace import WORKSPACES, WorkspaceStatus
from magos.reconcilers.workspace.machine import reconcile
from magos.reconcilers.workspace.observation import observe
from magos.runtime.decision import Decision, Delete, Request
from tests.unit.reconcilers.cluster import Cluster
from tests.unit.reconcilers.model import NAME, NAMESPACE, ModelView
from tests.unit.reconcilers.results import apply_result, encode, plan_result


def write_status(model: Cluster, status: WorkspaceStatus) -> None:
    """Somebody else writes the status."""
    model.put(WORKSPACES, replace(model.workspace, status=status))


def outcome(model: Cluster) -> tuple[Phase | None, str]:
    return model.workspace.status.phase, model.workspace.status.reason


@pytest.mark.parametrize("forged", ["nothing", "applied", "pending"])
def test_a_reset_leaves_an_apply_that_has_not_ended_alone(forged: str) -> None:
    model = Cluster()
    job = model.to_applying()
    status = model.workspace.status
    assert status.current_run is not None
    other = replace(status.current_run, plan_job="", apply_job="")
    write_status(
        model,
        {
            "nothing": WorkspaceStatus(),
            "applied": replace(status, phase=Phase.APPLIED, current_run=other),
            "pending": replace(
                status, phase=Phase.PENDING, current_run_id="20260101T000000-00000009", current_run=other
            ),
        }[forged],
    )
    model.annotate(reconcile_request="again")
    for _ in range(3):
        model.settle()
        model.annotate(execution_allowed="true")
    assert model.get(JOBS, job.metadata.name) == job
    assert outcome(model) == (Phase.PENDING, Reason.PREVIOUS_RUNNER_TERMINATING)
    assert job.metadata.name in model.workspace.status.message


def held_by(finalizer: str) -> tuple[Cluster, Job]:
    """A Workspace whose next run waits for permission while the ended apply Job of the last is held."""
    model = Cluster()
    job = model.to_applying()
    model.put(JOBS, replace(job, metadata=replace(job.metadata, finalizers=(finalizer,))))
    model.run_job_end(JobType.APPLY, apply_result(model))
    model.annotate(reconcile_request="again", execution_allowed=None)
    model.settle()
    model.annotate(execution_allowed="true")
    model.settle()
    held = model.get(JOBS, job.metadata.name)
    assert held.ended
    assert held.metadata.deletion_timestamp is not None
    return model, held


def test_a_start_waits_until_the_jobs_of_earlier_runs_are_gone() -> None:
    model, held = held_by("example.com/holds")
    assert len(model.created_jobs) == 2
    assert outcome(model) == (Phase.PENDING, Reason.PREVIOUS_RUNNER_TERMINATING)
    assert held.metadata.name in model.workspace.status.message
    model.remove(JOBS, held.metadata.name)
    model.settle()
    assert outcome(model)[0] is Phase.PLANNING


def test_a_start_does_not_wait_for_the_archive() -> None:
    model, _ = held_by(ARCHIVE_FINALIZER)
    assert outcome(model)[0] is Phase.PLANNING


def stale_decision(model: Cluster) -> Decision:
    """What is decided on the caches as they are while they are known to be behind."""
    view = ModelView(model.cache, {}, None)
    view.stale = True
    request = Request(namespace=NAMESPACE, name=NAME)
    return reconcile(observe(request, view, model.now, model.settings, b"\0\0\0\1"))


def unclaimed(model: Cluster) -> None:
    model.to_applied()
    meta = model.workspace.metadata
    model.put(WORKSPACES, replace(model.workspace, metadata=replace(meta, finalizers=())))


def triggered(model: Cluster) -> None:
    model.to_applied()
    model.annotate(reconcile_request="again")


def ended(model: Cluster) -> None:
    job = model.to_planning()
    model.end_pod(job, encode(plan_result(model)))
    model.finish_jobs()


def deleted(model: Cluster) -> None:
    model.to_planning()
    model.user_deletes(WORKSPACES, NAME)


@pytest.mark.parametrize("situation", [unclaimed, triggered, ended, deleted])
def test_caches_that_are_behind_decide_nothing(situation: Any) -> None:
    """Read from caches that are not behind, each of these situations has a consequence."""
    model = Cluster()
    situation(model)
    model.sync()
    decision = stale_decision(model)
    assert (decision.status, decision.effects, decision.events) == (None, (), ())
    assert decision.queries != ()
    fresh = model.decide()
    assert fresh.status is not None or fresh.effects != ()


@pytest.mark.parametrize("job_type", [JobType.PLAN, JobType.APPLY])
def test_a_job_of_a_run_that_is_over_is_spared_once_a_container_of_it_has_started(job_type: JobType) -> None:
    model = Cluster()
    job = model.to_planning() if job_type is JobType.PLAN else model.to_applying()
    write_status(
        model, replace(model.workspace.status, phase=Phase.FAILED, reason=Reason.JOB_START_FAILED, message="given up")
    )
    model.annotate(execution_allowed=None)
    model.settle()
    assert model.get(JOBS, job.metadata.name) == job
    assert not [effect for effect in model.decide().effects if isinstance(effect, Delete)]
    assert outcome(model) == (Phase.FAILED, Reason.JOB_START_FAILED)


def claim_of(name: str = NAME, kind: str = "Workspace", *, controller: bool = True) -> PersistentVolumeClaim:
    """The claim under our name, of somebody else."""
    owner = OwnerReference(
        api_version=WORKSPACES.api_version, kind=kind, name=name, uid="former", controller=controller
    )
    return PersistentVolumeClaim(
        metadata=ObjectMeta(name=f"{NAME}-data", namespace=NAMESPACE, owner_references=(owner,))
    )


def test_the_claim_of_a_former_workspace_of_the_name_is_waited_for_with_a_way_out_and_never_used() -> None:
    model = Cluster()
    model.put(PERSISTENT_VOLUME_CLAIMS, claim_of())
    model.add_workspace()
    model.annotate(execution_allowed="true")
    model.settle()
    assert outcome(model) == (Phase.PENDING, Reason.PREVIOUS_RUNNER_TERMINATING)
    message = model.workspace.status.message
    assert "belongs to a former Workspace of this name (UID former)" in message
    assert f"kubectl delete pvc {NAME}-data --namespace={NAMESPACE}" in message
    assert model.created_jobs == []
    model.remove(PERSISTENT_VOLUME_CLAIMS, f"{NAME}-data")
    model.settle()
    assert model.job(JobType.PLAN) is not None


@pytest.mark.parametrize("ours", [True, False])
def test_a_plan_whose_claim_became_somebody_elses_is_kept_and_not_applied(ours: bool) -> None:
    model = Cluster()
    model.to_planned()
    kept = model.get(PERSISTENT_VOLUME_CLAIMS, f"{NAME}-data")
    model.put(PERSISTENT_VOLUME_CLAIMS, claim_of("other"))
    model.annotate(execution_allowed="true")
    model.settle()
    assert outcome(model) == (Phase.PLANNED, Reason.VOLUME_CONFLICT)
    assert model.job(JobType.APPLY) is None
    if ours:
        model.put(PERSISTENT_VOLUME_CLAIMS, kept)
        model.settle()
        assert outcome(model)[0] is Phase.APPLYING
    else:
        model.annotate(reconcile_request="again")
        model.settle()
        assert outcome(model)[0] is Phase.PENDING


def test_a_plan_whose_claim_is_gone_is_gone_with_it() -> None:
    model = Cluster()
    model.to_planned()
    model.remove(PERSISTENT_VOLUME_CLAIMS, f"{NAME}-data")
    model.annotate(execution_allowed="true")
    model.settle()
    assert outcome(model) == (Phase.FAILED, Reason.PLAN_MISMATCH)
    assert "is gone, and the plan of run" in model.workspace.status.message
    assert model.job(JobType.APPLY) is None


@pytest.mark.parametrize("claim", [claim_of(controller=False), claim_of("other"), claim_of(kind="Database")])
def test_a_claim_of_another_owner_is_not_taken(claim: PersistentVolumeClaim) -> None:
    model = Cluster()
    model.put(PERSISTENT_VOLUME_CLAIMS, claim)
    model.add_workspace()
    model.annotate(execution_allowed="true")
    model.settle()
    assert outcome(model) == (Phase.FAILED, Reason.VOLUME_CONFLICT)
    assert model.created_jobs == []


def test_a_job_that_a_person_suspends_is_not_let_go_a_second_time() -> None:
    model = Cluster()
    job = model.to_applying()
    running = model.get(JOBS, job.metadata.name)
    assert running.metadata.annotations[RELEASED] == "true"
    suspended = model.put(JOBS, replace(running, spec=replace(running.spec, suspend=True)))
    model.settle()
    assert model.get(JOBS, job.metadata.name) == suspended


def test_a_second_job_under_the_name_of_the_first_is_never_let_go() -> None:
    model = Cluster()
    first = model.get(JOBS, model.to_applying().metadata.name)
    told = {key: value for key, value in first.metadata.annotations.items() if key != RELEASED}
    meta = replace(first.metadata, uid="late", annotations=told)
    model.put(JOBS, replace(first, metadata=meta, spec=replace(first.spec, suspend=True)))
    model.settle()
    assert model.get(JOBS, first.metadata.name) is None
    assert outcome(model)[0] is Phase.APPLYING  # the pod of the first is waited for
