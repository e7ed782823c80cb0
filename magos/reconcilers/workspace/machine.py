"""The Workspace's phase machine: a table and a small, total interpreter.

The key is (phase, situation), the value the handler. A pair that is not listed is a bug and raises
``InvariantViolation``; there is no "else: ignore". ``docs/design/workspace-machine.md`` explains the rows.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar

from magos.api.labels import FINALIZER
from magos.api.phases import Phase
from magos.api.workspace import WORKSPACES
from magos.errors import InvariantViolation
from magos.reconcilers.workspace.evidence.situations import (
    Abandoned,
    Approved,
    Denied,
    HalfReset,
    JobEnded,
    JobHeld,
    JobMissing,
    JobPresent,
    JobRunning,
    JobUnstarted,
    Leftovers,
    RefusedStart,
    Situation,
    StrayJobs,
    Triggered,
)
from magos.reconcilers.workspace.evidence.triggers import refused_start
from magos.reconcilers.workspace.handlers import ends, gate, running
from magos.reconcilers.workspace.handlers.deletion import delete
from magos.reconcilers.workspace.handlers.finish import clean_up
from magos.reconcilers.workspace.handlers.refusals import explain
from magos.reconcilers.workspace.handlers.repetition import wait_for_repetition
from magos.reconcilers.workspace.handlers.reset import amend, begin, delete_job, finish_reset
from magos.reconcilers.workspace.handlers.starting import start
from magos.reconcilers.workspace.move import Move, ask_live, conclude, keep
from magos.reconcilers.workspace.observation import Observation
from magos.reconcilers.workspace.situation import NO_RUN, phase_of, situation_of
from magos.runtime.decision import AddFinalizer, Decision, Outcome

Handler: TypeAlias = Callable[[Observation, Any], Move]
"""Gets the evidence of its situation; ``_on`` has the type checker compare the two."""

_Row: TypeAlias = tuple[tuple[Phase | str, Situation], Handler]
_S = Situation
_PHASES: tuple[Phase | str, ...] = (
    NO_RUN,
    Phase.PENDING,
    Phase.PLANNING,
    Phase.PLANNED,
    Phase.PLANNED_WITH_VIOLATIONS,
    Phase.APPLYING,
    Phase.APPLIED,
    Phase.FAILED,
    Phase.VALIDATION_FAILED,
)
_F = TypeVar(
    "_F",
    Denied,
    JobPresent,
    HalfReset,
    StrayJobs,
    JobHeld,
    Leftovers,
    Abandoned,
    RefusedStart,
    Triggered,
    Approved,
    JobMissing,
    JobEnded,
    JobRunning,
    JobUnstarted,
)


def claim(seen: Observation) -> Move:
    """Put our finalizer on; everything else is for a later pass."""
    meta = seen.subject.metadata
    effect = AddFinalizer(
        kind=WORKSPACES,
        namespace=meta.namespace,
        name=meta.name,
        resource_version=meta.resource_version,
        finalizer=FINALIZER,
    )
    return Move(effects=(effect,))


def begin_after_failure(seen: Observation, found: Triggered) -> Move:
    """A refused start begins anew with its former trigger; everything else with the first that holds."""
    return start.restart(seen, found.cause) if refused_start(seen) and seen.has_run else begin(seen, found)


def delete_abandoned(seen: Observation, found: Abandoned) -> Move:
    """Finish what a crash left of a start that was given up; a container that started meanwhile is not touched."""
    if not seen.live:
        return ask_live(seen)
    return Move(effects=tuple(map(delete_job, found.jobs)))


def delete_strays(seen: Observation, found: StrayJobs) -> Move:
    """Delete what may never start; only a live status says for certain that it names another Job, or none."""
    if not seen.live:
        return ask_live(seen)
    return Move(effects=tuple(map(delete_job, found.jobs)))


def _on(phase: Phase | str, found: type[_F], handler: Callable[[Observation, _F], Move]) -> _Row:
    """Return the row of a situation that carries evidence."""
    return (phase, found.kind), handler


def _in(phase: Phase | str, situation: Situation, handler: Callable[[Observation], Move]) -> _Row:
    """Return the row of a situation that the observation alone explains."""
    return (phase, situation), lambda seen, _found: handler(seen)


def _everywhere(handler: Callable[[Observation], Move], situation: Situation) -> tuple[_Row, ...]:
    return tuple(_in(phase, situation, handler) for phase in _PHASES)


def _with_plan(phase: Phase) -> tuple[_Row, ...]:
    return (
        _on(phase, JobPresent, running.adopt_apply),
        _on(phase, Triggered, begin),
        _in(phase, _S.GATED, gate.wait_for_approval),
        _on(phase, Approved, gate.open_gate),
        _in(phase, _S.FORBIDDEN, start.await_permission),
        _in(phase, _S.PERMITTED, start.start_apply),
    )


def _terminal(phase: Phase, triggered: Callable[[Observation, Triggered], Move] = begin) -> tuple[_Row, ...]:
    return (
        _on(phase, Leftovers, clean_up),
        _on(phase, Abandoned, delete_abandoned),
        _on(phase, Triggered, triggered),
        _in(phase, _S.SETTLED, keep),
    )


_ROWS: tuple[_Row, ...] = (
    *_everywhere(ask_live, _S.UNCERTAIN),
    *_everywhere(delete, _S.DELETING),
    *(_on(phase, Denied, explain) for phase in _PHASES),
    *_everywhere(claim, _S.UNCLAIMED),
    *(_on(phase, StrayJobs, delete_strays) for phase in _PHASES if phase != NO_RUN),
    _on(NO_RUN, Triggered, begin),
    _on(Phase.PENDING, JobPresent, running.adopt_plan),
    _on(Phase.PENDING, HalfReset, finish_reset),
    _on(Phase.PENDING, Triggered, amend),
    _in(Phase.PENDING, _S.PAUSED, wait_for_repetition),
    _in(Phase.PENDING, _S.FORBIDDEN, start.await_permission),
    _in(Phase.PENDING, _S.PERMITTED, start.start_plan),
    _on(Phase.PLANNING, JobUnstarted, running.watch_start),
    _on(Phase.PLANNING, JobRunning, running.progress_plan),
    _on(Phase.PLANNING, JobEnded, ends.plan_ended),
    _on(Phase.PLANNING, JobMissing, ends.plan_missing),
    *_with_plan(Phase.PLANNED),
    *_with_plan(Phase.PLANNED_WITH_VIOLATIONS),
    _on(Phase.APPLYING, JobHeld, running.release_apply),
    _on(Phase.APPLYING, JobUnstarted, running.watch_start),
    _on(Phase.APPLYING, JobRunning, running.progress_apply),
    _on(Phase.APPLYING, JobEnded, ends.apply_ended),
    _on(Phase.APPLYING, JobMissing, ends.apply_missing),
    *_terminal(Phase.APPLIED),
    *_terminal(Phase.FAILED, begin_after_failure),
    *_terminal(Phase.VALIDATION_FAILED),
    _on(Phase.FAILED, RefusedStart, start.rejudge),
)

TABLE: Mapping[tuple[Phase | str, Situation], Handler] = MappingProxyType(dict(_ROWS))
"""What happens in which phase and situation."""


def reconcile(seen: Observation) -> Decision:
    """Return the decision for one observation: total, deterministic and free of side effects."""
    if seen.workspace is None:
        return Decision(outcome=Outcome.GONE)
    phase, found = phase_of(seen), situation_of(seen)
    handler = TABLE.get((phase, found.kind))
    if handler is None:
        raise InvariantViolation(
            f"Workspace {seen.workspace.metadata.namespace}/{seen.workspace.metadata.name}: phase {phase or 'none'}"
            f" cannot be in situation {found.kind}"
        )
    return conclude(seen, handler(seen, found))
