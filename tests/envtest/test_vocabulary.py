"""The Structs against the real API server: nothing we write is pruned or refused, and kinds are served as promised."""

import secrets
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from magos.api.conditions import Abnormal, ConditionType, Standing, standing_conditions
from magos.api.kube import (
    Capabilities,
    Container,
    EmptyDirVolumeSource,
    EnvVar,
    EnvVarSource,
    JobManifest,
    JobSpec,
    KeySelector,
    PodSecurityContext,
    PodSpec,
    PodTemplateSpec,
    ProjectedSource,
    ProjectedVolumeSource,
    Resources,
    SeccompProfile,
    SecurityContext,
    ServiceAccountTokenProjection,
    Volume,
    VolumeMount,
)
from magos.api.meta import ObjectMeta
from magos.api.phases import Phase
from magos.api.project import Project, ProjectStatus
from magos.api.reasons import Reason, ReferenceProblem
from magos.api.result import ViolationAction
from magos.api.rollout import Rollout, RolloutStatus
from magos.api.status import CommonStatus
from magos.api.triggers import Trigger
from magos.api.variableset import (
    SourceKind,
    UnresolvedReference,
    VariableSet,
    VariableSetStatus,
    VariableSource,
)
from magos.api.workspace import (
    Approval,
    ApprovalKind,
    AwaitingApproval,
    CurrentRun,
    GateReason,
    ObservedVariables,
    PlanSummary,
    PolicyViolation,
    RunRecord,
    RunResult,
    UsedVariable,
    UsedVariableSet,
    Workspace,
    WorkspaceStatus,
)
from tests.envtest.cluster import Cluster

_AT = "2026-01-02T03:04:05Z"
_RUN = "20260102T030405-00010203"
_API = "/apis/magosproject.io/v1alpha1/namespaces"
_COMMON: dict[str, Any] = {
    "phase": Phase.PENDING,
    "reason": Reason.AWAITING_ROLLOUT,
    "message": "m" * 1024,
    "observed_generation": 1,
    "last_reconcile_time": _AT,
    "conditions": standing_conditions(
        Standing(phase=Phase.PENDING, reason=Reason.AWAITING_ROLLOUT, message="waits", generation=1),
        (),
        datetime(2026, 1, 2, tzinfo=UTC),
        abnormal=(Abnormal(type=ConditionType.INVALID_ANNOTATIONS, reason="InvalidAnnotation", message="m"),),
    ),
}
_VARIABLE = UsedVariable(name="region", source="VariableSet/common", version="7")
_SET = UsedVariableSet(name="common", digest="sha256:" + "f" * 64, inherited=True)
_FULL: dict[str, tuple[type, CommonStatus, dict[str, Any]]] = {
    "workspaces": (
        Workspace,
        WorkspaceStatus(
            **_COMMON,
            observed_revision="a" * 40,
            observed_source="b" * 16,
            observed_variables=ObservedVariables(fingerprint="sha256:" + "d" * 64, sets=(_SET,)),
            last_attempted_revision="a" * 40,
            next_reconcile_time=_AT,
            observed_reconcile_interval="3m0s",
            last_handled_reconcile_request="r",
            current_run_id=_RUN,
            current_run_trigger=Trigger.CONFIGURATION,
            last_run_started_at=_AT,
            current_run=CurrentRun(
                revision="a" * 40,
                source_key="b" * 16,
                spec_hash="sha256:" + "c" * 64,
                variables_fingerprint="sha256:" + "d" * 64,
                variables=(_VARIABLE,),
                variable_sets=(_SET,),
                plan_job="network-plan-x",
                apply_job="network-apply-x",
                apply_job_uid="11111111-2222-3333-4444-555555555555",
                plan_digest="sha256:" + "e" * 64,
                policies_selected=0,
                has_changes=False,
                request="r",
                principal="someone",
                approval=Approval(kind=ApprovalKind.APPROVED_WITH_WARNINGS, at=_AT, by="someone"),
                interruptions=3,
                not_before=_AT,
            ),
            awaiting_approval=AwaitingApproval(
                run_id=_RUN, reason=GateReason.AUDIT_VIOLATIONS, since=_AT, revision="a" * 40
            ),
            policy_violations=(PolicyViolation(policy="p", message="m", action=ViolationAction.AUDIT),) * 50,
            plan_summary=PlanSummary(add=0, change=0, destroy=0, no_changes=True),
            policies_evaluated=0,
            history_outbox=(
                RunRecord(
                    run_id=_RUN,
                    trigger=Trigger.MANUAL,
                    target_revision="main",
                    revision="a" * 40,
                    spec_hash="sha256:" + "c" * 64,
                    principal="someone",
                    approved_by="someone",
                    approval_kind=ApprovalKind.APPROVED,
                    variables=(_VARIABLE,),
                    started_at=_AT,
                    finished_at=_AT,
                    result=RunResult.DISCARDED,
                    reason="PlanSucceeded",
                    message="m",
                ),
            ),
        ),
        {
            "projectRef": {"name": "shop"},
            "source": {"repoURL": "https://git.example.com/a.git", "targetRevision": "main"},
            "terraform": {"version": "1.9.8"},
        },
    ),
    "projects": (Project, ProjectStatus(**_COMMON, members=0, parallel_from=_AT), {}),
    "rollouts": (
        Rollout,
        RolloutStatus(**_COMMON, current_step=0, unselected_workspaces=0),
        {"projectRef": "full", "strategy": {"steps": []}},
    ),
    "variablesets": (
        VariableSet,
        VariableSetStatus(
            **_COMMON,
            resolved_variables=0,
            unresolved_references=(
                UnresolvedReference(
                    kind=SourceKind.SECRET, name="s", key="k", reason=ReferenceProblem.RESOURCE_NOT_FOUND
                ),
            ),
            sources=(VariableSource(kind=SourceKind.CONFIG_MAP, name="c", resource_version="9", content_version="7"),),
        ),
        {"variables": [{"name": "region", "value": ""}]},
    ),
}


