"""The checks of spec §6.2.6 in their order, the start problems of §6.2.9, and what the API server refuses."""

from typing import Any

import pytest
from msgspec.structs import replace

from magos.api.annotations import EXECUTION_ALLOWED
from magos.api.kube import (
    JOBS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    ContainerState,
    ContainerStateWaiting,
    ContainerStatus,
    Job,
    PersistentVolumeClaim,
    Pod,
    PodCondition,
    PodStatus,
)
from magos.api.labels import WORKSPACE
from magos.api.meta import ObjectMeta, OwnerReference
from magos.api.names import JobType
from magos.api.phases import Phase
from magos.api.project import PROJECTS, Project
from magos.api.reasons import Reason
from magos.api.selectors import LabelSelector, LabelSelectorRequirement
from magos.api.tool import Distribution
from magos.api.workspace import WORKSPACES, Source, Terraform, Validation
from magos.reconcilers.effects import JobWarning, RepositorySecretReport, RepositorySecrets
from magos.reconcilers.workspace.handlers.starting.admission import scheme_of
from magos.reconcilers.workspace.pod.toolversion import precedes
from magos.runtime.decision import Create, Delete, LiveGet, PatchAnnotations, QueryFailure
from tests.unit.reconcilers.cluster import Cluster
from tests.unit.reconcilers.model import NAME, NAMESPACE, Crash, workspace_manifest
from tests.unit.reconcilers.results import environment_of, failed, plan_result, reasons


def granted(**spec: Any) -> Cluster:
    """A Workspace with permission, not reconciled since."""
    model = Cluster()
    model.put(PROJECTS, Project(metadata=ObjectMeta(name="platform", namespace=NAMESPACE)))
    model.add_workspace(**spec)
    model.annotate(execution_allowed="true")
    return model


def outcome(model: Cluster) -> tuple[Phase | None, str]:
    status = model.workspace.status
    return status.phase, status.reason


def assert_refused(model: Cluster, reason: Reason) -> None:
    """A refusal is no run: permission is taken, no Job, no plan Job named, and the world is at rest."""
    assert outcome(model) == (Phase.FAILED, reason)
    assert model.created_jobs == []
    assert EXECUTION_ALLOWED not in model.workspace.metadata.annotations
    assert model.workspace.status.current_run is not None
    assert model.workspace.status.current_run.plan_job == ""
    assert model.workspace.status.last_run_started_at is None
    assert reason in reasons(model.events)
    before = model.versions
    model.step()
    assert model.versions == before


# --- waiting ----------------------------------------------------------------------------------------------------------


def test_a_pod_under_the_name_blocks_the_start_whoever_owns_it() -> None:
    model = granted()
    stranger = ObjectMeta(name="old", namespace=NAMESPACE, labels={WORKSPACE: NAME})
    model.put(PODS, Pod(metadata=stranger, status=PodStatus(phase="Unknown")))
    model.settle()
    assert outcome(model) == (Phase.PENDING, Reason.PREVIOUS_RUNNER_TERMINATING)
    assert "old" in model.workspace.status.message
    model.put(PODS, Pod(metadata=model.get(PODS, "old").metadata, status=PodStatus(phase="Failed")))
    model.settle()
    assert model.workspace.status.phase is Phase.PLANNING


def test_a_pod_that_only_the_server_knows_blocks_the_start() -> None:
    model = granted()
    model.sync()
    model.lagging.add(PODS.resource)
    model.put(PODS, Pod(metadata=ObjectMeta(name="old", namespace=NAMESPACE, labels={WORKSPACE: NAME})))
    model.step()
    assert outcome(model) == (Phase.PENDING, Reason.PREVIOUS_RUNNER_TERMINATING)


