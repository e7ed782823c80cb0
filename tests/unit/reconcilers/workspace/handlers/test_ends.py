"""Every row of spec §6.2.7 and §6.2.9: how a plan and how an apply end."""

from typing import Any

import pytest
from msgspec.structs import replace

from magos.api.annotations import DETECTED_REVISION, RESULT
from magos.api.kube import (
    JOBS,
    PODS,
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    JobStatus,
    ObservedContainer,
    ObservedPodSpec,
    PodCondition,
    PodStatus,
    Resources,
)
from magos.api.names import JobType
from magos.api.phases import Phase
from magos.api.reasons import Reason
from magos.api.result import Violation, ViolationAction
from magos.api.timestamps import format_time
from magos.api.workspace import WORKSPACES, GateReason, Workspace
from tests.unit.reconcilers.cluster import Cluster
from tests.unit.reconcilers.model import LATER_SHA, OTHER_SHA, SHA
from tests.unit.reconcilers.results import apply_result, encode, failed, plan_result, reasons


def outcome(model: Cluster) -> tuple[Phase | None, str]:
    status = model.workspace.status
    return status.phase, status.reason


REPEATED = (Phase.PENDING, Reason.INTERRUPTED)
"""Where a Workspace is whose plan begins anew by itself."""


def ready(workspace: Workspace) -> str:
    return next(c.status for c in workspace.status.conditions if c.type == "Ready")


# --- plan -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("PlanFailed", Reason.PLAN_FAILED),
        ("GitAuthenticationFailed", Reason.GIT_AUTHENTICATION_FAILED),
        ("ToolDownloadFailed", Reason.TOOL_DOWNLOAD_FAILED),
        ("InvalidConfiguration", Reason.INVALID_CONFIGURATION),
        ("SomethingNobodyKnows", Reason.PLAN_FAILED),
        ("Applied", Reason.PLAN_FAILED),
    ],
)
def test_a_failed_plan_gives_the_runners_reason(reason: str, expected: Reason) -> None:
    model = Cluster()
    model.to_planning()
    model.run_job_end(JobType.PLAN, failed(model, JobType.PLAN, reason, "Error: no such thing"))
    assert outcome(model) == (Phase.FAILED, expected)
    assert model.workspace.status.message.startswith("Error: no such thing.")
    assert expected in reasons(model.events)
    assert model.workspace.metadata.annotations.get(DETECTED_REVISION) == SHA  # failed runs keep it
    assert {c.type for c in model.workspace.status.conditions} == {"Ready", "Stalled"}


def test_a_plan_over_its_deadline_says_so() -> None:
    model = Cluster()
    job = model.to_planning()
    model.end_pod(job, "", exit_code=143)
    model.end_job(job, "Failed", "DeadlineExceeded", "Job was active longer than specified deadline")
    model.settle()
    assert outcome(model) == (Phase.FAILED, Reason.PLAN_FAILED)
    assert model.workspace.status.message.startswith("DeadlineExceeded: Job was active longer than specified deadline")


def test_the_deadline_says_more_than_the_runner_that_it_interrupted() -> None:
    model = Cluster()
    job = model.to_planning()
    result = failed(model, JobType.PLAN, "Interrupted", "terraform was stopped", exit_code=143)
    model.end_pod(job, encode(result), exit_code=143)
    model.end_job(job, "Failed", "DeadlineExceeded", "too long")
    model.settle()
    assert outcome(model) == (Phase.FAILED, Reason.PLAN_FAILED)
    assert model.workspace.status.message.startswith("DeadlineExceeded: too long")


def stage_ends(model: Cluster, **terminated: Any) -> None:
    """The terraform stage ends badly, and with it the pod."""
    job = model.job(JobType.PLAN)
    assert job is not None
    pod = model.pod_of(job)
    assert pod is not None
    ended = ContainerStatus(name="terraform", state=ContainerState(terminated=ContainerStateTerminated(**terminated)))
    model.put(PODS, replace(pod, status=PodStatus(phase="Failed", init_container_statuses=(ended,))))
    model.finish_jobs()
    model.settle()


def test_a_stage_out_of_memory_is_named() -> None:
    model = Cluster()
    model.to_planning()
    stage_ends(model, exit_code=137, reason="OOMKilled")
    assert outcome(model) == (Phase.FAILED, Reason.PLAN_FAILED)
    assert model.workspace.status.message.startswith("OOMKilled: container terraform")


