"""How far the current run is: queued, plan, policies, gate, apply, from what status and history prove.

A step is said to be done only where something proves it; times are shown where they are known.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from msgspec import Struct

from magos.api.phases import Phase
from magos.api.reasons import Reason
from magos.api.workspace import Workspace
from magos.history.runs import Run, RunPhase
from magos.ui.times import Moment, between, duration, moment


class StepState(StrEnum):
    """How a step stands."""

    DONE = "done"
    ACTIVE = "active"
    WAITING = "waiting"
    FAILED = "failed"
    OPEN = "open"
    SKIPPED = "skipped"


class Step(Struct, frozen=True, kw_only=True):
    """A step of the run. ``note`` says what is known besides: how long it took, or why it was skipped."""

    title: str
    state: StepState
    note: str = ""
    at: Moment | None = None


class _Reached(NamedTuple):
    queued: StepState
    plan: StepState
    policies: StepState
    gate: StepState
    apply: StepState


_S = StepState
_REACHED: Mapping[Phase, _Reached] = MappingProxyType(
    {
        Phase.PENDING: _Reached(_S.ACTIVE, _S.OPEN, _S.OPEN, _S.OPEN, _S.OPEN),
        Phase.PLANNING: _Reached(_S.DONE, _S.ACTIVE, _S.OPEN, _S.OPEN, _S.OPEN),
        Phase.PLANNED: _Reached(_S.DONE, _S.DONE, _S.DONE, _S.DONE, _S.OPEN),
        Phase.PLANNED_WITH_VIOLATIONS: _Reached(_S.DONE, _S.DONE, _S.FAILED, _S.OPEN, _S.OPEN),
        Phase.APPLYING: _Reached(_S.DONE, _S.DONE, _S.DONE, _S.DONE, _S.ACTIVE),
        Phase.APPLIED: _Reached(_S.DONE, _S.DONE, _S.DONE, _S.DONE, _S.DONE),
        Phase.VALIDATION_FAILED: _Reached(_S.DONE, _S.DONE, _S.FAILED, _S.OPEN, _S.OPEN),
    }
)
_NOTHING = _Reached(_S.OPEN, _S.OPEN, _S.OPEN, _S.OPEN, _S.OPEN)
_TITLES = ("Queued", "Plan", "Policies", "Approval", "Apply")


def timeline(workspace: Workspace, run: Run | None, now: datetime) -> tuple[Step, ...]:
    """Return the steps of the run that the Workspace shows; ``run`` is what history knows of it."""
    reached = _reached(workspace)
    plan, apply = (run.plan, run.apply) if run else (None, None)
    states = list(reached)
    notes = ["", _took(plan, now), "", "", _took(apply, now)]
    status = workspace.status
    if workspace.status.phase is Phase.APPLIED and status.plan_summary and status.plan_summary.no_changes:
        states[3:], notes[3:] = [_S.SKIPPED, _S.SKIPPED], ["not needed", "no changes"]
    elif states[3] is _S.DONE and (status.current_run is None or status.current_run.approval is None):
        states[3], notes[3] = _S.SKIPPED, "not needed"
    if status.policies_evaluated:
        notes[2] = f"{status.policies_evaluated} evaluated"
    elif states[2] is _S.DONE:
        states[2], notes[2] = _S.SKIPPED, "none selected"
    if status.policy_violations and states[1] is _S.DONE:
        states[2], notes[2] = _S.FAILED, f"{len(status.policy_violations)} violated"
    times: list[str | None] = [None, status.last_run_started_at, None, None, apply.started_at if apply else None]
    if status.awaiting_approval:
        states[3], notes[3], times[3] = _S.WAITING, "waits for you", status.awaiting_approval.since
    if states[1] is _S.OPEN:
        times[1] = None
    return tuple(
        Step(title=title, state=state, note=note, at=moment(at, now))
        for title, state, note, at in zip(_TITLES, states, notes, times, strict=True)
    )


def _reached(workspace: Workspace) -> _Reached:
    status = workspace.status
    if status.phase is Phase.FAILED:
        if status.reason == Reason.APPLY_FAILED or (status.current_run and status.current_run.apply_job):
            return _Reached(_S.DONE, _S.DONE, _S.DONE, _S.DONE, _S.FAILED)
        if status.reason == Reason.POLICY_EVALUATION_FAILED:
            return _Reached(_S.DONE, _S.DONE, _S.FAILED, _S.OPEN, _S.OPEN)
        planned = status.current_run is not None and bool(status.current_run.plan_job)
        return _Reached(_S.DONE if planned else _S.FAILED, _S.FAILED if planned else _S.OPEN, _S.OPEN, _S.OPEN, _S.OPEN)
    return _REACHED.get(status.phase, _NOTHING) if status.phase else _NOTHING


def _took(phase: RunPhase | None, now: datetime) -> str:
    if phase is None:
        return ""
    seconds = between(phase.started_at, phase.finished_at or now)
    return "" if seconds is None else duration(seconds)