@pytest.mark.parametrize("plural", _FULL)
def test_a_full_status_is_stored_whole_and_read_back_equal(control_plane: Cluster, namespace: str, plural: str) -> None:
    struct, status, spec = _FULL[plural]
    written = msgspec.json.decode(msgspec.json.encode(status))
    assert set(written) == {field.encode_name for field in msgspec.structs.fields(status)}, "the test leaves fields out"
    body = {
        "apiVersion": "magosproject.io/v1alpha1",
        "kind": struct.__name__,
        "metadata": {"name": "full"},
        "spec": spec,
    }
    created = control_plane.request("POST", f"{_API}/{namespace}/{plural}", body)
    assert "status" not in created
    stored = control_plane.request("PUT", f"{_API}/{namespace}/{plural}/full/status", {**created, "status": written})
    assert stored["status"] == written
    assert msgspec.convert(stored, struct).status == status


def test_a_job_is_created_from_the_struct_alone(control_plane: Cluster, namespace: str) -> None:
    restricted = SecurityContext(
        allow_privilege_escalation=False,
        read_only_root_filesystem=True,
        run_as_non_root=True,
        capabilities=Capabilities(drop=("ALL",)),
    )
    secret = EnvVarSource(secret_key_ref=KeySelector(name="s", key="k", optional=True))
    token = ServiceAccountTokenProjection(path="token", expiration_seconds=3600)
    container = Container(
        name="job",
        image="runner",
        command=("magos-job", "job"),
        env=(EnvVar(name="EMPTY", value=""), EnvVar(name="PASSWORD", value_from=secret)),
        volume_mounts=(VolumeMount(name="token", mount_path="/token", read_only=True),),
        resources=Resources(requests={"cpu": "100m"}),
        security_context=restricted,
        termination_message_path="/dev/termination-log",
        termination_message_policy="File",
    )
    spec = PodSpec(
        containers=(container,),
        restart_policy="Never",
        automount_service_account_token=False,
        enable_service_links=False,
        security_context=PodSecurityContext(
            run_as_user=65532, fs_group=65532, seccomp_profile=SeccompProfile(type="RuntimeDefault")
        ),
        volumes=(
            Volume(
                name="token", projected=ProjectedVolumeSource(sources=(ProjectedSource(service_account_token=token),))
            ),
            Volume(name="tmp", empty_dir=EmptyDirVolumeSource()),
            Volume(name="plan", empty_dir=EmptyDirVolumeSource(medium="Memory", size_limit="64Mi")),
        ),
    )
    manifest = JobManifest(
        metadata=ObjectMeta(name="one", namespace=namespace),
        spec=JobSpec(
            template=PodTemplateSpec(spec=spec),
            backoff_limit=0,
            completions=1,
            parallelism=1,
            pod_replacement_policy="Failed",
            active_deadline_seconds=60,
        ),
    )
    # strict: a field the server does not know, or knows by another spelling, is an error
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs?fieldValidation=Strict&dryRun=All"
    stored = control_plane.request("POST", path, msgspec.to_builtins(manifest))
    assert stored["spec"]["podReplacementPolicy"] == "Failed"
    template = msgspec.convert(stored["spec"]["template"]["spec"], PodSpec)
    # An empty value is dropped by the server and means the same without.
    assert template.containers[0].env == (EnvVar(name="EMPTY"), container.env[1])
    assert template.volumes[1:] == spec.volumes[1:]