def test_a_stage_out_of_memory_is_told_with_the_limit_it_had_and_where_to_raise_it() -> None:
    model = Cluster()
    job = model.to_planning()
    pod = model.pod_of(job)
    assert pod is not None
    stage = ObservedContainer(name="terraform", resources=Resources(limits={"memory": "3Gi"}))
    model.put(PODS, replace(pod, spec=ObservedPodSpec(init_containers=(stage,))))
    stage_ends(model, exit_code=137, reason="OOMKilled")
    message = model.workspace.status.message
    assert "container terraform exceeded its memory limit of 3Gi (exit code 137)" in message
    assert "stageResources.terraform of the file of MAGOS_JOB_POD_CONFIG" in message


@pytest.mark.parametrize(
    ("said", "named", "field"),
    [
        ('Usage of EmptyDir volume "work" exceeds the limit "10Gi". ', '"10Gi"', "Raise volumeSizes.work in"),
        (
            'Usage of EmptyDir volume "mine" exceeds the limit "1Gi". ',
            '"mine"',
            "sizeLimit of the volume mine in",
        ),
        (
            'Container terraform exceeded its local ephemeral storage limit "2Gi". ',
            '"2Gi"',
            "Raise limits.ephemeral-storage in stageResources.terraform in",
        ),
        (
            "Pod ephemeral local storage usage exceeds the total limit of containers 5Gi. ",
            "5Gi",
            "Raise limits.ephemeral-storage in stageResources in",
        ),
    ],
)
@pytest.mark.parametrize("by_condition", [False, True])
def test_a_pod_that_wrote_more_than_it_may_is_told_by_volume_limit_and_field(
    said: str, named: str, field: str, by_condition: bool
) -> None:
    model = Cluster()
    job = model.to_planning()
    pod = model.pod_of(job)
    assert pod is not None
    condition = PodCondition(type="DisruptionTarget", status="True", reason="TerminationByKubelet", message=said)
    status = (
        PodStatus(phase="Failed", conditions=(condition,))
        if by_condition
        else PodStatus(phase="Failed", reason="Evicted", message=said)
    )
    model.put(PODS, replace(pod, status=status))
    model.finish_jobs()
    model.settle()
    message = model.workspace.status.message
    assert named in message
    assert f"{field} the file of MAGOS_JOB_POD_CONFIG, or let the module write less." in message


def test_a_node_that_is_full_blames_no_limit() -> None:
    said = "The node was low on resource: ephemeral-storage. Container terraform was using 5Gi, request is 0. "
    model = Cluster()
    job = model.to_planning()
    pod = model.pod_of(job)
    assert pod is not None
    model.put(PODS, replace(pod, status=PodStatus(phase="Failed", reason="Evicted", message=said)))
    model.finish_jobs()
    model.settle()
    assert "Raise" not in model.workspace.status.message


def test_a_stage_that_was_asked_to_stop_is_interrupted() -> None:
    model = Cluster()
    model.to_planning()
    stage_ends(model, exit_code=143, reason="Error")
    assert outcome(model) == REPEATED


def deleted_while_running(model: Cluster, job_type: JobType, message: str = "", **terminated: Any) -> None:
    """Somebody deletes the pod: its stage ends, the Job controller counts it and lets it go; the Job has not ended."""
    job = model.job(job_type)
    assert job is not None
    pod = model.pod_of(job)
    assert pod is not None
    going = replace(pod.metadata, deletion_timestamp=format_time(model.now))
    stage = ContainerStatus(name="terraform", state=ContainerState(terminated=ContainerStateTerminated(**terminated)))
    said = ContainerStateTerminated(exit_code=143, message=message)
    status = PodStatus(
        phase="Failed",
        init_container_statuses=(stage,),
        container_statuses=(ContainerStatus(name="job", state=ContainerState(terminated=said)),) if message else (),
    )
    model.put(PODS, replace(pod, metadata=going, status=status))
    model.settle()
    model.remove(PODS, pod.metadata.name)
    model.settle()
    assert outcome(model) in ((Phase.PLANNING, Reason.PLANNING), (Phase.APPLYING, Reason.APPLYING))


