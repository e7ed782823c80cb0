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

__all__ = [
    "WORKSPACES",
    "Approval",
    "ApprovalKind",
    "AwaitingApproval",
    "CurrentRun",
    "GateReason",
    "PhaseOptions",
    "PlanSummary",
    "PolicyViolation",
    "RunRecord",
    "RunResult",
    "Source",
    "Terraform",
    "UsedVariable",
    "Validation",
    "Workspace",
    "WorkspaceSpec",
    "WorkspaceStatus",
]

# --- spec ------------------------------------------------------------------------------------------------------------


class PhaseOptions(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """Settings of the plan Job or the apply Job."""

    annotations: Mapping[str, str] = field(default_factory=dict)
    """Pod annotations of this Job, merged over spec.annotations; these win."""

    timeout_seconds: int | None = None
    """The Job's deadline (activeDeadlineSeconds). Default 86400."""


class Source(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """Where the configuration comes from."""

    repo_url: str = field(name="repoURL")
    """Clone URL: http(s), ssh, git+ssh or [user@]host:path. Credentials belong in a repository Secret."""

    target_revision: str
    """Branch, tag, HEAD, fully qualified ref or full commit SHA."""

    path: str = "."
    """Directory to run in, relative to the repository root."""


class Terraform(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """Which tool runs, and its var file."""

    version: str
    """Exact version such as 1.9.8: no prefix, no range. An administrator sets the oldest that is accepted."""

    distribution: Distribution = Distribution.TERRAFORM
    """The tool to install: terraform or opentofu."""

    tfvars_path: str = ""
    """Var file, relative to the repository root (not to source.path)."""


class Validation(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """Which policies a plan must pass."""

    policy_selector: LabelSelector | None = None
    """Selects Kyverno ValidatingPolicies by label; absent selects none, {} selects all."""


class WorkspaceSpec(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """What to run, and how."""

    project_ref: NameReference
    """The Project this Workspace is a member of, in the same namespace. It need not exist yet."""

    source: Source
    """Where the configuration comes from."""

    terraform: Terraform
    """Which tool runs, and its var file."""

    auto_apply: bool = True
    """Apply a plan with changes without asking. If false, each such plan waits for approval."""

    annotations: Mapping[str, str] = field(default_factory=dict)
    """Pod annotations of both Jobs."""

    plan: PhaseOptions = PhaseOptions()
    """Settings of the plan Job."""

    apply: PhaseOptions = PhaseOptions()
    """Settings of the apply Job."""

    validation: Validation | None = None
    """Policies for this Workspace, instead of the Project's. {} switches validation off; absent inherits."""

    service_account_name: str = JOB_SERVICE_ACCOUNT
    """ServiceAccount of both pods, in the same namespace, with the label magosproject.io/runner=true. Whoever may edit
    Workspaces there acts with its rights."""

    variable_set_ref: tuple[NameReference, ...] = ()
    """VariableSets, layered in this order over those of the Project."""

    discard_stale_plan: bool = False
    """Let a new commit or changed variables abandon a plan that waits for approval."""


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
    """A plan waits for a person."""

    run_id: str = field(name="runID")
    """The run to approve."""

    reason: GateReason
    """Why approval is needed."""

    since: str
    """Since when it waits."""

    revision: str = ""
    """The commit that was planned."""


class PolicyViolation(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A policy that the plan violates."""

    policy: str
    """Name of the policy."""

    message: str
    """What the policy says."""

    action: ViolationAction | None = None
    """Deny and Warn stop the run, Audit asks for approval."""


class PlanSummary(Struct, frozen=True, gc=False, rename="camel", kw_only=True):
    """What the latest plan would change, in resources."""

    add: int
    """Resources to create."""

    change: int
    """Resources to change in place."""

    destroy: int
    """Resources to destroy."""

    no_changes: bool
    """True if there is nothing to apply."""


class UsedVariable(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A variable as the run got it, without its value."""

    name: str
    """Name of the Terraform variable."""

    source: str = ""
    """Where the value came from."""

    version: str = ""
    """Version of the source's content."""


class Approval(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """How the gate was opened."""

    kind: ApprovalKind
    """Whether violations were accepted."""

    at: str
    """When."""

    by: str = ""
    """By whom, if known."""


class CurrentRun(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """What belongs to the unfinished or else the last run; written before the Jobs it names."""

    revision: str = ""
    """The commit this run plans and applies."""

    source_key: str = ""
    """Which repository and revision the commit belongs to."""

    spec_hash: str = ""
    """Digest of the spec this run was started for."""

    variables_fingerprint: str = ""
    """Digest over the variables and the versions of their sources."""

    variables: tuple[UsedVariable, ...] = ()
    """The variables this run uses."""

    plan_job: str = ""
    """Name of the plan Job."""

    apply_job: str = ""
    """Name of the apply Job."""

    plan_digest: str = ""
    """Digest of the plan file; only this plan is applied."""

    has_changes: bool | None = None
    """Whether the plan changes anything."""

    request: str = ""
    """The reconcile request that this run serves."""

    principal: str = ""
    """Who asked for this run, if known."""

    approval: Approval | None = None
    """How the gate was opened."""


class RunRecord(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A run as history keeps it; waits here until it is stored."""

    run_id: str = field(name="runID")
    """The run."""

    trigger: Trigger = Trigger.UNKNOWN
    """Why the run existed."""

    target_revision: str = ""
    """The spec's targetRevision."""

    revision: str = ""
    """The commit."""

    spec_hash: str = ""
    """Digest of the spec."""

    principal: str = ""
    """Who asked."""

    approved_by: str = ""
    """Who approved."""

    approval_kind: ApprovalKind | None = None
    """How it was approved."""

    variables: tuple[UsedVariable, ...] = ()
    """The variables used, without values."""

    started_at: str | None = None
    """Creation of the plan Job."""

    finished_at: str | None = None
    """End of the run."""

    result: RunResult | None = None
    """How the run ended."""

    reason: str = ""
    """Reason of the end."""

    message: str = ""
    """Message of the end."""


class WorkspaceStatus(CommonStatus, frozen=True, kw_only=True):
    """What a Workspace does and has done."""

    observed_revision: str = ""
    """The commit of the last run that ended Applied."""

    observed_source: str = ""
    """Which repository and revision the observed commit belongs to."""

    last_attempted_revision: str = ""
    """The commit of the last run that was started."""

    next_reconcile_time: str | None = None
    """The next scheduled run."""

    observed_reconcile_interval: str = ""
    """The interval that the next scheduled run was computed with."""

    last_handled_reconcile_request: str = ""
    """The last reconcile request that a finished run has served."""

    current_run_id: str = field(default="", name="currentRunID")
    """The unfinished or else the last run."""

    current_run_trigger: Trigger | None = None
    """Why that run exists."""

    last_run_started_at: str | None = None
    """When its plan Job was created."""

    current_run: CurrentRun | None = None
    """What belongs to that run."""

    awaiting_approval: AwaitingApproval | None = None
    """Set while a plan waits for a person."""

    policy_violations: tuple[PolicyViolation, ...] = ()
    """Policies that the latest plan violates."""

    plan_summary: PlanSummary | None = None
    """What the latest plan would change."""

    policies_evaluated: int | None = None
    """How many policies the latest plan was checked against."""

    history_outbox: tuple[RunRecord, ...] = ()
    """Runs not yet stored in the history database."""


class Workspace(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """One Git source and one tool version, planned and applied by Jobs."""

    metadata: ObjectMeta
    spec: WorkspaceSpec
    """What is wanted."""

    status: WorkspaceStatus = WorkspaceStatus()
    """What is."""


WORKSPACES = Kind(group=GROUP, version=VERSION, plural="workspaces", name="Workspace", type=Workspace)
