"""SIGTERM and SIGKILL in every stage of plan and apply, through pods: what the Workspace says, and how it goes on.

SIGTERM comes from the deletion of the pod, SIGKILL from the kernel. Whatever is stopped, nothing is applied twice, no
finished resource is missing from the state, and the next run says who holds a lock, or succeeds.
"""

import signal

import pytest

from magos.api.names import JobType
from magos.api.phases import Phase
from magos.api.runnerpod import Stage
from magos.api.workspace import Workspace
from tests.e2e.beside import beside
from tests.e2e.standing import Subject

PLAN, APPLY = JobType.PLAN, JobType.APPLY
STAGES = [*((PLAN, stage) for stage in Stage), *((APPLY, stage) for stage in Stage if stage is not Stage.RENDER)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "SIGKILL"])
@pytest.mark.parametrize(("phase", "stage"), STAGES, ids=[f"{phase}-{stage}" for phase, stage in STAGES])
@beside
def test_a_run_stopped_in_any_stage_says_so_and_the_next_one_succeeds(
    subject: Subject, phase: JobType, stage: Stage, number: signal.Signals
) -> None:
    with subject.standing(phase, stage) as pod:
        pod.stop(stage, number)
    if phase is PLAN and number is signal.SIGTERM:
        told = subject.here.wait(subject.namespace, subject.name, lambda w: w.status.reason == "Interrupted").status
        assert (told.phase, told.current_run_id != pod.run_id) == (Phase.PENDING, True)
        assert f"container {stage} ended with exit code 143" in told.message
    else:
        failed = subject.wait(Phase.FAILED)
        says_what_happened(failed, phase, stage, number)
        assert failed.status.current_run_id == pod.run_id
    began = phase is APPLY and stage is not Stage.FETCH
    assert subject.executions == ([pod.run_id] if began else [])
    assert subject.state.resources == (["a", "done"] if began else []), "a finished resource is missing from the state"
    if number is signal.SIGTERM:
        assert subject.state.lock is None
        assert subject.state.counts["locked"] == subject.state.counts["unlocked"]
    recovers(subject, reason="NoChanges" if began else "ApplySucceeded")


def says_what_happened(failed: Workspace, phase: JobType, stage: Stage, number: signal.Signals) -> None:
    status = failed.status
    general = "PlanFailed" if phase is PLAN else "ApplyFailed"
    assert status.reason == ("Interrupted" if number is signal.SIGTERM else general), status.message
    code = 143 if number is signal.SIGTERM else 137
    assert f"container {stage} ended with exit code {code}" in status.message
    assert f"Read the {phase} log" in status.message
    if phase is APPLY:
        assert "outcome of the apply is unknown; the next run plans again" in status.message
        assert "Check whether the state is still locked." in status.message
    ready = next(condition for condition in status.conditions if condition.type == "Ready")
    assert (ready.status, ready.reason, ready.message) == ("False", status.reason, status.message)


def recovers(subject: Subject, *, reason: str) -> None:
    """The next run succeeds; a lock that a killed run left is named and removed by a person first."""
    orphan = subject.state.lock
    if orphan is not None:
        told = subject.request().status
        assert told.reason == "PlanFailed"
        assert orphan["ID"] in told.message
        assert orphan["Who"] in told.message
        subject.state.lock = None
    subject.recovers(reason=reason)


@beside
def test_a_grace_that_is_over_ends_the_stage_however_long_it_would_wait(subject: Subject) -> None:
    with subject.standing(APPLY, Stage.TERRAFORM) as pod:
        pod.delete(grace_seconds=2)
        failed = subject.wait(Phase.FAILED)
    assert failed.status.reason == "Interrupted", failed.status.message
    assert f"ended with exit code 137: pod {pod.name} was deleted" in failed.status.message
    assert subject.executions == [pod.run_id]
    recovers(subject, reason="NoChanges")