@pytest.mark.parametrize(
    ("terminated", "text"),
    [
        ({"exit_code": 143, "reason": "Error"}, "container terraform ended with exit code 143: it was asked to stop"),
        ({"exit_code": 137, "reason": "Error"}, "container terraform ended with exit code 137: pod "),
        ({"exit_code": 0}, "pod "),
    ],
)
@pytest.mark.parametrize("job_type", [JobType.PLAN, JobType.APPLY])
def test_a_deleted_pod_interrupts_the_run_although_it_is_gone_before_the_job_ends(
    job_type: JobType, terminated: dict[str, Any], text: str
) -> None:
    model = Cluster()
    job = model.to_planning() if job_type is JobType.PLAN else model.to_applying()
    deleted_while_running(model, job_type, **terminated)
    model.end_job(job, "Failed", "BackoffLimitExceeded")
    model.settle()
    assert outcome(model) == (REPEATED if job_type is JobType.PLAN else (Phase.FAILED, Reason.INTERRUPTED))
    message = model.workspace.status.message
    assert f"Interrupted: {text}" in message
    assert message.count("The outcome of the apply is unknown") == int(job_type is JobType.APPLY)


def test_what_the_runner_said_before_its_pod_was_deleted_counts() -> None:
    model = Cluster()
    job = model.to_planning()
    said = failed(model, JobType.PLAN, "Interrupted", "the job stage was asked to stop", exit_code=143)
    deleted_while_running(model, JobType.PLAN, encode(said), exit_code=0)
    model.end_job(job, "Failed", "BackoffLimitExceeded")
    model.settle()
    assert outcome(model) == REPEATED
    assert " was interrupted: the job stage was asked to stop; attempt 2 of 4 " in model.workspace.status.message


@pytest.mark.parametrize("exit_code", [137, 143])
def test_a_deadline_that_deletes_the_pod_says_more_than_the_deletion(exit_code: int) -> None:
    model = Cluster()
    job = model.to_planning()
    deleted_while_running(model, JobType.PLAN, exit_code=exit_code, reason="Error")
    model.end_job(job, "Failed", "DeadlineExceeded", "too long")
    model.settle()
    assert outcome(model) == (Phase.FAILED, Reason.PLAN_FAILED)
    assert model.workspace.status.message.startswith("DeadlineExceeded: too long")


def test_an_apply_that_its_deadline_interrupted_has_an_unknown_outcome() -> None:
    model = Cluster()
    job = model.to_applying()
    deleted_while_running(model, JobType.APPLY, exit_code=143, reason="Error")
    model.end_job(job, "Failed", "DeadlineExceeded", "too long")
    model.settle()
    assert outcome(model) == (Phase.FAILED, Reason.APPLY_FAILED)
    assert model.workspace.status.message.startswith("DeadlineExceeded: too long. The outcome of the apply is unknown")


def test_memory_that_ran_out_in_a_deleted_pod_is_told() -> None:
    model = Cluster()
    job = model.to_planning()
    deleted_while_running(model, JobType.PLAN, exit_code=137, reason="OOMKilled")
    model.end_job(job, "Failed", "BackoffLimitExceeded")
    model.settle()
    assert outcome(model) == (Phase.FAILED, Reason.PLAN_FAILED)
    assert model.workspace.status.message.startswith("OOMKilled: container terraform")


def test_a_drain_is_an_interruption() -> None:
    model = Cluster()
    job = model.to_planning()
    pod = model.pod_of(job)
    assert pod is not None
    drained = PodCondition(
        type="DisruptionTarget", status="True", reason="EvictionByEvictionAPI", message="Eviction API: evicting"
    )
    model.put(PODS, replace(pod, status=PodStatus(phase="Failed", conditions=(drained,))))
    model.finish_jobs()
    model.settle()
    assert outcome(model) == REPEATED
    assert " was interrupted: EvictionByEvictionAPI: Eviction API: evicting;" in model.workspace.status.message


@pytest.mark.parametrize(
    "status",
    [
        PodStatus(phase="Failed", reason="Evicted", message="the node was low on memory"),
        PodStatus(
            phase="Failed",
            conditions=(PodCondition(type="DisruptionTarget", status="True", reason="Evicted", message="drain"),),
        ),
    ],
)
def test_an_evicted_plan_is_not_a_broken_module(status: PodStatus) -> None:
    model = Cluster()
    job = model.to_planning()
    pod = model.pod_of(job)
    assert pod is not None
    model.put(PODS, replace(pod, status=status))
    model.finish_jobs()
    model.settle()
    assert outcome(model) == REPEATED
    assert " was interrupted: Evicted: " in model.workspace.status.message


