"""Runs that fail for a reason of their own: a deadline that ends them, a state that nobody takes."""

from collections import Counter
from collections.abc import Iterator

import pytest

from magos.api.names import JobType
from magos.api.phases import Phase
from magos.runner.status import Stage
from tests.e2e.beside import Running, beside, running_beside
from tests.e2e.onemachine import OneMachine
from tests.e2e.standing import Subject

PLAN, APPLY = JobType.PLAN, JobType.APPLY


@pytest.fixture(scope="module")
def running(here: OneMachine, request: pytest.FixtureRequest) -> Iterator[Running]:
    with running_beside(here, request) as started:
        yield started


def recovers(subject: Subject, *, reason: str) -> None:
    status = subject.request().status
    assert (status.phase, status.reason) == (Phase.APPLIED, reason), status.message
    assert subject.state.resources == ["a", "done"]
    assert subject.state.lock is None
    assert len(subject.executions) == 1, "something was applied twice"
    assert set(Counter(subject.created_jobs).values()) == {1}


@pytest.mark.parametrize("phase", [PLAN, APPLY])
@beside
def test_a_deadline_ends_the_run_gracefully_and_is_named(subject: Subject, phase: JobType) -> None:
    with subject.standing(phase, Stage.TERRAFORM) as pod:
        pod.shorten_deadline(1)
        pod.await_interrupt()
    status = subject.wait(Phase.FAILED).status
    assert status.reason == ("PlanFailed" if phase is PLAN else "ApplyFailed"), status.message
    assert status.message.startswith("DeadlineExceeded: Job was active longer than specified deadline.")
    assert ("outcome of the apply is unknown; the next run plans again" in status.message) == (phase is APPLY)
    assert f"Read the {phase} log" in status.message
    assert subject.state.lock is None
    recovers(subject, reason="ApplySucceeded" if phase is PLAN else "NoChanges")


@beside
def test_a_state_that_the_backend_refuses_is_told_and_handed_over_by_the_next_run(subject: Subject) -> None:
    subject.state.refuse_writes = True
    subject.create()
    status = subject.wait(Phase.FAILED).status
    assert status.reason == "ApplyFailed", status.message
    assert f"/workspace-data/unsaved-state/{status.current_run_id}.tfstate" in status.message
    assert "the next run hands it over" in status.message
    refused = subject.request().status
    assert (refused.reason, refused.phase) == ("PlanFailed", Phase.FAILED)
    assert "nothing was planned" in refused.message
    subject.state.refuse_writes = False
    recovers(subject, reason="NoChanges")