def test_an_unfinished_job_of_a_former_workspace_blocks_the_start() -> None:
    model = granted()
    owner = OwnerReference(api_version="x/v1", kind="Workspace", name=NAME, uid="former", controller=True)
    meta = ObjectMeta(name="old-job", namespace=NAMESPACE, labels={WORKSPACE: NAME}, owner_references=(owner,))
    model.put(JOBS, Job(metadata=meta))
    model.settle()
    assert outcome(model) == (Phase.PENDING, Reason.PREVIOUS_RUNNER_TERMINATING)
    model.remove(JOBS, "old-job")
    model.settle()
    assert model.workspace.status.phase is Phase.PLANNING


def test_a_claim_that_is_being_deleted_is_waited_for() -> None:
    model = granted()
    model.settle()
    model.user_deletes(WORKSPACES, NAME)
    claim = model.all(PERSISTENT_VOLUME_CLAIMS)[0]
    other = granted()
    uid = other.workspace.metadata.uid
    owner = replace(claim.metadata.owner_references[0], uid=uid)
    meta = replace(claim.metadata, owner_references=(owner,), deletion_timestamp="2026-01-01T00:00:00Z")
    other.put(PERSISTENT_VOLUME_CLAIMS, replace(claim, metadata=meta))
    other.settle()
    assert outcome(other) == (Phase.PENDING, Reason.PREVIOUS_RUNNER_TERMINATING)
    assert "delete that pod" in other.workspace.status.message


# --- refused ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "scheme"),
    [
        ("https://git.example.com/r.git", "https"),
        ("HTTP://git.example.com/r", "http"),
        ("ssh://git@h:7999/r.git", "ssh"),
        ("git+ssh://git@h/r.git", "ssh"),
        ("git@github.com:org/r.git", "ssh"),
        ("github.com:org/r.git", "ssh"),
        ("git://h/r", "git"),
        ("file:///srv/r", "file"),
        ("/srv/r.git", "file"),
        ("/srv/a:b", "file"),
    ],
)
def test_the_scheme_that_the_allow_list_is_asked_for(url: str, scheme: str) -> None:
    assert scheme_of(url) == scheme


def test_a_scheme_that_is_not_allowed_is_refused_without_showing_userinfo() -> None:
    model = granted(source=Source(repo_url="git://token@git.example.com/r", target_revision="main"))
    model.settle()
    assert_refused(model, Reason.SCHEME_NOT_ALLOWED)
    assert "token" not in model.workspace.status.message
    assert "https, http, ssh" in model.workspace.status.message


@pytest.mark.parametrize(
    ("distribution", "old", "setting"),
    [
        (Distribution.TERRAFORM, "1.9.1-rc1", "MAGOS_MINIMUM_TERRAFORM_VERSION"),
        (Distribution.OPENTOFU, "1.8.12", "MAGOS_MINIMUM_OPENTOFU_VERSION"),
    ],
)
def test_a_tool_below_the_minimum_is_refused_and_healed_by_a_newer_one(
    distribution: Distribution, old: str, setting: str
) -> None:
    model = granted(terraform=Terraform(version=old, distribution=distribution))
    model.settle()
    assert_refused(model, Reason.INVALID_CONFIGURATION)
    assert all(part in model.workspace.status.message for part in (old, str(distribution), setting, "1.9."))
    model.edit(terraform=Terraform(version="1.9.1", distribution=distribution))
    model.settle()
    assert model.workspace.status.reason is not Reason.INVALID_CONFIGURATION


def test_an_administrator_moves_the_minimum() -> None:
    model = granted(terraform=Terraform(version="1.5.7"))
    model.settings = replace(model.settings, minimum_terraform="1.5.7")
    model.settle()
    assert model.workspace.status.reason is not Reason.INVALID_CONFIGURATION


@pytest.mark.parametrize(
    "ordered",
    [
        # The example of Semantic Versioning 2.0.0, item 11.
        ["1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11"],
        ["1.0.0-rc.1", "1.0.0", "1.0.1", "1.2.0", "1.10.0-x", "1.10.0", "2.0.0"],
    ],
)
def test_versions_are_ordered_as_semantic_versions(ordered: list[str]) -> None:
    for index, version in enumerate(ordered):
        assert not [other for other in ordered[: index + 1] if precedes(version, other)]
        assert not [other for other in ordered[index + 1 :] if not precedes(version, other)]