def test_counters_end_nothing_only_conditions_do() -> None:
    model = Cluster()
    job = model.to_planning()
    model.put(JOBS, replace(model.get(JOBS, job.metadata.name), status=JobStatus(failed=1, active=1)))
    model.settle()
    assert outcome(model) == (Phase.PLANNING, Reason.PLANNING)


@pytest.mark.parametrize("message", ["", "not json", '{"v":2}', '{"v":1,"result":"Succeeded"}'])
def test_a_complete_plan_without_readable_result_is_not_applied(message: str) -> None:
    model = Cluster()
    job = model.to_planning()
    model.end_pod(job, message)
    model.finish_jobs()
    model.settle()
    assert outcome(model) == (Phase.FAILED, Reason.RESULT_MISSING)
    assert model.job(JobType.APPLY) is None


@pytest.mark.parametrize("forged", [{"run_id": "20250101T000000-00000000"}, {"phase": JobType.APPLY}])
def test_a_result_of_another_run_or_phase_does_not_count(forged: dict[str, Any]) -> None:
    model = Cluster()
    model.to_planning()
    model.run_job_end(JobType.PLAN, plan_result(model, **forged))
    assert outcome(model) == (Phase.FAILED, Reason.RESULT_MISSING)


@pytest.mark.parametrize("missing", [{"plan_digest": ""}, {"revision": ""}])
def test_a_plan_without_digest_or_revision_is_not_applied(missing: dict[str, Any]) -> None:
    model = Cluster()
    model.to_planning(revision="")
    model.run_job_end(JobType.PLAN, plan_result(model, **missing))
    assert outcome(model) == (Phase.FAILED, Reason.RESULT_MISSING)
    assert model.job(JobType.APPLY) is None


def test_a_plan_of_another_revision_is_a_mismatch() -> None:
    model = Cluster()
    model.to_planning()
    model.run_job_end(JobType.PLAN, plan_result(model, revision=OTHER_SHA))
    assert outcome(model) == (Phase.FAILED, Reason.PLAN_MISMATCH)
    assert SHA in model.workspace.status.message
    assert OTHER_SHA in model.workspace.status.message


def test_the_result_outlives_the_pod() -> None:
    model = Cluster()
    job = model.to_planning()
    model.end_pod(job, encode(plan_result(model)))
    model.finish_jobs()
    model.step()
    assert RESULT in model.get(JOBS, job.metadata.name).metadata.annotations
    model.remove(PODS, f"{job.metadata.name}-pod")
    model.step()
    assert outcome(model) == (Phase.PLANNED, Reason.PLAN_SUCCEEDED)


@pytest.mark.parametrize("action", [ViolationAction.DENY, ViolationAction.WARN])
def test_blocking_violations_fail_the_validation_whatever_the_exit_code(action: ViolationAction) -> None:
    model = Cluster()
    model.to_planning()
    violation = Violation(policy="no-public", message="bucket is public", action=action)
    model.run_job_end(JobType.PLAN, plan_result(model, violations=(violation,), violations_total=3))
    assert outcome(model) == (Phase.VALIDATION_FAILED, Reason.POLICY_VIOLATION)
    assert model.workspace.status.message.startswith("3 violations: no-public: bucket is public. ")
    assert len(model.workspace.status.policy_violations) == 1
    assert model.job(JobType.APPLY) is None


def test_a_policy_violation_reported_by_the_runner_fails_the_validation() -> None:
    model = Cluster()
    model.to_planning()
    violation = Violation(policy="p", message="m", action=ViolationAction.DENY)
    result = failed(model, JobType.PLAN, "PolicyViolation", "1 policy", exit_code=5)
    model.run_job_end(JobType.PLAN, replace(result, violations=(violation,), violations_total=1))
    assert outcome(model) == (Phase.VALIDATION_FAILED, Reason.POLICY_VIOLATION)


def test_the_message_of_a_rejected_plan_counts_only_what_blocks() -> None:
    model = Cluster()
    model.to_planning()
    denied = Violation(policy="d", message="no", action=ViolationAction.DENY)
    audited = Violation(policy="a", message="hm", action=ViolationAction.AUDIT)
    model.run_job_end(JobType.PLAN, plan_result(model, violations=(denied, audited), violations_total=9))
    assert model.workspace.status.message.startswith("1 violation: d: no; a: hm. ")


