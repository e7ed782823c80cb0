"""Every reason that a Workspace can show (spec §4.4.3, §14.1, §14.2): a way to it, its condition, its Event, a hint."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from magos.api.conditions import find
from magos.api.kube import (
    JOBS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    ContainerState,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    PersistentVolumeClaim,
    Pod,
    PodCondition,
    PodStatus,
)
from magos.api.labels import WORKSPACE
from magos.api.meta import ObjectMeta
from magos.api.names import JobType
from magos.api.phases import Phase
from magos.api.project import PROJECTS, Project
from magos.api.reasons import HEALING, WORKSPACE_REASONS, Reason
from magos.api.result import Violation, ViolationAction
from magos.api.selectors import LabelSelector, LabelSelectorRequirement
from magos.api.status import NameReference
from magos.api.validatingpolicy import VALIDATING_POLICIES
from magos.api.variableset import VARIABLESETS, VariableSet, VariableSetSpec
from magos.api.workspace import WORKSPACES, Source, Validation
from magos.reconcilers.effects import JobWarning, RepositorySecretReport
from magos.reconcilers.workspace.pod.settings import WorkspaceSettings
from magos.runtime.decision import Create, EventType, QueryFailure
from tests.unit.reconcilers.cluster import Cluster
from tests.unit.reconcilers.model import NAME, NAMESPACE, OTHER_SHA, SETTINGS
from tests.unit.reconcilers.results import apply_result, failed, plan_result
from tests.unit.reconcilers.variablesets import literal

R = Reason
Way = Callable[[], Cluster]


def granted(
    prepare: Callable[[Cluster], Any] = lambda _: None, settings: WorkspaceSettings = SETTINGS, **spec: Any
) -> Cluster:
    """A Workspace whose start is judged, in a cluster that ``prepare`` has had its hands on."""
    model = Cluster(settings)
    model.put(PROJECTS, Project(metadata=ObjectMeta(name="platform", namespace=NAMESPACE)))
    prepare(model)
    model.add_workspace(**spec)
    model.annotate(execution_allowed="true")
    model.settle()
    return model


def again(cause: Callable[[Cluster], Any], *, minutes: int = 0) -> Cluster:
    """An applied Workspace to which something happens."""
    model = Cluster()
    model.put(VARIABLESETS, variables())
    model.to_applied(variable_set_ref=(NameReference(name="inputs"),))
    cause(model)
    model.advance(minutes=minutes)
    model.settle()
    return model


def variables(**status: Any) -> VariableSet:
    found = VariableSet(
        metadata=ObjectMeta(name="inputs", namespace=NAMESPACE, generation=1), spec=VariableSetSpec(variables=())
    )
    ready = replace(found.status, phase=Phase.READY, observed_generation=1)
    return replace(found, status=replace(ready, **status))


def plan(reason: str, exit_code: int = 1) -> Cluster:
    """A plan that the runner says has failed."""
    model = Cluster()
    model.to_planning()
    model.run_job_end(JobType.PLAN, failed(model, JobType.PLAN, reason, "what went wrong", exit_code))
    return model


def planned(**changes: Any) -> Cluster:
    model = Cluster()
    model.to_planning()
    model.run_job_end(JobType.PLAN, plan_result(model, **changes))
    return model


def retried(job_type: JobType) -> Cluster:
    model = Cluster()
    if job_type is JobType.PLAN:
        model.to_planning()
    else:
        model.to_applying()
    model.run_job_end(job_type, failed(model, job_type, "PlanFailed", "broken"))
    model.advance(minutes=4)
    model.settle()
    return model


def unstarted(status: PodStatus | None = None, *warnings: JobWarning) -> Cluster:
    """A plan Job of which no container has started within the limit."""
    model = granted()
    model.warnings = warnings
    job = model.job(JobType.PLAN)
    assert job is not None
    if status is not None:
        model.create_pods()
        pod = model.pod_of(job)
        assert pod is not None
        model.put(PODS, replace(pod, status=status))
    model.advance(minutes=11)
    model.settle()
    return model


def waiting(reason: str) -> PodStatus:
    state = ContainerState(waiting=ContainerStateWaiting(reason=reason, message="the kubelet's text"))
    return PodStatus(phase="Pending", init_container_statuses=(ContainerStatus(name="fetch", state=state),))


def unscheduled(message: str) -> PodStatus:
    condition = PodCondition(type="PodScheduled", status="False", reason="Unschedulable", message=message)
    return PodStatus(phase="Pending", conditions=(condition,))


def interrupted() -> Cluster:
    model = Cluster()
    job = model.to_planning()
    model.exhaust_repetitions()
    pod = model.pod_of(job)
    assert pod is not None
    ended = ContainerState(terminated=ContainerStateTerminated(exit_code=143))
    status = PodStatus(phase="Failed", init_container_statuses=(ContainerStatus(name="terraform", state=ended),))
    model.put(PODS, replace(pod, status=status))
    model.finish_jobs()
    model.settle()
    return model


def lost() -> Cluster:
    model = Cluster()
    job = model.to_planning()
    model.exhaust_repetitions()
    model.user_deletes(JOBS, job.metadata.name)
    model.settle()
    return model


def denied() -> Cluster:
    return planned(violations=(Violation("p", "no", ViolationAction.DENY),), violations_total=1)


def audited() -> Cluster:
    return planned(violations=(Violation("p", "no", ViolationAction.AUDIT),), violations_total=1)


def applied() -> Cluster:
    model = Cluster()
    model.to_applied()
    return model


def apply_failed() -> Cluster:
    model = Cluster()
    model.to_applying()
    model.run_job_end(JobType.APPLY, failed(model, JobType.APPLY, "ApplyFailed", "what went wrong"))
    return model


def unreadable() -> Cluster:
    model = Cluster()
    model.to_planning()
    model.run_job_end(JobType.PLAN, None)
    return model


def lingering(model: Cluster) -> None:
    stranger = ObjectMeta(name="old", namespace=NAMESPACE, labels={WORKSPACE: NAME})
    model.put(PODS, Pod(metadata=stranger, status=PodStatus(phase="Running")))


def foreign_claim(model: Cluster) -> None:
    meta = ObjectMeta(name=f"{NAME}-data", namespace=NAMESPACE)
    model.put(PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim(metadata=meta))


def no_policies(model: Cluster) -> None:
    model.failing_kinds[VALIDATING_POLICIES.resource] = QueryFailure(reason="Forbidden", message="may not list")


def no_jobs(model: Cluster) -> None:
    model.refusals.append((Create, JOBS.resource, 403, "Forbidden", "exceeded quota: jobs"))


def no_rights(model: Cluster) -> None:
    model.refusals.append((Create, JOBS.resource, 403, "Forbidden", 'User "u" cannot create resource "jobs"'))


def half_secret(model: Cluster) -> None:
    model.secrets = RepositorySecretReport(names=("creds",), keys=("username",))


def deleting() -> Cluster:
    model = Cluster()
    model.to_applying()
    model.user_deletes(WORKSPACES, NAME)
    model.settle()
    return model


BROKEN = LabelSelector(match_expressions=(LabelSelectorRequirement(key="a", operator="In"),))
SETS = (NameReference(name="inputs"),)

WAYS: dict[Reason, Way] = {
    R.AWAITING_ROLLOUT: lambda: again(lambda m: m.annotate(reconcile_request="r")),
    R.CONFIGURATION_CHANGED: lambda: again(lambda m: m.edit(service_account_name="other")),
    R.NEW_REVISION_DETECTED: lambda: again(lambda m: m.annotate(detected_revision=OTHER_SHA)),
    R.MANUAL_RECONCILE_REQUESTED: lambda: again(lambda m: m.annotate(reconcile_request="r")),
    R.VARIABLES_CHANGED: lambda: again(
        lambda m: m.put(VARIABLESETS, replace(variables(), spec=VariableSetSpec(variables=(literal("a", "1"),))))
    ),
    R.RETRY_PLAN: lambda: retried(JobType.PLAN),
    R.RETRY_APPLY: lambda: retried(JobType.APPLY),
    R.SCHEDULED_RECONCILE: lambda: again(lambda _: None, minutes=4),
    R.AWAITING_VARIABLES: lambda: granted(
        lambda m: m.put(VARIABLESETS, variables(observed_generation=0)), variable_set_ref=SETS
    ),
    R.PREVIOUS_RUNNER_TERMINATING: lambda: granted(lingering),
    R.PLAN_JOB_CREATED: granted,
    R.PLANNING: lambda: planned(has_changes=False),
    R.PLAN_SUCCEEDED: planned,
    R.AUDIT_POLICY_VIOLATION: audited,
    R.APPLY_JOB_CREATED: applied,
    R.APPLYING: applied,
    R.APPLY_SUCCEEDED: applied,
    R.NO_CHANGES: lambda: planned(has_changes=False),
    R.PLAN_FAILED: lambda: plan("PlanFailed"),
    R.APPLY_FAILED: apply_failed,
    R.POLICY_VIOLATION: denied,
    R.POLICY_EVALUATION_FAILED: lambda: granted(no_policies, validation=Validation(policy_selector=LabelSelector())),
    R.PLAN_MISMATCH: lambda: planned(revision=OTHER_SHA),
    R.RESULT_MISSING: unreadable,
    R.RUN_LOST: lost,
    R.INTERRUPTED: interrupted,
    R.INVALID_CONFIGURATION: lambda: plan("InvalidConfiguration", 2),
    R.VOLUME_FULL: lambda: plan("VolumeFull", 7),
    R.GIT_FAILED: lambda: plan("GitFailed", 3),
    R.GIT_AUTHENTICATION_FAILED: lambda: plan("GitAuthenticationFailed", 3),
    R.REVISION_NOT_FOUND: lambda: plan("RevisionNotFound", 3),
    R.UNKNOWN_HOST_KEY: lambda: plan("UnknownHostKey", 3),
    R.SCHEME_NOT_ALLOWED: lambda: granted(source=Source(repo_url="file:///srv/r", target_revision="main")),
    R.INVALID_REPOSITORY_SECRET: lambda: granted(half_secret),
    R.TOOL_DOWNLOAD_FAILED: lambda: plan("ToolDownloadFailed", 4),
    R.CHECKSUM_MISMATCH: lambda: plan("ChecksumMismatch", 4),
    R.SIGNATURE_INVALID: lambda: plan("SignatureInvalid", 4),
    R.UNRESOLVED_VARIABLES: lambda: granted(variable_set_ref=SETS),
    R.INVALID_POLICY_SELECTOR: lambda: granted(validation=Validation(policy_selector=BROKEN)),
    R.VOLUME_CONFLICT: lambda: granted(foreign_claim),
    R.JOB_REJECTED: lambda: granted(no_jobs),
    R.NAMESPACE_NOT_ALLOWED: lambda: granted(settings=replace(SETTINGS, refused_namespace=NAMESPACE)),
    R.SERVICE_ACCOUNT_NOT_ALLOWED: lambda: granted(lambda m: m.put_account("magos-job", None)),
    R.RECONCILE_ERROR: lambda: granted(no_rights),
    R.SERVICE_ACCOUNT_NOT_FOUND: lambda: unstarted(
        None, JobWarning(reason="FailedCreate", note='serviceaccount "magos-job" not found')
    ),
    R.IMAGE_PULL_FAILED: lambda: unstarted(waiting("ErrImagePull")),
    R.POD_UNSCHEDULABLE: lambda: unstarted(unscheduled("0/3 nodes are available")),
    R.VOLUME_UNAVAILABLE: lambda: unstarted(unscheduled("pod has unbound immediate PersistentVolumeClaims")),
    R.QUOTA_EXCEEDED: lambda: unstarted(None, JobWarning(reason="FailedCreate", note="exceeded quota: pods")),
    R.POD_CONFIG_ERROR: lambda: unstarted(waiting("CreateContainerConfigError")),
    R.JOB_START_FAILED: unstarted,
    R.DELETING: deleting,
}
"""How each reason is reached."""


def test_there_is_a_way_to_every_reason_and_to_no_other() -> None:
    assert set(WAYS) == {reason for reasons in WORKSPACE_REASONS.values() for reason in reasons}


@pytest.mark.parametrize("reason", WAYS)
def test_the_reason_is_shown(reason: Reason) -> None:
    model = WAYS[reason]()
    assert reason in {shown for _, shown in model.history}


NEXT_STEP = re.compile(
    r"\b(add|change|check|correct|create|delete|find out|look|mark|raise|read|rename|request|see|set|use|wait for it)\b"
    r"|is the variableset controller running",
    re.IGNORECASE,
)
"""Every message ends with a hint (spec §14)."""

FAILING = WORKSPACE_REASONS[Phase.FAILED] | WORKSPACE_REASONS[Phase.VALIDATION_FAILED]


@pytest.mark.parametrize("reason", sorted(FAILING))
def test_a_failure_is_in_ready_in_an_event_and_says_what_to_do(reason: Reason) -> None:
    model = WAYS[reason]()
    status = model.workspace.status
    assert status.reason == reason
    ready = find(status.conditions, "Ready")
    assert ready is not None
    assert (ready.status, ready.reason, ready.message) == ("False", reason, status.message)
    stalled = find(status.conditions, "Stalled")
    assert (stalled is None) == (reason in HEALING)
    told = [event for event in model.events if event.reason == reason and event.type is EventType.WARNING]
    assert len(told) == 1
    assert told[0].note
    assert status.message.endswith(".")
    assert NEXT_STEP.search(status.message), status.message


@pytest.mark.parametrize(
    "reason", [R.AWAITING_ROLLOUT, R.AWAITING_VARIABLES, R.PREVIOUS_RUNNER_TERMINATING, R.DELETING]
)
def test_a_wait_says_what_to_do(reason: Reason) -> None:
    message = WAYS[reason]().workspace.status.message
    assert NEXT_STEP.search(message), message


@pytest.mark.parametrize("reason", [R.AWAITING_VARIABLES, R.PREVIOUS_RUNNER_TERMINATING, R.DELETING])
def test_a_wait_that_needs_somebody_is_told_once(reason: Reason) -> None:
    model = WAYS[reason]()
    for _ in range(3):
        model.settle()
    assert model.workspace.status.reason == reason
    told = [event for event in model.events if event.reason == reason and event.type is EventType.WARNING]
    assert len(told) == 1


KSTATUS: list[tuple[Way, Phase, list[tuple[str, str]]]] = [
    (WAYS[R.AWAITING_ROLLOUT], Phase.PENDING, [("Ready", "Unknown"), ("Reconciling", "True")]),
    (granted, Phase.PLANNING, [("Ready", "Unknown"), ("Reconciling", "True")]),
    (audited, Phase.PLANNED_WITH_VIOLATIONS, [("Ready", "Unknown")]),
    (applied, Phase.APPLIED, [("Ready", "True")]),
    (WAYS[R.PLAN_FAILED], Phase.FAILED, [("Ready", "False"), ("Stalled", "True")]),
    (denied, Phase.VALIDATION_FAILED, [("Ready", "False"), ("Stalled", "True")]),
    (WAYS[R.UNRESOLVED_VARIABLES], Phase.FAILED, [("Ready", "False")]),
    (deleting, Phase.DELETING, [("Ready", "False"), ("Reconciling", "True")]),
]


@pytest.mark.parametrize(("way", "phase", "conditions"), KSTATUS)
def test_conditions_follow_phase_and_reason(way: Way, phase: Phase, conditions: list[tuple[str, str]]) -> None:
    status = way().workspace.status
    assert status.phase is phase
    shown = {(each.type, each.status) for each in status.conditions}
    assert shown == set(conditions)


def test_the_normal_events_of_a_run_with_a_gate() -> None:
    model = Cluster()
    model.to_planning(auto_apply=False)
    model.run_job_end(JobType.PLAN, plan_result(model))
    model.annotate(approved=model.workspace.status.current_run_id)
    model.settle()
    model.run_job(JobType.APPLY, apply_result(model))
    normal = [event.reason for event in model.events if event.type is EventType.NORMAL]
    assert normal == [
        "RunPending",
        "PlanStarted",
        "PlanSucceeded",
        "AwaitingApproval",
        "Approved",
        "ApplyStarted",
        "ApplySucceeded",
    ]