def test_a_secret_with_a_username_alone_is_refused_and_healed_by_its_correction() -> None:
    model = granted()
    model.secrets = RepositorySecretReport(names=("creds",), keys=("username",))
    model.annotate(reconcile_request="r")
    model.settle()
    assert_refused(model, Reason.INVALID_REPOSITORY_SECRET)
    former = model.workspace.status.current_run_id
    model.secrets = RepositorySecretReport(names=("creds",), keys=("password", "username"))
    model.settle()
    status = model.workspace.status
    assert (status.phase, str(status.current_run_trigger)) == (Phase.PENDING, "configuration")  # the former trigger
    assert status.current_run_id != former


def test_a_request_for_a_start_that_is_still_refused_is_answered_by_the_refusal() -> None:
    model = granted(source=Source(repo_url="git://h/r", target_revision="main"))
    model.settle()
    assert outcome(model) == (Phase.FAILED, Reason.SCHEME_NOT_ALLOWED)
    former = model.workspace.status.current_run_id
    model.annotate(reconcile_request="again", requested_by='{"request": "again", "principal": "ann"}')
    model.settle()
    status = model.workspace.status
    assert (outcome(model), status.current_run_id) == ((Phase.FAILED, Reason.SCHEME_NOT_ALLOWED), former)
    assert status.last_handled_reconcile_request == "again"
    assert status.current_run is not None
    assert status.current_run.principal == "ann"
    assert "magosproject.io/reconcile-request" not in model.workspace.metadata.annotations
    assert reasons(model.events).count(Reason.SCHEME_NOT_ALLOWED) == 2
    before = model.versions
    model.settle()
    assert model.versions == before


def test_a_refusal_longer_than_a_message_is_written_once() -> None:
    names = tuple(f"label-{number:03}" for number in range(90))
    wrong = LabelSelectorRequirement(key="a", operator="Exists", values=names)
    other = LabelSelectorRequirement(key="x" * 1200, operator="Exists")
    model = granted(validation=Validation(policy_selector=LabelSelector(match_expressions=(other, wrong))))
    model.settle()
    assert outcome(model) == (Phase.FAILED, Reason.INVALID_POLICY_SELECTOR)
    assert len(model.workspace.status.message) == 1024
    before = model.versions
    model.settle()
    assert model.versions == before


def test_a_selector_that_cannot_be_parsed_is_refused() -> None:
    wrong = LabelSelector(match_expressions=(LabelSelectorRequirement(key="a", operator="In"),))
    model = granted(validation=Validation(policy_selector=wrong))
    model.settle()
    assert_refused(model, Reason.INVALID_POLICY_SELECTOR)
    assert "In requires at least one value" in model.workspace.status.message


def test_a_foreign_claim_is_a_conflict_and_its_removal_heals() -> None:
    model = granted()
    model.put(
        PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim(metadata=ObjectMeta(name="network-data", namespace=NAMESPACE))
    )
    model.settle()
    assert_refused(model, Reason.VOLUME_CONFLICT)
    model.remove(PERSISTENT_VOLUME_CLAIMS, "network-data")
    model.settle()
    assert model.workspace.status.phase is Phase.PENDING


@pytest.mark.parametrize(
    ("code", "reason", "message", "expected"),
    [
        (403, "Forbidden", 'jobs "x" is forbidden: exceeded quota: q', Reason.JOB_REJECTED),
        (403, "Forbidden", 'admission webhook "w" denied the request: no', Reason.JOB_REJECTED),
        (422, "Invalid", "spec.template: Invalid value", Reason.JOB_REJECTED),
        (403, "Forbidden", 'jobs.batch is forbidden: User "u" cannot create resource "jobs"', Reason.RECONCILE_ERROR),
    ],
)
def test_a_rejected_job_is_told_with_the_servers_text(code: int, reason: str, message: str, expected: Reason) -> None:
    model = granted()
    model.refusals.append((Create, JOBS.resource, code, reason, message))
    model.settle()
    assert_refused(model, expected)
    assert message.rstrip(".") in model.workspace.status.message
    model.refusals.clear()
    model.advance(minutes=1)
    model.settle()
    assert outcome(model)[0] is Phase.FAILED  # nothing but the tick or a request asks the server again
    model.advance(minutes=3)
    model.settle()
    assert outcome(model)[0] is Phase.PENDING


