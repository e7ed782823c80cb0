"""Runs whose result, Job or pod gets lost: what the Workspace says, and that nothing is applied twice afterwards.

These are the rows of the table of errors that need a cluster that misbehaves; wrong input has its own tests.
"""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from magos.api.annotations import RECONCILE_INTERVAL
from magos.api.names import JobType
from magos.api.phases import TERMINAL, Phase
from magos.api.runnerpod import Stage
from magos.api.workspace import WorkspaceStatus
from tests.e2e.beside import beside
from tests.e2e.standing import Subject

PLAN, APPLY = JobType.PLAN, JobType.APPLY
OF_ANOTHER_RUN = '{"v":1,"runID":"20200101T000000-00000000","phase":"plan","result":"Succeeded","exitCode":0}'


@pytest.mark.parametrize(
    ("left", "cause"),
    [("", "the pod left no result"), ("{", "unreadable"), (OF_ANOTHER_RUN, "belongs to the plan of run 2020")],
    ids=["none", "cut", "of another run"],
)
@beside
def test_a_plan_without_a_readable_result_is_not_applied(subject: Subject, left: str, cause: str) -> None:
    with subject.standing(PLAN, Stage.JOB) as pod:
        pod.leave_message(left)
        pod.take_message()
    status = subject.wait(Phase.FAILED).status
    assert status.reason == "ResultMissing", status.message
    assert status.message.startswith(f"Job {pod.job} ended, but ")
    assert cause in status.message
    assert status.message.endswith("request a reconcile, and check the node and the runner image.")
    assert subject.created_jobs == [pod.job]
    subject.recovers(reason="ApplySucceeded")


@beside
def test_an_apply_that_completed_counts_even_if_its_result_is_lost(subject: Subject) -> None:
    with subject.standing(APPLY, Stage.JOB) as pod:
        pod.take_message()
    status = subject.wait(Phase.APPLIED).status
    assert status.current_run is not None
    assert (status.reason, status.observed_revision) == ("ApplySucceeded", status.current_run.revision)
    assert subject.executions == [pod.run_id]
    subject.recovers(reason="NoChanges")


@beside
def test_a_plan_whose_job_and_pod_vanish_is_planned_again_without_a_tick(subject: Subject) -> None:
    with subject.standing(PLAN, Stage.TERRAFORM, annotations={RECONCILE_INTERVAL: "1h"}) as pod:
        trigger = subject.here.workspace(subject.namespace, subject.name).status.current_run_trigger
        pod.delete_job(cascade="Orphan")
        pod.vanish()
        status = _repeated(subject)
    subject.state.lock = None  # it was killed, as on a node that is gone
    assert status.message.startswith(f"Run {pod.run_id} was interrupted: its Job {pod.job} disappeared")
    assert "; attempt 2 of 4 begins in 30 s, at " in status.message
    applied = subject.wait(Phase.APPLIED).status
    assert applied.current_run_trigger == trigger
    assert applied.current_run_id != pod.run_id
    subject.is_applied_once()


@beside
def test_the_next_run_waits_for_a_pod_whose_job_was_deleted(subject: Subject) -> None:
    with subject.standing(PLAN, Stage.TERRAFORM) as pod:
        pod.delete_job(cascade="Orphan")
        _repeated(subject)
        subject.here.request(subject.namespace, subject.name)
        waiting = subject.here.wait(
            subject.namespace, subject.name, lambda w: w.status.reason == "PreviousRunnerTerminating"
        )
        assert pod.name in waiting.status.message
        assert subject.created_jobs == [pod.job]
    subject.wait(Phase.APPLIED)
    subject.is_applied_once()


@beside
def test_an_apply_whose_job_was_deleted_is_taken_by_its_pods_result(subject: Subject) -> None:
    with subject.standing(APPLY, Stage.TERRAFORM) as pod:
        pod.delete_job(cascade="Orphan")
        subject.here.wait(subject.namespace, subject.name, lambda w: "is waited for" in w.status.message)
    status = subject.wait(Phase.APPLIED).status
    assert status.reason == "ApplySucceeded", status.message
    assert subject.executions == [pod.run_id]
    subject.recovers(reason="NoChanges")


@beside
def test_an_apply_whose_job_and_pod_are_deleted_is_lost_with_its_state_saved(subject: Subject) -> None:
    with subject.standing(APPLY, Stage.TERRAFORM) as pod:
        pod.delete_job(cascade="Background")
        pod.await_interrupt()
        waiting = subject.here.workspace(subject.namespace, subject.name).status
        assert waiting.phase is Phase.APPLYING
    status = subject.wait(Phase.FAILED).status
    assert status.reason == "RunLost", status.message
    assert status.message.startswith(f"Job {pod.job} of run {pod.run_id} disappeared")
    assert "outcome of the apply is unknown; the next run plans again" in status.message
    assert status.message.endswith("Find out who deleted it. Check whether the state is still locked.")
    assert subject.executions == [pod.run_id]
    subject.recovers(reason="NoChanges")


@pytest.mark.parametrize("phase", [PLAN, APPLY])
@beside
def test_a_drained_node_interrupts_the_run(subject: Subject, phase: JobType) -> None:
    with subject.standing(phase, Stage.TERRAFORM) as pod:
        pod.evict()
        pod.await_interrupt()
    status = _repeated(subject) if phase is PLAN else subject.wait(Phase.FAILED).status
    assert status.reason == "Interrupted", status.message
    assert "EvictionByEvictionAPI: Eviction API: evicting; container terraform ended" in status.message
    assert ("outcome of the apply is unknown" in status.message) == (phase is APPLY)
    assert subject.state.lock is None
    subject.recovers(reason="ApplySucceeded" if phase is PLAN else "NoChanges")


@pytest.mark.parametrize("phase", [PLAN, APPLY])
@beside
def test_a_job_deleted_as_soon_as_it_is_seen_runs_its_tool_at_most_once(subject: Subject, phase: JobType) -> None:
    """Whether status saw the Job or not: it may be created again under its name, the tool does not run again."""
    with ThreadPoolExecutor(1) as beside:
        deleting = beside.submit(subject.delete_first_job, phase)
        subject.create()
        name = deleting.result(timeout=60)
    subject.here.wait(subject.namespace, subject.name, lambda w: w.status.phase in TERMINAL)
    assert set(Counter(subject.executions).values()) <= {1}
    assert name in subject.created_jobs
    status = subject.request().status
    assert status.phase is Phase.APPLIED, status.message
    assert subject.state.resources == ["a", "done"]
    assert subject.state.lock is None
    assert set(Counter(subject.executions).values()) == {1}


def _repeated(subject: Subject) -> WorkspaceStatus:
    """Wait until the interrupted plan is about to begin anew."""
    waiting = subject.here.wait(subject.namespace, subject.name, lambda w: w.status.reason == "Interrupted")
    assert waiting.status.phase is Phase.PENDING
    return waiting.status
