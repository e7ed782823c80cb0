"""What a handler of the machine answers, and the one place where it becomes a Decision.

A status is summarised once, at the end of a pass: schedule, observedGeneration, conditions and lastReconcileTime are
put on here and nowhere else, and a status that says what it said before is not written. The tick rolls with whatever
else is written: while a run waits, the stored one may lie in the past.
"""

from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from magos.api.conditions import Abnormal, ConditionType, Standing, find, shorten, standing_conditions
from magos.api.phases import RUNNING, TERMINAL, WORKSPACE_TRANSITIONS, Phase, may_follow
from magos.api.reasons import Reason, reason_in
from magos.api.timestamps import format_time
from magos.api.workspace import WORKSPACES, ObservedVariables, WorkspaceStatus
from magos.errors import InvariantViolation
from magos.reconcilers.archive.outbox import remaining
from magos.reconcilers.events import EventBuilder
from magos.reconcilers.statuses import status_patch
from magos.reconcilers.workspace.inputs.annotated import read_annotations
from magos.reconcilers.workspace.inputs.probes import input_probes, live_probes, start_probes
from magos.reconcilers.workspace.inputs.schedule import Schedule, schedule_of
from magos.reconcilers.workspace.inputs.specification import same_specification
from magos.reconcilers.workspace.inputs.variables import Composition
from magos.reconcilers.workspace.observation import Observation
from magos.runtime.decision import Decision, Effect, Event, Outcome, Query

_OWNED = frozenset({ConditionType.INVALID_ANNOTATIONS, ConditionType.HISTORY_BACKLOG})


class Move(Struct, frozen=True, kw_only=True):
    """What a handler wants. ``status`` None writes no status at all in this pass."""

    status: WorkspaceStatus | None = None
    effects: tuple[Effect, ...] = ()
    events: tuple[Event, ...] = ()
    probes: tuple[Query, ...] = ()
    again_at: datetime | None = None
    outcome: Outcome = Outcome.DONE


def keep(seen: Observation, **changes: object) -> Move:
    """Stay where we are: the status is only brought up to date."""
    return replace(Move(status=seen.subject.status), **changes)


def to(seen: Observation, phase: Phase, reason: Reason, message: str, **fields: object) -> WorkspaceStatus:
    """Return the status with another phase, reason and message, and further ``fields`` replaced."""
    return replace(seen.subject.status, phase=phase, reason=str(reason), message=shorten(message), **fields)


def ask_live(seen: Observation) -> Move:
    """Ask for a live observation; the next pass decides."""
    meta = seen.subject.metadata
    return Move(probes=live_probes(meta.namespace, meta.name), outcome=Outcome.WAITING)


def ask_inputs(seen: Observation) -> Move:
    """Ask for the Project and the VariableSets alone; the next pass decides."""
    return Move(probes=input_probes(seen.subject, seen.project), outcome=Outcome.WAITING)


def ask_all(seen: Observation) -> Move:
    """Ask for everything that a start is decided on; the next pass decides."""
    return Move(probes=start_probes(seen.subject, seen.project), outcome=Outcome.WAITING)


def normal(seen: Observation, reason: str, action: str, note: str) -> Event:
    """Return a Normal Event about the Workspace."""
    return EventBuilder(WORKSPACES, action).normal(seen.subject, reason, note)


def warning(seen: Observation, reason: str, action: str, note: str) -> Event:
    """Return a Warning Event about the Workspace."""
    return EventBuilder(WORKSPACES, action).warning(seen.subject, reason, note)


def conclude(seen: Observation, move: Move) -> Decision:
    """Return the decision for what a handler wants.

    Raises ``InvariantViolation`` if it wants a phase that must not follow the one that is there.
    """
    workspace = seen.subject
    schedule = schedule_of(workspace, seen.now)
    schedule = replace(schedule, next=_whole_second(schedule.next))
    next_tick = schedule.next
    again = min(move.again_at, next_tick) if move.again_at is not None else next_tick
    patch = None
    events = move.events
    if move.status is not None:
        _check_transition(seen, move.status.phase)
        problems = read_annotations(workspace.metadata.annotations).problems
        desired = _summarise(seen, move.status, schedule, problems)
        if desired != workspace.status:
            patch = status_patch(WORKSPACES, workspace, desired)
            events += _annotation_events(seen, desired)
    return Decision(
        status=patch,
        effects=move.effects,
        events=events,
        queries=_with_what_is_known(seen, move.probes),
        requeue_at=again,
        outcome=move.outcome,
    )


def _with_what_is_known(seen: Observation, probes: tuple[Query, ...]) -> tuple[Query, ...]:
    """Return the probes with those that this pass has answers to.

    Answers live for one pass. Whoever asks for more on the strength of an answer needs both in the next pass: otherwise
    that one would ask for the first anew, and two questions would take turns without end.
    """
    if not probes:
        return ()
    workspace, meta = seen.subject, seen.subject.metadata
    known = (
        *(live_probes(meta.namespace, meta.name) if seen.live else ()),
        *(input_probes(workspace, seen.project) if seen.inputs_live else ()),
        *(start_probes(workspace, seen.project) if seen.complete else ()),
    )
    return tuple(dict.fromkeys((*probes, *known)))