def test_a_job_that_belongs_to_somebody_else_is_not_taken_for_ours() -> None:
    model = granted()
    run = model.workspace.status.current_run
    assert run is not None
    model.put(JOBS, Job(metadata=ObjectMeta(name=run.plan_job, namespace=NAMESPACE)))
    model.settle()
    assert_refused(model, Reason.JOB_REJECTED)
    assert "already exists" in model.workspace.status.message


def test_a_claim_over_quota_is_told() -> None:
    model = granted()
    model.refusals.append((Create, PERSISTENT_VOLUME_CLAIMS.resource, 403, "Forbidden", "exceeded quota: storage"))
    model.settle()
    assert_refused(model, Reason.QUOTA_EXCEEDED)


@pytest.mark.parametrize("probe", [LiveGet, RepositorySecrets])
def test_a_read_that_is_forbidden_is_an_error_and_starts_nothing(probe: Any) -> None:
    model = granted()
    model.failing_probes[probe] = QueryFailure(reason="Forbidden", message="secrets is forbidden")
    model.settle()
    assert outcome(model) == (Phase.FAILED, Reason.RECONCILE_ERROR)
    assert model.created_jobs == []
    assert "secrets is forbidden" in model.workspace.status.message


def test_a_refused_clean_up_does_not_loop() -> None:
    model = Cluster()
    model.to_applied()
    model.refusals.append((PatchAnnotations, WORKSPACES.resource, 403, "Forbidden", "no"))
    model.annotate(execution_allowed="true")
    model.settle()
    assert outcome(model) == (Phase.FAILED, Reason.RECONCILE_ERROR)


def test_a_result_that_cannot_be_saved_counts_all_the_same() -> None:
    model = Cluster()
    model.to_planning()
    model.refusals.append((PatchAnnotations, JOBS.resource, 403, "Forbidden", "no"))
    model.run_job_end(JobType.PLAN, plan_result(model, has_changes=False))
    assert outcome(model) == (Phase.APPLIED, Reason.NO_CHANGES)


# --- secrets ----------------------------------------------------------------------------------------------------------


def test_duplicate_secrets_are_reported_and_the_first_is_used() -> None:
    model = granted()
    model.secrets = RepositorySecretReport(names=("first", "second"), keys=("password",))
    model.settle()
    assert "DuplicateRepositorySecret" in reasons(model.events)
    fetch = environment_of(model.created_jobs[0], "fetch")
    assert fetch["GIT_USERNAME"].value == "git"
    source = fetch["GIT_PASSWORD"].value_from
    assert source is not None
    assert source.secret_key_ref is not None
    assert (source.secret_key_ref.name, source.secret_key_ref.key) == ("first", "password")
    for stage in ("terraform", "render", "job"):
        assert not [name for name in environment_of(model.created_jobs[0], stage) if name.startswith("GIT_")]


def test_a_labelled_secret_without_url_is_reported_and_used_for_nothing() -> None:
    model = granted()
    model.secrets = RepositorySecretReport(incomplete=("nameless",))
    model.settle()
    assert model.workspace.status.phase is Phase.PLANNING
    [told] = [event for event in model.events if event.reason == Reason.INVALID_REPOSITORY_SECRET]
    assert "nameless" in told.note


GIT_TROUBLE = (Reason.GIT_AUTHENTICATION_FAILED, Reason.GIT_FAILED, Reason.UNKNOWN_HOST_KEY)


