"""Which step is active (spec §6.4, rule 6): a table over where urgent work and drift are, and a total interpreter.

Seen from the stored step, work is nowhere, behind, ahead (the stored step included), or on both sides. Urgent work
behind rewinds; drift behind waits until nothing else is left and then begins a new pass.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import TypeAlias

from msgspec import Struct

from magos.errors import InvariantViolation
from magos.reconcilers.rollout.cohorts import Step
from magos.reconcilers.rollout.memberstate import MemberState, member_state


class StepState(StrEnum):
    """The gravest member state in a step's cohort; a step without a cohort is complete with its predecessor."""

    FAILED = "failed"
    URGENT = "urgent"
    DRIFT = "drift"
    SETTLED = "settled"
    EMPTY = "empty"


class Place(StrEnum):
    """Where steps with some work are, seen from the stored step."""

    NOWHERE = "nowhere"
    BEHIND = "behind"
    AHEAD = "ahead"
    BOTH = "both"


class _Work(Struct, frozen=True, kw_only=True):
    """The indices of steps with urgent (or failed) members and of those with drift only."""

    total: int
    stored: int
    urgent: tuple[int, ...]
    drift: tuple[int, ...]


_Rule: TypeAlias = Callable[[_Work], int]


def _complete(work: _Work) -> int:
    return work.total


def _rewind(work: _Work) -> int:
    return work.urgent[0]


def _go_on(work: _Work) -> int:
    return min(index for index in (*work.urgent, *work.drift) if index >= work.stored)


def _new_pass(work: _Work) -> int:
    return work.drift[0]


_W = Place
TABLE: Mapping[tuple[Place, Place], _Rule] = MappingProxyType(
    {
        # urgent work, drift
        (_W.NOWHERE, _W.NOWHERE): _complete,
        (_W.NOWHERE, _W.BEHIND): _new_pass,
        (_W.NOWHERE, _W.AHEAD): _go_on,
        (_W.NOWHERE, _W.BOTH): _go_on,
        (_W.AHEAD, _W.NOWHERE): _go_on,
        (_W.AHEAD, _W.BEHIND): _go_on,
        (_W.AHEAD, _W.AHEAD): _go_on,
        (_W.AHEAD, _W.BOTH): _go_on,
        (_W.BEHIND, _W.NOWHERE): _rewind,
        (_W.BEHIND, _W.BEHIND): _rewind,
        (_W.BEHIND, _W.AHEAD): _rewind,
        (_W.BEHIND, _W.BOTH): _rewind,
        (_W.BOTH, _W.NOWHERE): _rewind,
        (_W.BOTH, _W.BEHIND): _rewind,
        (_W.BOTH, _W.AHEAD): _rewind,
        (_W.BOTH, _W.BOTH): _rewind,
    }
)


def states_of(steps: Sequence[Step]) -> tuple[StepState, ...]:
    """Return the state of each step."""
    return tuple(_state(step) for step in steps)


def active_step(states: Sequence[StepState], stored: int) -> int:
    """Return the index of the active step, the number of steps if nothing is left to do."""
    urgent = tuple(i for i, state in enumerate(states) if state in (StepState.FAILED, StepState.URGENT))
    drift = tuple(i for i, state in enumerate(states) if state is StepState.DRIFT)
    work = _Work(total=len(states), stored=stored, urgent=urgent, drift=drift)
    key = (_place(urgent, stored), _place(drift, stored))
    rule = TABLE.get(key)
    if rule is None:
        raise InvariantViolation(f"urgent work {key[0]} and drift {key[1]} is missing in the table of rollout progress")
    return rule(work)


def _state(step: Step) -> StepState:
    found = {member_state(member) for member in step.cohort}
    gravest = next((state for state in MemberState if state in found), None)
    return StepState.EMPTY if gravest is None else StepState(gravest.value)


def _place(indices: Sequence[int], stored: int) -> Place:
    behind, ahead = any(i < stored for i in indices), any(i >= stored for i in indices)
    if behind and ahead:
        return Place.BOTH
    if behind:
        return Place.BEHIND
    return Place.AHEAD if ahead else Place.NOWHERE