def _check_transition(seen: Observation, after: Phase | None) -> None:
    """Whatever phase somebody else has written that no Workspace can be in counts as none (invariant I17)."""
    before, meta = seen.phase, seen.subject.metadata
    if before not in WORKSPACE_TRANSITIONS or (before is Phase.DELETING and meta.deletion_timestamp is None):
        before = None
    if after is not None and not may_follow(before, after):
        raise InvariantViolation(
            f"Workspace {meta.namespace}/{meta.name}: phase {after} must not follow {before or 'no phase'}, so nothing"
            " is written. This is a bug of Magos: report it with the Workspace's status."
        )


def _summarise(
    seen: Observation, status: WorkspaceStatus, schedule: Schedule, problems: tuple[str, ...]
) -> WorkspaceStatus:
    phase = status.phase
    if phase is None:
        return status
    reason, generation = reason_in(phase, status.reason), _generation(seen, status)
    abnormal = [
        *(_abnormal(ConditionType.INVALID_ANNOTATIONS, "InvalidAnnotation", "; ".join(problems)) if problems else ()),
        *_backlog(seen),
    ]
    standing = Standing(
        phase=phase,
        reason=reason,
        message=status.message,
        generation=generation,
        gated=status.awaiting_approval is not None,
    )
    ticking = phase is not Phase.DELETING
    interval = read_annotations(seen.subject.metadata.annotations).printed
    summary = replace(
        status,
        history_outbox=remaining(status.history_outbox, seen.history.stored),
        reason=str(reason),
        observed_generation=generation,
        observed_variables=_observed_variables(seen, status),
        next_reconcile_time=format_time(schedule.next) if ticking else status.next_reconcile_time,
        observed_reconcile_interval=interval if ticking else status.observed_reconcile_interval,
        conditions=standing_conditions(
            standing,
            status.conditions,
            seen.now,
            abnormal=abnormal,
            owned=_OWNED,
        ),
    )
    old = seen.subject.status
    passed = old.next_reconcile_time if schedule.due else summary.next_reconcile_time
    if replace(summary, next_reconcile_time=passed) == old:
        return old  # a tick that merely passed is worth no write: all later ones follow from it
    return replace(summary, last_reconcile_time=format_time(seen.now))


def _abnormal(type_: ConditionType, reason: str, message: str) -> tuple[Abnormal, ...]:
    return (Abnormal(type=type_, reason=reason, message=message),)


def _backlog(seen: Observation) -> tuple[Abnormal, ...]:
    """What of this Workspace has waited for the run history or the log archive for a while."""
    waiting = seen.history.backlog
    if waiting is None:
        return ()
    what = "1 record or log waits" if waiting.count == 1 else f"{waiting.count} records and logs wait"
    text = f"{what} to be stored since {format_time(waiting.since)}: {waiting.error.rstrip('.')}. Runs go on meanwhile."
    return _abnormal(ConditionType.HISTORY_BACKLOG, "ArchiveUnavailable", text)


def _observed_variables(seen: Observation, status: WorkspaceStatus) -> ObservedVariables | None:
    """What is applied, and the sets as they are now if they give exactly that.

    So a change that does not concern this Workspace counts as applied here, and no later step waits for it.
    """
    known, run = status.observed_variables, status.current_run
    if known is None and status.phase is Phase.APPLIED and run is not None:  # of a version that did not tell
        known = ObservedVariables(fingerprint=run.variables_fingerprint)
    inputs = seen.inputs
    if known is None or seen.project is None or not isinstance(inputs, Composition):
        return status.observed_variables
    return replace(known, sets=inputs.sets) if inputs.fingerprint == known.fingerprint else status.observed_variables


def _generation(seen: Observation, status: WorkspaceStatus) -> int:
    """The generation that the status speaks about.

    A run that goes on or has ended speaks about the spec it was started for. An edit that came meanwhile is spoken of
    from the reset on: until then nobody may take the end of the run for a word about what was edited.
    """
    newest, run = seen.subject.metadata.generation, status.current_run
    if status.observed_generation in (None, newest) or run is None or not run.plan_job:
        return newest
    if status.phase not in RUNNING | TERMINAL or same_specification(run.spec_hash, seen.subject, seen.project):
        return newest
    return status.observed_generation


def _annotation_events(seen: Observation, desired: WorkspaceStatus) -> tuple[Event, ...]:
    new = find(desired.conditions, ConditionType.INVALID_ANNOTATIONS)
    old = find(seen.subject.status.conditions, ConditionType.INVALID_ANNOTATIONS)
    if new is None or (old is not None and old.message == new.message):
        return ()
    return (warning(seen, "InvalidAnnotation", "Validate", new.message),)


def _whole_second(when: datetime) -> datetime:
    """Round up, so that the stored tick is never in the past of the tick it stands for."""
    return when if when.microsecond == 0 else when.replace(microsecond=0) + timedelta(seconds=1)