@pytest.mark.parametrize("reason", [*GIT_TROUBLE, Reason.PLAN_FAILED])
def test_a_secret_for_another_spelling_of_the_url_is_asked_about_at_the_start_and_when_git_fails(
    reason: Reason,
) -> None:
    model = granted()
    model.secrets = RepositorySecretReport(similar=("creds",))
    model.settle()
    assert not [name for name in environment_of(model.created_jobs[0], "fetch") if name.startswith("GIT_")]
    [told] = [event for event in model.events if event.reason == Reason.INVALID_REPOSITORY_SECRET]
    assert "did you mean Secret creds?" in told.note
    model.run_job(JobType.PLAN, failed(model, JobType.PLAN, reason, "host: anonymous access was refused"))
    status = model.workspace.status
    assert status.reason == reason
    assert ("did you mean Secret creds?" in status.message) is (reason in GIT_TROUBLE)


def test_an_apply_that_git_refuses_asks_about_the_other_spelling_too() -> None:
    model = granted()
    model.secrets = RepositorySecretReport(similar=("creds",))
    model.settle()
    model.run_job(JobType.PLAN, plan_result(model))
    model.run_job(JobType.APPLY, failed(model, JobType.APPLY, Reason.GIT_AUTHENTICATION_FAILED, "host: refused"))
    assert "did you mean Secret creds?" in model.workspace.status.message


# --- start problems ---------------------------------------------------------------------------------------------------


def created() -> tuple[Cluster, Job]:
    model = granted()
    model.settle()
    job = model.job(JobType.PLAN)
    assert job is not None
    return model, job


def waiting_pod(model: Cluster, job: Job, status: PodStatus) -> None:
    model.create_pods()
    pod = model.pod_of(job)
    assert pod is not None
    model.put(PODS, replace(pod, status=status))


def container(reason: str) -> PodStatus:
    waiting = ContainerStatus(
        name="fetch", state=ContainerState(waiting=ContainerStateWaiting(reason=reason, message="m"))
    )
    return PodStatus(phase="Pending", init_container_statuses=(waiting,))


def unscheduled(message: str) -> PodStatus:
    condition = PodCondition(type="PodScheduled", status="False", reason="Unschedulable", message=message)
    return PodStatus(phase="Pending", conditions=(condition,))


@pytest.mark.parametrize(
    ("status", "warnings", "expected"),
    [
        (container("ImagePullBackOff"), (), Reason.IMAGE_PULL_FAILED),
        (container("InvalidImageName"), (), Reason.IMAGE_PULL_FAILED),
        (container("CreateContainerConfigError"), (), Reason.POD_CONFIG_ERROR),
        (container("PodInitializing"), (), Reason.JOB_START_FAILED),
        (unscheduled("0/3 nodes are available: 3 Insufficient cpu"), (), Reason.POD_UNSCHEDULABLE),
        (unscheduled("pod has unbound immediate PersistentVolumeClaims"), (), Reason.VOLUME_UNAVAILABLE),
        (
            container("ContainerCreating"),
            (JobWarning(reason="FailedMount", note="MountVolume.SetUp failed: timed out"),),
            Reason.VOLUME_UNAVAILABLE,
        ),
        (
            container("ContainerCreating"),
            (JobWarning(reason="FailedMount", note='secret "ca" not found'),),
            Reason.POD_CONFIG_ERROR,
        ),
        (
            None,
            (JobWarning(reason="FailedCreate", note='pods is forbidden: serviceaccount "magos-job" not found'),),
            Reason.SERVICE_ACCOUNT_NOT_FOUND,
        ),
        (
            None,
            (JobWarning(reason="FailedCreate", note="forbidden: exceeded quota: q"),),
            Reason.QUOTA_EXCEEDED,
        ),
        (
            None,
            (JobWarning(reason="FailedCreate", note="forbidden: failed quota: q: must specify limits.cpu for: job"),),
            Reason.QUOTA_EXCEEDED,
        ),
        (None, (JobWarning(reason="FailedCreate", note="violates PodSecurity"),), Reason.JOB_START_FAILED),
        (None, (), Reason.JOB_START_FAILED),
    ],
)
def test_a_pod_that_does_not_start_shows_why_and_is_given_up_after_ten_minutes(
    status: PodStatus | None, warnings: tuple[JobWarning, ...], expected: Reason
) -> None:
    model, job = created()
    model.warnings = warnings
    if status is not None:
        waiting_pod(model, job, status)
    model.settle()
    assert outcome(model) == (Phase.PLANNING, Reason.PLAN_JOB_CREATED)
    model.advance(seconds=61)
    model.settle()
    assert outcome(model) == (Phase.PLANNING, Reason.PLAN_JOB_CREATED)
    shown = model.workspace.status.message
    assert "no container" in shown
    if warnings:
        assert warnings[0].note.rstrip(".") in shown
    model.advance(minutes=9)
    model.settle()
    assert outcome(model) == (Phase.FAILED, expected)
    assert "started within 10m1s" in model.workspace.status.message
    assert model.get(JOBS, job.metadata.name) is None
    assert EXECUTION_ALLOWED not in model.workspace.metadata.annotations