def test_audit_violations_close_the_gate_also_under_auto_apply() -> None:
    model = Cluster()
    model.to_planning()
    violation = Violation(policy="p", message="m", action=ViolationAction.AUDIT)
    model.run_job_end(JobType.PLAN, plan_result(model, violations=(violation,), violations_total=1))
    assert outcome(model) == (Phase.PLANNED_WITH_VIOLATIONS, Reason.AUDIT_POLICY_VIOLATION)
    waiting = model.workspace.status.awaiting_approval
    assert waiting is not None
    assert waiting.reason is GateReason.AUDIT_VIOLATIONS
    assert [(c.type, c.status) for c in model.workspace.status.conditions] == [("Ready", "Unknown")]


def test_audit_violations_of_an_empty_plan_stay_listed() -> None:
    model = Cluster()
    model.to_planning()
    violation = Violation(policy="p", message="m", action=ViolationAction.AUDIT)
    model.run_job_end(JobType.PLAN, plan_result(model, has_changes=False, violations=(violation,)))
    assert outcome(model) == (Phase.APPLIED, Reason.NO_CHANGES)
    assert len(model.workspace.status.policy_violations) == 1


def test_a_spec_edit_during_the_plan_discards_it() -> None:
    model = Cluster()
    model.to_planning()
    first = model.workspace.status.current_run_id
    model.edit(service_account_name="other")
    model.settle()
    assert model.workspace.status.current_run_id == first  # nothing is triggered while it runs
    assert model.workspace.status.observed_generation == 1  # status speaks about what is planned
    model.run_job_end(JobType.PLAN, plan_result(model))
    status = model.workspace.status
    assert status.observed_generation == 2
    assert (status.phase, status.reason) == (Phase.PENDING, Reason.AWAITING_ROLLOUT)
    assert status.current_run_id != first
    assert status.current_run_trigger == "configuration"
    assert status.plan_summary is None
    assert "PlanDiscarded" in reasons(model.events)
    assert model.all(JOBS) == []


@pytest.mark.parametrize("good", [True, False])
def test_the_end_of_a_run_is_no_word_about_a_spec_that_was_edited_meanwhile(good: bool) -> None:
    """Whoever waits for Ready after an edit must not take the former spec's end for it (F82)."""
    model = Cluster()
    job = model.to_applying()
    model.edit(service_account_name="other")
    model.settle()
    result = apply_result(model) if good else failed(model, JobType.APPLY, "ApplyFailed", "no")
    model.end_pod(job, encode(result), exit_code=result.exit_code)
    model.finish_jobs()
    model.step()  # the result is saved
    model.step()
    status = model.workspace.status
    assert status.phase is (Phase.APPLIED if good else Phase.FAILED)
    assert (status.observed_generation, {c.observed_generation for c in status.conditions}) == (1, {1})
    model.settle()
    assert (model.workspace.status.phase, model.workspace.status.observed_generation) == (Phase.PENDING, 2)


def test_an_edit_that_says_the_same_is_spoken_of_at_once() -> None:
    model = Cluster()
    model.to_applying()
    found = model.workspace
    model.put(WORKSPACES, replace(found, metadata=replace(found.metadata, generation=2)))  # a default written out
    model.settle()
    assert model.workspace.status.observed_generation == 2


def test_a_plan_job_that_vanishes_is_a_lost_run() -> None:
    model = Cluster()
    job = model.to_planning()
    model.exhaust_repetitions()
    model.remove(JOBS, job.metadata.name)
    model.settle()
    assert outcome(model) == (Phase.FAILED, Reason.RUN_LOST)
    assert job.metadata.name in model.workspace.status.message


def test_a_plan_job_that_only_the_cache_lacks_is_not_lost() -> None:
    model = Cluster()
    model.to_planning()
    model.cache[JOBS.resource] = {}
    model.lagging.add(JOBS.resource)
    model.step()
    assert outcome(model) == (Phase.PLANNING, Reason.PLANNING)


def test_the_next_run_of_a_lost_one_waits_for_its_pod() -> None:
    model = Cluster()
    job = model.to_planning()
    model.remove(JOBS, job.metadata.name)
    model.settle()
    pod = model.pod_of(job)
    assert pod is not None
    assert not pod.ended
    model.annotate(reconcile_request="again")
    model.settle()
    model.annotate(execution_allowed="true")
    model.settle()
    assert outcome(model) == (Phase.PENDING, Reason.PREVIOUS_RUNNER_TERMINATING)
    assert pod.metadata.name in model.workspace.status.message
    model.end_pod(job, "")
    model.settle()
    assert outcome(model) == (Phase.PLANNING, Reason.PLAN_JOB_CREATED)


