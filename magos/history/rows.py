"""Records as rows, and rows as the runs that people see. Pure.

PostgreSQL cannot store every text that Kubernetes can: neither NUL characters nor halves of surrogate pairs. They are
replaced, for a record that can never be stored would block the queue behind it for ever.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, TypeVar

import msgspec

from magos.api.names import JobType
from magos.api.timestamps import format_time, parse_time
from magos.api.triggers import Trigger
from magos.api.workspace import ApprovalKind, PlanSummary, PolicyViolation, RunRecord, RunResult, UsedVariable
from magos.history.model import PhaseRecord, PhaseResult, WorkspaceKey
from magos.history.runs import Run, RunPhase

_E = TypeVar("_E", bound=StrEnum)
_V = TypeVar("_V")

_NOT_STORABLE: Final = re.compile("[\0\ud800-\udfff]")
_LARGEST: Final = 2**63 - 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MINTED: Final = re.compile(r"(\d{8}T\d{6})-", re.ASCII)

Row = Mapping[str, Any]


def storable(text: str) -> str:
    """Return ``text`` with U+FFFD in place of every character that PostgreSQL cannot store."""
    return _NOT_STORABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def run_row(workspace: WorkspaceKey, record: RunRecord) -> dict[str, Any]:
    """Return the row of a run by column; None stands for what is not known."""
    return {
        "ws_uid": storable(workspace.uid),
        "run_id": storable(record.run_id),
        "namespace": storable(workspace.namespace),
        "workspace": storable(workspace.name),
        "project": _text(workspace.project),
        "trigger": None if record.trigger is Trigger.UNKNOWN else str(record.trigger),
        "target_revision": _text(record.target_revision),
        "revision": _text(record.revision),
        "principal": _text(record.principal),
        "approved_by": _text(record.approved_by),
        "approval_kind": _text(record.approval_kind),
        "variables": _json(record.variables),
        "spec_hash": _text(record.spec_hash),
        "started_at": _moment(record.started_at),
        "finished_at": _moment(record.finished_at),
        "result": _text(record.result),
        "reason": _text(record.reason),
        "message": _text(record.message),
        "minted_at": minted_at(record.run_id),
    }


def phase_row(workspace: WorkspaceKey, record: PhaseRecord) -> dict[str, Any]:
    """Return the row of a phase by column; None stands for what is not known."""
    return {
        "ws_uid": storable(workspace.uid),
        "run_id": storable(record.run_id),
        "phase": str(record.phase),
        "job": _text(record.job),
        "pod": _text(record.pod),
        "started_at": _aware(record.started_at),
        "finished_at": _aware(record.finished_at),
        "result": _text(record.result),
        "exit_code": _number(record.exit_code),
        "reason": _text(record.reason),
        "plan_digest": _text(record.plan_digest),
        "terraform_version": _text(record.terraform_version),
        "log_key": _text(record.log_key),
        "log_bytes": _number(record.log_bytes),
        "log_error": _text(record.log_error),
        "changes": None if record.changes is None else _json(record.changes),
        "violations": _json(record.violations),
        "policies_evaluated": _number(record.policies_evaluated),
        "minted_at": minted_at(record.run_id),
    }


def minted_at(run_id: str) -> datetime:
    """Return the time that a run ID holds; 1970 if it holds none."""
    found = _MINTED.match(run_id)
    try:
        return datetime.strptime(found[1], "%Y%m%dT%H%M%S").replace(tzinfo=UTC) if found else _EPOCH
    except ValueError:
        return _EPOCH


def run_of(row: Row, phases: Iterable[Row]) -> Run:
    """Return a run from its row and the rows of its phases. What a later version of Magos wrote counts as unknown."""
    by_phase = {str(phase["phase"]): phase for phase in phases}
    plan = by_phase.get(JobType.PLAN, {})
    return Run(
        run_id=row["run_id"],
        workspace_uid=row["ws_uid"],
        project=row["project"] or "",
        trigger=_one_of(Trigger, row["trigger"]) or Trigger.UNKNOWN,
        target_revision=row["target_revision"] or "",
        observed_revision=row["revision"] or "",
        started_at=_written(row["started_at"]),
        finished_at=_written(row["finished_at"]),
        result=_one_of(RunResult, row["result"]),
        reason=row["reason"] or "",
        message=row["message"] or "",
        principal=row["principal"] or "",
        approved_by=row["approved_by"] or "",
        approval=_one_of(ApprovalKind, row["approval_kind"]),
        variables=_value(row["variables"], tuple[UsedVariable, ...]) or (),
        changes=_value(plan.get("changes"), PlanSummary),
        violations=_value(plan.get("violations"), tuple[PolicyViolation, ...]) or (),
        policies_evaluated=plan.get("policies_evaluated"),
        plan_digest=plan.get("plan_digest") or "",
        terraform_version=plan.get("terraform_version") or "",
        plan=_phase_of(by_phase.get(JobType.PLAN)),
        apply=_phase_of(by_phase.get(JobType.APPLY)),
    )


def _phase_of(row: Row | None) -> RunPhase | None:
    if row is None:
        return None
    return RunPhase(
        job_name=row["job"] or "",
        pod_name=row["pod"] or "",
        started_at=_written(row["started_at"]),
        finished_at=_written(row["finished_at"]),
        result=_one_of(PhaseResult, row["result"]),
        exit_code=row["exit_code"],
        reason=row["reason"] or "",
        log_key=row["log_key"] or "",
        log_size_bytes=row["log_bytes"],
        log_error=row["log_error"] or "",
    )


def _text(text: str | None) -> str | None:
    return storable(text) if text else None


def _number(number: int | None) -> int | None:
    return None if number is None else max(-_LARGEST, min(number, _LARGEST))


def _moment(text: str | None) -> datetime | None:
    """Return a time out of status; one that cannot be read is not known."""
    try:
        return parse_time(text) if text else None
    except ValueError:
        return None


def _aware(when: datetime | None) -> datetime | None:
    return when.replace(tzinfo=UTC) if when is not None and when.tzinfo is None else when


def _json(value: object) -> str | None:
    """Return ``value`` as JSON that PostgreSQL can store; nothing in it is nothing known."""
    return msgspec.json.encode(_cleaned(msgspec.to_builtins(value))).decode() if value else None


def _cleaned(value: Any) -> Any:
    match value:
        case str():
            return storable(value)
        case dict():
            return {storable(str(name)): _cleaned(each) for name, each in value.items()}
        case list() | tuple():
            return [_cleaned(each) for each in value]
        case _:
            return value


def _written(when: datetime | None) -> str | None:
    return None if when is None else format_time(when)


def _one_of(kind: type[_E], text: str | None) -> _E | None:
    return kind(text) if text in tuple(kind) else None


def _value(text: str | None, kind: type[_V]) -> _V | None:
    try:
        return msgspec.json.decode(text, type=kind) if text else None
    except msgspec.DecodeError:
        return None
