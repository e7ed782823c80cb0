"""The state of a member in the promotion (spec §6.4, rule 5), by a table over its phase."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from magos.api.annotations import reconcile_request
from magos.api.phases import TERMINAL, WITH_PLAN, Phase
from magos.api.triggers import Trigger
from magos.api.workspace import Workspace
from magos.errors import InvariantViolation
from magos.reconcilers.revisions import applied_revision, detected_revision


class MemberState(StrEnum):
    """From what stops all steps to what stops none."""

    FAILED = "failed"
    URGENT = "urgent"
    DRIFT = "drift"
    SETTLED = "settled"


class _Run(StrEnum):
    """What the phase says about the run."""

    NONE = "none"
    UNFINISHED = "unfinished"
    APPLIED = "applied"
    FAILED = "failed"


_P = Phase
_RUNS: Mapping[Phase | None, _Run] = MappingProxyType(
    {
        None: _Run.NONE,
        _P.PENDING: _Run.UNFINISHED,
        _P.PLANNING: _Run.UNFINISHED,
        _P.PLANNED: _Run.UNFINISHED,
        _P.PLANNED_WITH_VIOLATIONS: _Run.UNFINISHED,
        _P.APPLYING: _Run.UNFINISHED,
        _P.APPLIED: _Run.APPLIED,
        _P.FAILED: _Run.FAILED,
        _P.VALIDATION_FAILED: _Run.FAILED,
        # No Workspace is ever in these; its reconciler answers such a status with a new run.
        _P.READY: _Run.NONE,
        _P.RECONCILING: _Run.NONE,
        _P.IDLE: _Run.NONE,
        _P.DELETING: _Run.NONE,
    }
)


def gated(member: Workspace) -> bool:
    """Tell whether the member's plan waits for a person."""
    return member.status.phase in WITH_PLAN and member.status.awaiting_approval is not None


def member_state(member: Workspace) -> MemberState:
    """Return the state of the member."""
    phase = member.status.phase
    if phase not in _RUNS:
        raise InvariantViolation(f"phase {phase} is missing in the table of member states")
    run = _RUNS[phase]
    if run is _Run.FAILED:
        return MemberState.FAILED
    if run is _Run.NONE or _has_news(member):
        return MemberState.URGENT
    if run is _Run.APPLIED:
        return MemberState.SETTLED
    if member.status.current_run_trigger is not Trigger.SCHEDULED:
        return MemberState.URGENT
    return MemberState.SETTLED if gated(member) else MemberState.DRIFT


def _has_news(member: Workspace) -> bool:
    """Tell whether the Workspace has work that a new run will do."""
    meta, status = member.metadata, member.status
    detected = detected_revision(member)
    return (
        status.observed_generation != meta.generation
        or (bool(detected) and detected != applied_revision(member))
        or _request_unconsumed(member)
    )


def _request_unconsumed(member: Workspace) -> bool:
    """A request is consumed once the run that recorded it is finished; the annotation follows a moment later."""
    request, run = reconcile_request(member.metadata.annotations), member.status.current_run
    finished = member.status.phase in TERMINAL
    return bool(request) and not (finished and run is not None and run.request == request)