# --- apply ------------------------------------------------------------------------------------------------------------


def test_a_complete_apply_is_applied_even_without_readable_result() -> None:
    model = Cluster()
    job = model.to_applying()
    model.end_pod(job, "")
    model.finish_jobs()
    model.settle()
    assert outcome(model) == (Phase.APPLIED, Reason.APPLY_SUCCEEDED)
    assert model.workspace.status.observed_revision == SHA


@pytest.mark.parametrize(
    ("reason", "expected"),
    [("ApplyFailed", Reason.APPLY_FAILED), ("PlanMismatch", Reason.PLAN_MISMATCH), ("Nonsense", Reason.APPLY_FAILED)],
)
def test_a_failed_apply_gives_the_runners_reason_and_is_not_repeated(reason: str, expected: Reason) -> None:
    model = Cluster()
    model.to_applying()
    model.run_job_end(JobType.APPLY, failed(model, JobType.APPLY, reason, "Error: quota"))
    assert outcome(model) == (Phase.FAILED, expected)
    assert model.workspace.status.observed_revision == ""
    model.annotate(execution_allowed="true")
    model.settle()
    assert len(model.created_jobs) == 2


def test_an_apply_that_died_silently_says_that_its_outcome_is_unknown() -> None:
    model = Cluster()
    job = model.to_applying()
    model.end_pod(job, "", exit_code=137)
    model.finish_jobs()
    model.settle()
    assert outcome(model) == (Phase.FAILED, Reason.APPLY_FAILED)
    assert "outcome of the apply is unknown" in model.workspace.status.message


def test_a_vanished_apply_waits_for_its_pod_and_takes_its_result() -> None:
    model = Cluster()
    job = model.to_applying()
    pod = model.pod_of(job)
    assert pod is not None
    model.state[JOBS.resource].clear()  # orphaned: the pod goes on
    model.settle()
    assert model.workspace.status.phase is Phase.APPLYING
    assert pod.metadata.name in model.workspace.status.message
    model.end_pod(job, encode(apply_result(model)))
    model.settle()
    assert outcome(model) == (Phase.APPLIED, Reason.APPLY_SUCCEEDED)


def test_a_vanished_apply_without_result_is_lost_and_its_outcome_unknown() -> None:
    model = Cluster()
    job = model.to_applying()
    model.state[JOBS.resource].clear()
    model.end_pod(job, "")
    model.settle()
    assert outcome(model) == (Phase.FAILED, Reason.RUN_LOST)
    assert "outcome of the apply is unknown" in model.workspace.status.message


def test_revocation_edits_commits_and_requests_do_not_touch_a_running_apply() -> None:
    model = Cluster()
    model.to_applying()
    model.annotate(execution_allowed=None, detected_revision=LATER_SHA, reconcile_request="now")
    model.edit(auto_apply=False)
    model.settle()
    assert outcome(model) == (Phase.APPLYING, Reason.APPLYING)
    assert len(model.all(JOBS)) == 2
    model.run_job_end(JobType.APPLY, apply_result(model))
    assert model.history[-3] == (Phase.APPLIED, Reason.APPLY_SUCCEEDED)
    status = model.workspace.status
    assert status.phase is Phase.PENDING  # everything that came meanwhile is served by one run of its own
    assert status.current_run is not None
    assert (status.current_run.revision, status.current_run.request) == (LATER_SHA, "now")
    assert status.current_run_trigger == "configuration"
    assert status.observed_revision == SHA


def test_the_served_request_is_consumed_and_a_newer_one_is_not() -> None:
    model = Cluster()
    model.to_planning()
    model.run_job_end(JobType.PLAN, failed(model, JobType.PLAN, "PlanFailed", "x"))
    model.annotate(reconcile_request="one")
    model.settle()
    model.annotate(execution_allowed="true")
    model.settle()
    assert model.workspace.status.current_run_trigger == "manual"
    model.run_job(JobType.PLAN, plan_result(model, has_changes=False))
    assert model.workspace.status.last_handled_reconcile_request == "one"
    assert "magosproject.io/reconcile-request" not in model.workspace.metadata.annotations
    model.annotate(reconcile_request="two")
    model.settle()
    assert model.workspace.status.current_run_trigger == "manual"
    assert model.workspace.metadata.annotations["magosproject.io/reconcile-request"] == "two"
    assert ready(model.workspace) == "Unknown"
