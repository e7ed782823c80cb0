"""The kind Workspace: one Git source and one tool version, the unit of execution.

The docstrings under the fields are the descriptions in the CRD. ``None`` and empty values are absent on the wire; a
number that must be shown even when it is 0 has no default or the default ``None``.
"""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field

from magos.api.labels import JOB_SERVICE_ACCOUNT
from magos.api.meta import Kind, ObjectMeta
from magos.api.result import ViolationAction
from magos.api.selectors import LabelSelector
from magos.api.status import GROUP, VERSION, CommonStatus, NameReference
from magos.api.tool import Distribution
from magos.api.triggers import Trigger

# --- spec ------------------------------------------------------------------------------------------------------------


class PhaseOptions(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """Settings of the plan Job or of the apply Job."""

    annotations: Mapping[str, str] = field(default_factory=dict)
    """Annotations of the pod of this Job. They override spec.annotations key by key. Default: none."""

    timeout_seconds: int | None = None
    """Seconds after which Kubernetes ends the Job (its activeDeadlineSeconds), at least 1. Default: 86400, which is
    one day."""


class Source(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """The Git repository, the revision and the directory of the configuration."""

    repo_url: str = field(name="repoURL")
    """Clone URL of the repository: https://, http://, ssh://, git+ssh:// or user@host:path. Credentials belong in a
    Secret with the label magosproject.io/secret-type=repository, not in the URL."""

    target_revision: str
    """Branch, tag, HEAD, full reference such as refs/heads/main, or full 40-digit commit ID. When a branch or tag
    moves to another commit, Magos plans again."""

    path: str = "."
    """Directory of the configuration, relative to the root of the repository. Default: '.', the root itself."""


class Terraform(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """The tool that plans and applies, its version and its variable file."""

    version: str
    """Exact version of the tool such as 1.9.8, without prefix or range. An administrator sets the oldest that is
    accepted."""

    distribution: Distribution = Distribution.TERRAFORM
    """Tool to install: terraform or opentofu. Default: terraform."""

    tfvars_path: str = ""
    """Variable file for the tool, relative to the root of the repository and not to source.path. Default: none."""


class Validation(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """Which policies a plan must pass."""

    policy_selector: LabelSelector | None = None
    """Selects Kyverno ValidatingPolicies by label. {} selects all of them; if absent, Magos evaluates none."""


class WorkspaceSpec(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """What to run, and how."""

    project_ref: NameReference
    """The Project that this Workspace is a member of. Until the Project exists, the Workspace does not run."""

    source: Source
    """The Git repository, the revision and the directory of the configuration."""

    terraform: Terraform
    """The tool that plans and applies, its version and its variable file."""

    auto_apply: bool = True
    """If true, Magos applies a plan with changes unless policies object. If false, such a plan waits until a person
    approves it. Default: true."""

    annotations: Mapping[str, str] = field(default_factory=dict)
    """Annotations of the pods of both Jobs. Default: none."""

    plan: PhaseOptions = PhaseOptions()
    """Settings of the plan Job alone."""

    apply: PhaseOptions = PhaseOptions()
    """Settings of the apply Job alone."""

    validation: Validation | None = None
    """Policies that the plans must pass, instead of the Project's: {} switches policies off; if absent, those of the
    Project count."""

    service_account_name: str = JOB_SERVICE_ACCOUNT
    """ServiceAccount of the plan and apply pods, in the same namespace, with the label magosproject.io/runner=true.
    Everybody who may edit Workspaces there acts with its rights. Default: magos-job."""

    variable_set_ref: tuple[NameReference, ...] = ()
    """VariableSets, at most 64. A later set overrides an earlier one, and all of them override those of the Project.
    Default: none."""

    discard_stale_plan: bool = False
    """If true, a new commit or changed variables replace a plan that waits for approval. If false, the plan goes on
    waiting. Default: false."""


# --- status ----------------------------------------------------------------------------------------------------------


class GateReason(StrEnum):
    """Why a plan waits for a person."""

    MANUAL_APPROVAL = "ManualApproval"
    AUDIT_VIOLATIONS = "AuditViolations"


class ApprovalKind(StrEnum):
    """How a gate was opened."""

    APPROVED = "approved"
    APPROVED_WITH_WARNINGS = "approved (with warnings)"


class RunResult(StrEnum):
    """How a run ended."""

    APPLIED = "Applied"
    NO_CHANGES = "NoChanges"
    FAILED = "Failed"
    VALIDATION_FAILED = "ValidationFailed"
    DISCARDED = "Discarded"


class AwaitingApproval(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """The plan that waits for a person."""

    run_id: str = field(name="runID")
    """ID of the run to approve: kubectl annotate --overwrite workspace NAME magosproject.io/approved=RUN_ID"""

    reason: GateReason
    """Why the plan waits: spec.autoApply is false, or the plan violates policies with action Audit."""

    since: str
    """Time (UTC) since when the plan has been waiting."""

    revision: str = ""
    """Commit that was planned."""


class PolicyViolation(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A policy that the plan violates."""

    policy: str
    """Name of the policy."""

    message: str
    """What the policy says about the plan."""

    action: ViolationAction | None = None
    """What follows: after Deny and Warn the plan is not applied, after Audit it waits for approval."""


class PlanSummary(Struct, frozen=True, gc=False, rename="camel", kw_only=True):
    """What the latest plan would change, in resources."""

    add: int
    """Number of resources to create."""

    change: int
    """Number of resources to change in place."""

    destroy: int
    """Number of resources to destroy."""

    no_changes: bool
    """True if there is nothing to apply."""


class UsedVariable(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A variable as the run got it, without its value."""

    name: str
    """Name of the Terraform input variable."""

    source: str = ""
    """Where the value comes from: Secret/NAME KEY, ConfigMap/NAME KEY, or VariableSet/NAME for a literal."""

    version: str = ""
    """Version at which the value last changed; for a literal, the first 16 digits of its hash."""


class UsedVariableSet(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A VariableSet as it was when a run took its variables."""

    name: str
    """Name of the VariableSet."""

    digest: str
    """Digest of all that the set defines: literals, references, and the versions of what they refer to."""

    inherited: bool
    """True if the Project refers to the set, so that all its members use it."""


class ObservedVariables(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """The variables of what is applied."""

    fingerprint: str
    """Digest of the variables that were applied last."""

    sets: tuple[UsedVariableSet, ...] = ()
    """The VariableSets, in the latest form that gives exactly these variables. Later steps of a Rollout wait for it."""


class Approval(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """How a person opened the gate."""

    kind: ApprovalKind
    """approved, or approved (with warnings) if the plan violates policies."""

    at: str
    """Time (UTC) of the approval."""

    by: str = ""
    """Who approved. direct edit (unverified) if nothing proves who it was."""


class CurrentRun(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """What belongs to the unfinished or else the last run; written before the Jobs it names."""

    revision: str = ""
    """Commit that this run plans and applies. It stays the same during the run."""

    source_key: str = ""
    """Short hash of the repoURL and targetRevision that the commit belongs to."""

    spec_hash: str = ""
    """Digest of the spec that this run was started for."""

    variables_fingerprint: str = ""
    """Digest of the variables and of the versions of the Secrets and ConfigMaps they come from."""

    variables: tuple[UsedVariable, ...] = ()
    """Variables that this run gets, without their values."""

    variable_sets: tuple[UsedVariableSet, ...] = ()
    """VariableSets that this run takes its variables from, by name."""

    plan_job: str = ""
    """Name of the plan Job."""

    apply_job: str = ""
    """Name of the apply Job. Absent before the apply."""

    apply_job_uid: str = field(default="", name="applyJobUID")
    """UID of the apply Job. Only this very Job may start. Absent before the Job is seen."""

    plan_digest: str = ""
    """SHA-256 of the plan file. The apply Job applies only this plan."""

    policies_selected: int | None = None
    """Number of policies that were selected for the plan when its Job was created. Absent without a selector."""

    has_changes: bool | None = None
    """Whether the plan changes anything. Absent before the plan has ended."""

    request: str = ""
    """The reconcile request that this run serves. Absent if the run was not requested."""

    principal: str = ""
    """Who requested this run. direct edit (unverified) if nothing proves who it was."""

    approval: Approval | None = None
    """How a person approved the plan. Absent before that."""

    interruptions: int = 0
    """Number of runs in a row, right before this one, whose plan infrastructure ended and that this run repeats. Absent
    if there are none."""

    not_before: str | None = None
    """Time (UTC) before which this run, the repetition of an interrupted one, does not start."""


class RunRecord(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A run as history keeps it; waits here until it is stored."""

    run_id: str = field(name="runID")
    """ID of the run."""

    trigger: Trigger = Trigger.UNKNOWN
    """What caused the run."""

    target_revision: str = ""
    """spec.source.targetRevision at that time."""

    revision: str = ""
    """Commit that was planned."""

    spec_hash: str = ""
    """Digest of the spec."""

    principal: str = ""
    """Who requested the run, as far as known."""

    approved_by: str = ""
    """Who approved the plan, as far as known."""

    approval_kind: ApprovalKind | None = None
    """How a person approved the plan. Absent if no approval was needed."""

    variables: tuple[UsedVariable, ...] = ()
    """Variables that the run got, without their values."""

    started_at: str | None = None
    """Time (UTC) at which the plan Job was created."""

    finished_at: str | None = None
    """Time (UTC) at which the run ended."""

    result: RunResult | None = None
    """How the run ended."""

    reason: str = ""
    """status.reason at the end of the run."""

    message: str = ""
    """status.message at the end of the run."""


class WorkspaceStatus(CommonStatus, frozen=True, kw_only=True):
    """What a Workspace does and has done."""

    observed_revision: str = ""
    """Commit of the last run that ended in phase Applied. Absent before the first."""

    observed_source: str = ""
    """Short hash of the repoURL and targetRevision that observedRevision belongs to."""

    observed_variables: ObservedVariables | None = None
    """Variables of the last run that ended in phase Applied. Absent before the first."""

    last_attempted_revision: str = ""
    """Commit of the last run that was started, however it ended. Absent after repoURL or targetRevision has changed."""

    next_reconcile_time: str | None = None
    """Time (UTC) of the next scheduled run, which looks for drift. A time in the past was skipped, because a run is
    unfinished or its start is refused. The next one is written when that ends."""

    observed_reconcile_interval: str = ""
    """Interval such as 3m0s that nextReconcileTime was computed with. The annotation
    magosproject.io/reconcile-interval sets it."""

    last_handled_reconcile_request: str = ""
    """The last value of the annotation magosproject.io/reconcile-request whose run has ended. A client waits here for
    its own."""

    current_run_id: str = field(default="", name="currentRunID")
    """ID of the unfinished run, or of the last one if none is unfinished."""

    current_run_trigger: Trigger | None = None
    """What caused that run. scheduled is the regular check for drift."""

    last_run_started_at: str | None = None
    """Time (UTC) at which the plan Job of that run was created."""

    current_run: CurrentRun | None = None
    """What that run works with. Magos writes it before it creates the Jobs."""

    awaiting_approval: AwaitingApproval | None = None
    """The plan that waits for a person. Absent if none waits."""

    policy_violations: tuple[PolicyViolation, ...] = ()
    """Policies that the latest plan violates, at most 50 of them."""

    plan_summary: PlanSummary | None = None
    """What the latest plan would change."""

    policies_evaluated: int | None = None
    """Number of policies that the latest plan was checked against."""

    history_outbox: tuple[RunRecord, ...] = ()
    """Ended runs that wait to be stored in the run history; the newest of them, as many as the history keeps."""


class Workspace(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A Workspace plans and applies one Terraform or OpenTofu configuration from Git, in Jobs of its namespace."""

    metadata: ObjectMeta
    spec: WorkspaceSpec
    """What to run, with which tool, and when to apply it. You write it."""

    status: WorkspaceStatus = WorkspaceStatus()
    """What the workspace controller reports. Do not edit it."""


WORKSPACES = Kind(group=GROUP, version=VERSION, plural="workspaces", name="Workspace", type=Workspace)