def test_members_are_selected_by_their_project(control_plane: Cluster, namespace: str) -> None:
    _, _, spec = _FULL["workspaces"]
    for name, project in (("a", "shop"), ("b", "shop"), ("c", "other")):
        body = {
            "apiVersion": "magosproject.io/v1alpha1",
            "kind": "Workspace",
            "metadata": {"name": name},
            "spec": {**spec, "projectRef": {"name": project}},
        }
        control_plane.request("POST", f"{_API}/{namespace}/workspaces", body)
    found = control_plane.request("GET", f"{_API}/{namespace}/workspaces?fieldSelector=spec.projectRef.name%3Dshop")
    assert [item["metadata"]["name"] for item in found["items"]] == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "columns", "wide"),
    [
        ("mproj", ["NAME", "PHASE", "READY", "MEMBERS", "AGE"], []),
        (
            "ws",
            ["NAME", "PHASE", "READY", "PROJECT", "REVISION", "AGE"],
            ["RUN", "TRIGGER", "NEXT", "MESSAGE"],
        ),
        ("mro", ["NAME", "PHASE", "READY", "PROJECT", "STEP", "AGE"], ["MESSAGE"]),
        ("vset", ["NAME", "PHASE", "READY", "VARIABLES", "AGE"], []),
    ],
)
def test_kubectl_shows_the_promised_columns(
    control_plane: Cluster, namespace: str, name: str, columns: list[str], wide: list[str]
) -> None:
    plural = {"mproj": "projects", "ws": "workspaces", "mro": "rollouts", "vset": "variablesets"}[name]
    struct, _, spec = _FULL[plural]
    body = {
        "apiVersion": "magosproject.io/v1alpha1",
        "kind": struct.__name__,
        "metadata": {"name": "full"},
        "spec": spec,
    }
    control_plane.request("POST", f"{_API}/{namespace}/{plural}", body)
    shown = control_plane.kubectl.run("get", name, f"--namespace={namespace}")
    assert shown.splitlines()[0].split() == columns
    shown = control_plane.kubectl.run("get", name, f"--namespace={namespace}", "--output=wide")
    assert shown.splitlines()[0].split() == columns + wide
    shown = control_plane.kubectl.run("get", "magos", f"--namespace={namespace}", "--output=name")
    assert shown.split() == [f"{struct.__name__.lower()}.magosproject.io/full"]


def test_a_conditions_type_is_unique(control_plane: Cluster, namespace: str) -> None:
    name = f"p-{secrets.token_hex(2)}"
    body = {"apiVersion": "magosproject.io/v1alpha1", "kind": "Project", "metadata": {"name": name}, "spec": {}}
    created = control_plane.request("POST", f"{_API}/{namespace}/projects", body)
    twice = [msgspec.to_builtins(_COMMON["conditions"][0])] * 2
    with pytest.raises(Exception, match="Duplicate value"):
        control_plane.request(
            "PUT", f"{_API}/{namespace}/projects/{name}/status", {**created, "status": {"conditions": twice}}
        )
