"""A run as the API, the UI and the command line show it (spec §9.2)."""

from msgspec import Struct, field

from magos.api.names import JobType
from magos.api.triggers import Trigger
from magos.api.workspace import ApprovalKind, PlanSummary, PolicyViolation, RunResult, UsedVariable
from magos.history.model import PhaseResult


class RunPhase(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The plan or the apply of a run."""

    job_name: str = ""
    pod_name: str = ""
    started_at: str | None = None
    finished_at: str | None = None
    result: PhaseResult | None = None
    exit_code: int | None = None
    reason: str = ""
    log_key: str = ""
    log_size_bytes: int | None = None
    log_error: str = ""


class Run(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One run. Times are RFC 3339 in UTC."""

    run_id: str = field(name="runID")
    workspace_uid: str = field(default="", name="workspaceUID")
    project: str = ""
    trigger: Trigger = Trigger.UNKNOWN
    target_revision: str = ""
    observed_revision: str = ""
    """Commit that was planned."""
    started_at: str | None = None
    finished_at: str | None = None
    result: RunResult | None = None
    reason: str = ""
    message: str = ""
    principal: str = ""
    approved_by: str = ""
    approval: ApprovalKind | None = None
    variables: tuple[UsedVariable, ...] = ()
    changes: PlanSummary | None = None
    violations: tuple[PolicyViolation, ...] = ()
    policies_evaluated: int | None = None
    plan_digest: str = ""
    terraform_version: str = ""
    plan: RunPhase | None = None
    apply: RunPhase | None = None

    def phase(self, phase: JobType) -> RunPhase | None:
        """Return the plan or the apply, None if history does not have it."""
        return self.plan if phase is JobType.PLAN else self.apply


class RunPage(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A page of runs, newest first. ``next_cursor`` asks for the page behind it; it is empty on the last one."""

    items: tuple[Run, ...]
    next_cursor: str = ""


class Prunable(Struct, frozen=True, kw_only=True):
    """A run that retention no longer keeps, and the keys of its logs."""

    workspace_uid: str
    run_id: str
    log_keys: tuple[str, ...] = ()
