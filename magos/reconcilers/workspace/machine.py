"""The Workspace's phase machine: a table and a small, total interpreter.

The key is (phase, situation), the value the handler. A pair that is not listed is a bug and raises
``InvariantViolation``; there is no "else: ignore". ``docs/design/workspace-machine.md`` explains the rows.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from magos.api.labels import FINALIZER
from magos.api.phases import Phase
from magos.api.workspace import WORKSPACES
from magos.errors import InvariantViolation
from magos.reconcilers.workspace.evidence.progress import abandoned_jobs
from magos.reconcilers.workspace.evidence.triggers import refused_start
from magos.reconcilers.workspace.handlers import ends, gate, running
from magos.reconcilers.workspace.handlers.deletion import delete
from magos.reconcilers.workspace.handlers.finish import clean_up
from magos.reconcilers.workspace.handlers.refusals import explain
from magos.reconcilers.workspace.handlers.reset import amend, begin, delete_job, finish_reset
from magos.reconcilers.workspace.handlers.starting import start
from magos.reconcilers.workspace.move import Move, ask_live, conclude, keep
from magos.reconcilers.workspace.observation import Observation
from magos.reconcilers.workspace.situation import NO_RUN, Situation, phase_of, situation_of
from magos.runtime.decision import AddFinalizer, Decision, Outcome

__all__ = ["TABLE", "reconcile"]

Handler: TypeAlias = Callable[[Observation], Move]

_S = Situation


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


def begin_after_failure(seen: Observation) -> Move:
    """A refused start begins anew with its former trigger; everything else with the first that holds."""
    return start.restart(seen) if refused_start(seen) and seen.has_run else begin(seen)


def delete_abandoned(seen: Observation) -> Move:
    """Finish what a crash left of a start that was given up; a container that started meanwhile is not touched."""
    if not seen.live:
        return ask_live(seen)
    return Move(effects=tuple(map(delete_job, abandoned_jobs(seen))))


def _everywhere(handler: Handler, situation: Situation) -> dict[tuple[Phase | str, Situation], Handler]:
    phases: tuple[Phase | str, ...] = (
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
    return {(phase, situation): handler for phase in phases}


def _with_plan(phase: Phase) -> dict[tuple[Phase | str, Situation], Handler]:
    return {
        (phase, _S.JOB_PRESENT): running.adopt_apply,
        (phase, _S.TRIGGERED): begin,
        (phase, _S.GATED): gate.wait_for_approval,
        (phase, _S.APPROVED): gate.open_gate,
        (phase, _S.FORBIDDEN): start.await_permission,
        (phase, _S.PERMITTED): start.start_apply,
    }


def _terminal(phase: Phase) -> dict[tuple[Phase | str, Situation], Handler]:
    return {
        (phase, _S.LEFTOVERS): clean_up,
        (phase, _S.ABANDONED): delete_abandoned,
        (phase, _S.TRIGGERED): begin,
        (phase, _S.SETTLED): keep,
    }


TABLE: Mapping[tuple[Phase | str, Situation], Handler] = MappingProxyType(
    {
        **_everywhere(ask_live, _S.UNCERTAIN),
        **_everywhere(delete, _S.DELETING),
        **_everywhere(explain, _S.REFUSED),
        **_everywhere(claim, _S.UNCLAIMED),
        (NO_RUN, _S.TRIGGERED): begin,
        (Phase.PENDING, _S.JOB_PRESENT): running.adopt_plan,
        (Phase.PENDING, _S.HALF_RESET): finish_reset,
        (Phase.PENDING, _S.TRIGGERED): amend,
        (Phase.PENDING, _S.FORBIDDEN): start.await_permission,
        (Phase.PENDING, _S.PERMITTED): start.start_plan,
        (Phase.PLANNING, _S.JOB_UNSTARTED): running.watch_start_of_plan,
        (Phase.PLANNING, _S.JOB_RUNNING): running.progress_plan,
        (Phase.PLANNING, _S.JOB_ENDED): ends.plan_ended,
        (Phase.PLANNING, _S.JOB_MISSING): ends.plan_missing,
        **_with_plan(Phase.PLANNED),
        **_with_plan(Phase.PLANNED_WITH_VIOLATIONS),
        (Phase.APPLYING, _S.JOB_UNSTARTED): running.watch_start_of_apply,
        (Phase.APPLYING, _S.JOB_RUNNING): running.progress_apply,
        (Phase.APPLYING, _S.JOB_ENDED): ends.apply_ended,
        (Phase.APPLYING, _S.JOB_MISSING): ends.apply_missing,
        **_terminal(Phase.APPLIED),
        **_terminal(Phase.FAILED),
        **_terminal(Phase.VALIDATION_FAILED),
        (Phase.FAILED, _S.TRIGGERED): begin_after_failure,
        (Phase.FAILED, _S.REFUSED_START): start.rejudge,
    }
)
"""What happens in which phase and situation."""


def reconcile(seen: Observation) -> Decision:
    """Return the decision for one observation: total, deterministic and free of side effects."""
    if seen.workspace is None:
        return Decision(outcome=Outcome.GONE)
    phase, situation = phase_of(seen), situation_of(seen)
    handler = TABLE.get((phase, situation))
    if handler is None:
        raise InvariantViolation(
            f"Workspace {seen.workspace.metadata.namespace}/{seen.workspace.metadata.name}: phase {phase or 'none'}"
            f" cannot be in situation {situation}"
        )
    return conclude(seen, handler(seen))
