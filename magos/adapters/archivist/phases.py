"""The rows of a run and of its phases as the Job of a phase tells them. Pure."""

from datetime import UTC, datetime

from msgspec import Struct
from msgspec.structs import replace

from magos.api.annotations import RECORD, RESULT
from magos.api.kube import Job, Pod
from magos.api.names import JobType
from magos.api.reasons import Reason
from magos.api.result import Outcome, Result
from magos.api.timestamps import parse_time
from magos.api.triggers import Trigger
from magos.api.workspace import PlanSummary, PolicyViolation, RunRecord
from magos.history.model import PhaseRecord, PhaseResult, WorkspaceKey
from magos.reconcilers.archive.jobs import Due, JobTask
from magos.reconcilers.workspace.evidence.results import judge
from magos.reconcilers.workspace.pod.record import JobRecord, decode_record

_MOST_VIOLATIONS = 50


class LogEnd(Struct, frozen=True, kw_only=True):
    """What became of a log: ``key`` where it is stored, ``error`` why it is not, or not whole."""

    key: str = ""
    size: int | None = None
    error: str = ""


def workspace_key(task: JobTask) -> WorkspaceKey:
    """Return whose rows these are."""
    record = _record(task.job)
    project = record.project if record is not None else ""
    return WorkspaceKey(uid=task.uid, namespace=task.job.metadata.namespace, name=task.workspace, project=project)


def run_row(task: JobTask) -> RunRecord | None:
    """Return the row of the run that a plan Job begins, None for an apply Job and where the record was changed."""
    record = _record(task.job)
    if task.job_type is not JobType.PLAN or record is None or record.run_id != task.run_id:
        return None
    trigger = Trigger(record.trigger) if record.trigger in set(Trigger) else Trigger.UNKNOWN
    return RunRecord(
        run_id=record.run_id,
        trigger=trigger,
        target_revision=record.target_revision,
        revision=record.revision,
        spec_hash=record.spec_hash,
        principal=record.principal,
        started_at=task.job.metadata.creation_timestamp,
    )


def phase_row(task: JobTask, pods: tuple[Pod, ...], log: LogEnd) -> PhaseRecord:
    """Return the row of the phase, as far as it is known by now."""
    row = PhaseRecord(
        run_id=task.run_id,
        phase=task.job_type,
        job=task.job.metadata.name,
        pod=pods[0].metadata.name if pods else "",
        started_at=time_of(task.job.metadata.creation_timestamp),
        log_key=log.key,
        log_bytes=log.size,
        log_error=log.error,
    )
    return row if task.due is Due.BEGINNING else _ended(row, task)


def ended_at(job: Job) -> datetime | None:
    """Return when a Job ended, or was deleted without having ended; None if it does not tell."""
    ends = [each.last_transition_time for each in job.status.conditions if each.type in ("Complete", "Failed")]
    return time_of(next((at for at in (job.status.completion_time, *ends, job.metadata.deletion_timestamp) if at), ""))


def time_of(text: str | None) -> datetime | None:
    """Return a time that the API server wrote, None if it cannot be read."""
    try:
        return parse_time(text or "").astimezone(UTC)
    except ValueError:
        return None


def _ended(row: PhaseRecord, task: JobTask) -> PhaseRecord:
    job, result = task.job, judge(task.job.metadata.annotations.get(RESULT, ""), task.run_id, task.job_type).result
    failed = job.failed is not None or result is None or result.result is Outcome.FAILED
    if job.complete and result is None:
        failed = task.job_type is JobType.PLAN
    row = replace(row, finished_at=ended_at(job), result=PhaseResult.FAILED if failed else PhaseResult.SUCCEEDED)
    if result is not None:
        row = _told(row, result)
    if failed and not row.reason:
        condition = job.failed
        row = replace(row, reason=(condition.reason if condition is not None else "") or str(Reason.RESULT_MISSING))
    return row


def _told(row: PhaseRecord, result: Result) -> PhaseRecord:
    row = replace(
        row,
        exit_code=result.exit_code,
        reason=result.reason,
        plan_digest=result.plan_digest,
        terraform_version=result.terraform_version,
    )
    if result.phase is not JobType.PLAN:
        return row
    changes, succeeded = result.changes, result.result is Outcome.SUCCEEDED
    return replace(
        row,
        changes=PlanSummary(
            add=changes.add, change=changes.change, destroy=changes.destroy, no_changes=not result.has_changes
        )
        if succeeded
        else None,
        violations=tuple(
            PolicyViolation(policy=each.policy, message=each.message, action=each.action)
            for each in result.violations[:_MOST_VIOLATIONS]
        ),
        policies_evaluated=result.policies.evaluated,
    )


def _record(job: Job) -> JobRecord | None:
    return decode_record(job.metadata.annotations.get(RECORD, ""))
