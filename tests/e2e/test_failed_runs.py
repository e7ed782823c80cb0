"""Runs that fail for a reason of their own: a deadline that ends them, a state that nobody takes."""

import pytest

from magos.api.names import JobType
from magos.api.phases import Phase
from magos.api.runnerpod import Stage
from tests.e2e.beside import beside
from tests.e2e.standing import Subject

PLAN, APPLY = JobType.PLAN, JobType.APPLY


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
    subject.recovers(reason="ApplySucceeded" if phase is PLAN else "NoChanges")


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
    subject.recovers(reason="NoChanges")
