"""A Job keeps its finalizer for as long as somebody needs it, and not longer."""

from typing import Any

import pytest

from magos.api.annotations import RELEASED
from magos.api.kube import JOBS, PODS, Job, JobCondition, JobStatus, ObservedJobSpec, Pod, PodStatus
from magos.api.labels import ARCHIVE_FINALIZER, JOB_TYPE, RUN_ID
from magos.api.meta import ObjectMeta, OwnerReference
from magos.api.names import JobType
from magos.api.phases import Phase
from magos.api.status import NameReference
from magos.api.workspace import WORKSPACES, Source, Terraform, Workspace, WorkspaceSpec, WorkspaceStatus
from magos.reconcilers.archive.jobs import Due, JobTask, judge, release
from magos.reconcilers.archive.keeping import Archived, Keeping, Loss
from magos.runtime.decision import Delete, EventType, RemoveFinalizer

KEPT = Keeping(records=True, logs=True)
RUN = "20260101T000000-00000001"
GONE = "2026-01-01T00:00:00Z"


def job(job_type: JobType = JobType.PLAN, *, ended: bool = True, held: bool = False, **meta: Any) -> Job:
    owner = OwnerReference(
        api_version=WORKSPACES.api_version, kind="Workspace", name="network", uid="ws", controller=True
    )
    fields: dict[str, Any] = {"finalizers": (ARCHIVE_FINALIZER,), "annotations": {}, **meta}
    return Job(
        metadata=ObjectMeta(
            name="network-plan-1",
            namespace="team-a",
            uid="job",
            resource_version="7",
            labels={JOB_TYPE: str(job_type), RUN_ID: RUN},
            owner_references=(owner,),
            **fields,
        ),
        spec=ObservedJobSpec(suspend=True if held else None),
        status=JobStatus(conditions=(JobCondition(type="Complete", status="True"),) if ended else ()),
    )


def workspace(phase: Phase, *, run: str = RUN, uid: str = "ws") -> Workspace:
    return Workspace(
        metadata=ObjectMeta(name="network", namespace="team-a", uid=uid),
        spec=WorkspaceSpec(
            project_ref=NameReference(name="platform"),
            source=Source(repo_url="https://git.example.com/a.git", target_revision="main"),
            terraform=Terraform(version="1.9.8"),
        ),
        status=WorkspaceStatus(phase=phase, current_run_id=run),
    )


def pod(phase: str) -> Pod:
    return Pod(metadata=ObjectMeta(name="pod", namespace="team-a", uid="pod"), status=PodStatus(phase=phase))


def due(item: Job, pods: tuple[Pod, ...], owner: Workspace | None) -> Due:
    found = judge(item, pods, owner, KEPT)
    assert found is not None
    return found.due


@pytest.mark.parametrize(
    ("job_type", "phase", "expected"),
    [
        (JobType.PLAN, Phase.PENDING, Due.BEGINNING),
        (JobType.PLAN, Phase.PLANNING, Due.BEGINNING),
        (JobType.PLAN, Phase.PLANNED, Due.ALL),
        (JobType.PLAN, Phase.DELETING, Due.ALL),
        (JobType.APPLY, Phase.PLANNED, Due.BEGINNING),
        (JobType.APPLY, Phase.APPLYING, Due.BEGINNING),
        (JobType.APPLY, Phase.FAILED, Due.ALL),
    ],
)
def test_a_job_is_due_when_the_workspace_has_acted_on_its_end(job_type: JobType, phase: Phase, expected: Due) -> None:
    assert due(job(job_type), (), workspace(phase)) is expected
    assert due(job(job_type), (), workspace(phase, run="20260101T000000-00000002")) is Due.ALL
    assert due(job(job_type), (), workspace(phase, uid="another")) is Due.ALL
    assert due(job(job_type), (), None) is Due.ALL


def test_a_job_that_works_is_not_due_and_one_without_the_finalizer_is_nobodys() -> None:
    assert due(job(ended=False), (pod("Running"),), workspace(Phase.APPLIED)) is Due.BEGINNING
    assert judge(job(finalizers=("example.com/theirs",)), (), None, KEPT) is None


def test_a_deleted_job_is_due_when_its_pods_have_ended() -> None:
    going = job(JobType.APPLY, ended=False, deletion_timestamp=GONE)
    assert due(going, (pod("Running"),), workspace(Phase.APPLYING)) is Due.BEGINNING
    assert due(going, (pod("Succeeded"),), None) is Due.ALL


@pytest.mark.parametrize(
    ("job_type", "owner", "effects"),
    [
        (JobType.PLAN, workspace(Phase.PLANNING), 1),
        (JobType.APPLY, workspace(Phase.APPLYING), 0),
        (JobType.APPLY, workspace(Phase.DELETING), 0),
        (JobType.APPLY, None, 1),
    ],
)
def test_a_deleted_plan_is_stopped_and_an_apply_only_if_its_workspace_is_gone(
    job_type: JobType, owner: Workspace | None, effects: int
) -> None:
    task = judge(job(job_type, ended=False, deletion_timestamp=GONE), (pod("Running"),), owner, KEPT)
    assert task is not None
    decision = release(task, None, None)
    assert len(decision.effects) == effects
    assert all(isinstance(each, Delete) and each.kind is PODS for each in decision.effects)


def test_a_held_apply_job_that_is_deleted_goes_at_once() -> None:
    assert due(job(JobType.APPLY, ended=False, held=True, deletion_timestamp=GONE), (), None) is Due.NOTHING
    let_go = job(JobType.APPLY, ended=False, held=True, deletion_timestamp=GONE, annotations={RELEASED: "true"})
    assert due(let_go, (), None) is Due.ALL


def released(archived: Archived | None, *, keeping: Keeping = KEPT) -> tuple[Any, ...]:
    task = judge(job(), (), None, keeping)
    assert isinstance(task, JobTask)
    decision = release(task, archived, None)
    return decision.effects, decision.events


def test_a_job_is_released_only_once_it_is_archived() -> None:
    assert released(None) == ((), ())
    effects, events = released(Archived())
    assert effects == (
        RemoveFinalizer(
            kind=JOBS, namespace="team-a", name="network-plan-1", resource_version="7", finalizer=ARCHIVE_FINALIZER
        ),
    )
    assert events == ()


def test_what_is_given_up_is_told_unless_there_was_nothing() -> None:
    _, events = released(Archived(loss=Loss.POD_GONE, note="why"))
    assert [(each.reason, each.type, each.note) for each in events] == [("ArchiveGivenUp", EventType.WARNING, "why")]
    assert released(Archived(loss=Loss.NEVER_STARTED, note="why"))[1] == ()


def test_where_nothing_is_kept_any_more_no_job_is_held() -> None:
    assert len(released(None, keeping=Keeping())[0]) == 1
