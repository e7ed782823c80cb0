"""What a Rollout's spec and its members mean, step by step of spec §6.4: a status, and whose permission changes.

It does not ask whether the observation is fresh. Permission is only ever given inside the active step.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from magos.api.phases import Phase
from magos.api.reasons import Reason
from magos.api.rollout import Rollout
from magos.api.workspace import Workspace
from magos.errors import InvariantViolation
from magos.reconcilers.members import can_be_granted, carries_permission, wants_grant
from magos.reconcilers.rollout import messages
from magos.reconcilers.rollout.cohorts import Cohorts, UnparsableSelector, divide
from magos.reconcilers.rollout.memberstate import MemberState, member_state
from magos.reconcilers.rollout.progress import StepState, active_step, states_of
from magos.reconcilers.rollout.promotion import Obstacle, obstacle_of


class Evaluation(Struct, frozen=True, kw_only=True):
    """``current_step`` is always known; ``unselected`` is None where it is unknown.

    ``step`` is the label of the active step, empty if there is none; ``left`` that of the stored step if progress has
    gone past it.
    """

    phase: Phase
    reason: Reason
    message: str
    current_step: int
    unselected: tuple[Workspace, ...] | None = None
    grants: tuple[Workspace, ...] = ()
    revocations: tuple[Workspace, ...] = ()
    step: str = ""
    left: str = ""


def stored_step(rollout: Rollout) -> int:
    """Return the step that progress is counted from: the stored one, 0 if there is none or the spec has changed."""
    status, steps = rollout.status, rollout.spec.strategy.steps
    if status.current_step is None or status.observed_generation != rollout.metadata.generation:
        return 0
    return max(0, min(status.current_step, len(steps)))


def evaluate(rollout: Rollout, members: tuple[Workspace, ...]) -> Evaluation:
    """Return the evaluation; the order of ``members`` does not matter."""
    project, steps = rollout.spec.project_ref, rollout.spec.strategy.steps
    if project != rollout.metadata.name:
        message = f"spec.projectRef is {project!r} but must equal the Rollout's own name. Correct it;"
        return _error(rollout, f"{message} no member is granted until then.")
    try:
        cohorts = divide(steps, members)
    except UnparsableSelector as error:
        return _error(rollout, f"The selector of {error}. No member is granted until you correct it.")
    if not steps:
        message = "The Rollout has no steps, so no member may run. Add steps, or delete the Rollout."
        return _halted(cohorts, Phase.READY, Reason.NO_STEPS, message)
    if cohorts.empty:
        return _halted(cohorts, Phase.FAILED, Reason.NO_WORKSPACES_FOUND, messages.none_selected(cohorts, project))
    return _progress(cohorts, stored_step(rollout))


def _error(rollout: Rollout, message: str) -> Evaluation:
    """Return the evaluation of a spec that says nothing: no permission is given and none is taken."""
    return Evaluation(
        phase=Phase.FAILED, reason=Reason.RECONCILE_ERROR, message=message, current_step=stored_step(rollout)
    )


def _halted(cohorts: Cohorts, phase: Phase, reason: Reason, message: str) -> Evaluation:
    """Return the evaluation under which no member may run."""
    halted = _evaluation(cohorts, len(cohorts.steps), phase, reason, message)
    return replace(halted, current_step=cohorts.empty[0] if cohorts.empty else 0)


def _progress(cohorts: Cohorts, stored: int) -> Evaluation:
    states = states_of(cohorts.steps)
    active = active_step(states, stored)
    if active == len(states):
        evaluation = _completed(cohorts)
    else:
        handler = _ACTIVE.get(states[active])
        if handler is None:
            raise InvariantViolation(f"a step in state {states[active]} cannot be the active one")
        evaluation = handler(cohorts, active)
    left = cohorts.label(stored) if stored < evaluation.current_step and cohorts.steps[stored].cohort else ""
    return replace(evaluation, left=left)


def _completed(cohorts: Cohorts) -> Evaluation:
    total = len(cohorts.steps)
    message = f"{total} of {total} steps are complete."
    return _evaluation(cohorts, total, Phase.APPLIED, Reason.ROLLOUT_COMPLETED, message)


def _failed(cohorts: Cohorts, active: int) -> Evaluation:
    return _evaluation(cohorts, active, Phase.FAILED, Reason.STEP_FAILED, messages.failed(cohorts, active))


def _waited_for(cohorts: Cohorts, active: int) -> int:
    """Return the step whose drift the active step waits for, else the active step.

    A scheduled run of an earlier step is left for the next pass; but if it is to apply a VariableSet that a member of
    the active step waits for, both would wait for each other.
    """
    obstacles = _obstacles(cohorts, active).values()
    behind = {each.metadata.name for found in obstacles if found and found.variable_set for each in found.behind}
    return next(
        (
            index
            for index, step in enumerate(cohorts.steps[:active])
            if any(each.metadata.name in behind and member_state(each) is MemberState.DRIFT for each in step.cohort)
        ),
        active,
    )


def _obstacles(cohorts: Cohorts, active: int) -> dict[str, Obstacle | None]:
    """Return what stands against a grant, for each member of the step that wants one."""
    earlier = cohorts.before(active)
    wanting = (member for member in cohorts.steps[active].cohort if wants_grant(member))
    return {member.metadata.name: obstacle_of(member, earlier) for member in wanting}


def _progressing(cohorts: Cohorts, active: int) -> Evaluation:
    active = _waited_for(cohorts, active)
    obstacles = _obstacles(cohorts, active)
    message = messages.progressing(cohorts, active, [each for each in obstacles.values() if each is not None])
    progressing = _evaluation(cohorts, active, Phase.RECONCILING, Reason.LEVEL_PROGRESSING, message)
    free = {name for name, obstacle in obstacles.items() if obstacle is None}
    granted = (each for each in cohorts.steps[active].cohort if each.metadata.name in free and can_be_granted(each))
    return replace(progressing, grants=tuple(granted))


_Handler: TypeAlias = Callable[[Cohorts, int], Evaluation]

_ACTIVE: Mapping[StepState, _Handler] = MappingProxyType(
    {StepState.FAILED: _failed, StepState.URGENT: _progressing, StepState.DRIFT: _progressing}
)
"""What is done in the active step, by its state. A settled or empty step has nothing that could make it active."""


def _evaluation(cohorts: Cohorts, active: int, phase: Phase, reason: Reason, message: str) -> Evaluation:
    """Return the evaluation under which only the active step, if there is one, keeps its permission."""
    return Evaluation(
        phase=phase,
        reason=reason,
        message=message,
        current_step=active,
        unselected=cohorts.unselected,
        revocations=tuple(filter(carries_permission, cohorts.outside(active))),
        step=cohorts.label(active) if active < len(cohorts.steps) else "",
    )