def test_an_ordinary_start_writes_nothing_about_its_waiting() -> None:
    model, job = created()
    writes = len(model.writes)
    waiting_pod(model, job, container("ContainerCreating"))
    model.advance(seconds=8)
    model.settle()
    assert len(model.writes) == writes


def test_an_apply_that_started_in_the_last_moment_is_not_deleted() -> None:
    model = Cluster()
    model.to_planned()
    model.annotate(execution_allowed="true")
    model.settle()
    job = model.job(JobType.APPLY)
    assert job is not None
    model.create_pods()
    model.settle()
    model.lagging.add(PODS.resource)
    model.start(job)
    model.advance(minutes=11)
    model.step()
    assert model.get(JOBS, job.metadata.name) is not None
    assert not [effect for effect in model.decide().effects if isinstance(effect, Delete)]
    assert model.workspace.status.phase is Phase.APPLYING


def test_a_recreated_workspace_takes_nothing_of_its_predecessor() -> None:
    model, job = created()
    model.create_pods()
    model.start(job)
    model.user_deletes(WORKSPACES, NAME)
    model.state[WORKSPACES.resource].clear()  # somebody took the finalizer off: everything is orphaned
    model.put(WORKSPACES, workspace_manifest())
    model.settle()
    model.annotate(execution_allowed="true")
    model.settle()
    assert outcome(model) == (Phase.PENDING, Reason.PREVIOUS_RUNNER_TERMINATING)
    assert len(model.created_jobs) == 1


def test_a_start_that_was_given_up_is_cleared_away_also_after_a_crash() -> None:
    model = Cluster()
    model.to_planned()
    model.annotate(execution_allowed="true")
    model.settle()
    job = model.job(JobType.APPLY)
    assert job is not None
    model.create_pods()
    model.advance(minutes=11)
    model.crash_after = 1
    with pytest.raises(Crash):
        model.step()
    model.crash_after = None
    assert model.workspace.status.phase is Phase.FAILED
    assert model.get(JOBS, job.metadata.name) is not None
    model.settle()
    assert model.get(JOBS, job.metadata.name) is None


@pytest.mark.parametrize("missing", [{"plan_digest": ""}, {"revision": ""}])
def test_a_status_that_names_no_plan_lets_nothing_be_applied(missing: dict[str, str]) -> None:
    model = Cluster()
    model.to_planned()
    status = model.workspace.status
    assert status.current_run is not None
    forged = replace(status, current_run=replace(status.current_run, **missing))
    model.put(WORKSPACES, replace(model.workspace, status=forged))
    model.annotate(execution_allowed="true")
    model.settle()
    assert outcome(model) == (Phase.FAILED, Reason.PLAN_MISMATCH)
    assert len(model.created_jobs) == 1
