"""What history keeps of a run: one row for the run, one for each of its two phases (spec §8.1).

Rows belong to the UID of a Workspace, so that a Workspace that is created anew does not inherit history.
"""

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from magos.api.names import JobType
from magos.api.workspace import PlanSummary, PolicyViolation


class WorkspaceKey(Struct, frozen=True, kw_only=True):
    """The Workspace that rows belong to: ``uid`` is the key, the rest is what people look for."""

    uid: str
    namespace: str
    name: str
    project: str = ""


class PhaseResult(StrEnum):
    """How the Job of a phase ended."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class PhaseRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One phase of a run: its Job, its end and its log. Empty texts and None stand for what is not known."""

    run_id: str
    phase: JobType
    job: str
    pod: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    result: PhaseResult | None = None
    exit_code: int | None = None
    reason: str = ""
    plan_digest: str = ""
    terraform_version: str = ""
    log_key: str = ""
    """Key of the log in the bucket. Empty if none is stored."""
    log_bytes: int | None = None
    """Size of the log before compression."""
    log_error: str = ""
    """Why no log, or only a part of it, is stored. Empty if the whole log is."""
    changes: PlanSummary | None = None
    violations: tuple[PolicyViolation, ...] = ()
    policies_evaluated: int | None = None
