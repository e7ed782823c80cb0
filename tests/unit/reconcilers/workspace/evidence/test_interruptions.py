"""What counts as ended by infrastructure, and what does not."""

from typing import Any

import pytest

from magos.api.kube import (
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    Job,
    JobCondition,
    JobStatus,
    Pod,
    PodCondition,
    PodStatus,
)
from magos.api.meta import ObjectMeta
from magos.api.names import JobType
from magos.api.reasons import Reason
from magos.api.result import Outcome, Result
from magos.reconcilers.workspace.evidence.interruptions import interrupted
from magos.reconcilers.workspace.evidence.results import Evidence
from magos.reconcilers.workspace.evidence.situations import JobEnded, JobMissing

NOTHING = Evidence(result=None, problem="its pod is gone")


def job(condition: str = "Failed", reason: str = "BackoffLimitExceeded") -> Job:
    ended = JobCondition(type=condition, status="True", reason=reason)
    return Job(metadata=ObjectMeta(name="j"), status=JobStatus(conditions=(ended,) if condition else ()))


def pod(*, deleted: bool = False, **status: Any) -> Pod:
    meta = ObjectMeta(name="p", deletion_timestamp="2026-01-01T00:00:00Z" if deleted else None)
    return Pod(metadata=meta, status=PodStatus(phase="Failed", **status))


def ended(code: int, reason: str = "Error") -> tuple[ContainerStatus, ...]:
    state = ContainerState(terminated=ContainerStateTerminated(exit_code=code, reason=reason))
    return (ContainerStatus(name="terraform", state=state),)


def said(reason: str) -> Evidence:
    result = Result(run_id="", phase=JobType.PLAN, result=Outcome.FAILED, exit_code=1, reason=reason)
    return Evidence(result=result)


def disrupted(reason: str) -> PodCondition:
    return PodCondition(type="DisruptionTarget", status="True", reason=reason)


DISRUPTIONS = (
    "PreemptionByScheduler",
    "DeletionByTaintManager",
    "EvictionByEvictionAPI",
    "DeletionByPodGC",
    "TerminationByKubelet",
)
POD_REASONS = ("Evicted", "NodeLost", "NodeShutdown", "Terminated", "Preempting", "OutOfcpu", "NodeAffinity")


@pytest.mark.parametrize("reason", DISRUPTIONS)
def test_every_disruption_is_one(reason: str) -> None:
    assert interrupted(JobEnded(job=job(), pods=(pod(conditions=(disrupted(reason),)),)), NOTHING)


@pytest.mark.parametrize("reason", POD_REASONS)
def test_what_a_node_ends_or_does_not_take_is_one(reason: str) -> None:
    assert interrupted(JobEnded(job=job(), pods=(pod(reason=reason),)), NOTHING)


@pytest.mark.parametrize(
    ("code", "reason", "deleted"),
    [(143, "Error", False), (143, "Error", True), (137, "Error", True), (137, "ContainerStatusUnknown", False)],
)
def test_a_stage_that_was_taken_away_is_one(code: int, reason: str, *, deleted: bool) -> None:
    stopped = pod(deleted=deleted, init_container_statuses=ended(code, reason))
    assert interrupted(JobEnded(job=job(), pods=(stopped,)), NOTHING)


@pytest.mark.parametrize("condition", ["Failed", "Complete"])
def test_a_pod_that_is_gone_without_a_word_is_one(condition: str) -> None:
    assert interrupted(JobEnded(job=job(condition), pods=()), NOTHING)


def test_a_job_that_is_gone_is_one() -> None:
    assert interrupted(JobMissing(pods=()), NOTHING)


def test_a_runner_that_was_asked_to_stop_is_one() -> None:
    assert interrupted(JobEnded(job=job(), pods=()), said(Reason.INTERRUPTED))


@pytest.mark.parametrize("evidence", [NOTHING, said(Reason.INTERRUPTED)])
@pytest.mark.parametrize("pods", [(), (pod(deleted=True, init_container_statuses=ended(143)),)])
def test_a_deadline_is_none_however_the_pod_ended(evidence: Evidence, pods: tuple[Pod, ...]) -> None:
    assert not interrupted(JobEnded(job=job(reason="DeadlineExceeded"), pods=pods), evidence)


@pytest.mark.parametrize("deleted", [False, True])
def test_exhausted_memory_is_none(*, deleted: bool) -> None:
    stopped = pod(deleted=deleted, init_container_statuses=ended(137, "OOMKilled"))
    assert not interrupted(JobEnded(job=job(), pods=(stopped,)), NOTHING)


@pytest.mark.parametrize(("code", "reason"), [(1, "Error"), (137, "Error"), (128, "StartError")])
def test_a_stage_that_failed_by_itself_is_none(code: int, reason: str) -> None:
    failed = pod(init_container_statuses=ended(code, reason))
    assert not interrupted(JobEnded(job=job(), pods=(failed,)), NOTHING)


@pytest.mark.parametrize("reason", [Reason.PLAN_FAILED, Reason.GIT_FAILED, Reason.POLICY_VIOLATION])
def test_what_the_runner_says_went_wrong_is_none_whatever_became_of_the_pod(reason: Reason) -> None:
    taken = pod(deleted=True, conditions=(disrupted("EvictionByEvictionAPI"),))
    assert not interrupted(JobEnded(job=job(), pods=(taken,)), said(reason))


def test_a_complete_job_whose_pod_left_something_unreadable_is_none() -> None:
    assert not interrupted(JobEnded(job=job("Complete"), pods=(pod(),)), NOTHING)
