"""Conditions in the manner of kstatus, computed from phase and reason.

``Ready`` is always there. Every other type is abnormal-true: present while ``True``, absent otherwise. Conditions of
other owners are kept as they are, and ``lastTransitionTime`` moves only when a status changes. The functions are pure
and idempotent, so an unchanged state gives an equal tuple.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import assert_never

from msgspec import Struct

from magos.api.meta import Condition
from magos.api.phases import Phase
from magos.api.reasons import HEALING, Reason
from magos.api.timestamps import format_time
from magos.bounds import STATUS_MESSAGE
from magos.errors import InvariantViolation

LONGEST_MESSAGE = STATUS_MESSAGE.limit
"""Characters of ``status.message`` and of a condition's message."""


class ConditionType(StrEnum):
    """Every condition type Magos writes."""

    READY = "Ready"
    RECONCILING = "Reconciling"
    STALLED = "Stalled"
    INVALID_ANNOTATIONS = "InvalidAnnotations"
    SOURCE_UNREACHABLE = "SourceUnreachable"
    HISTORY_BACKLOG = "HistoryBacklog"
    UNSELECTED_WORKSPACES = "UnselectedWorkspaces"
    API_TROUBLE = "ApiTrouble"


KSTATUS = frozenset({ConditionType.READY, ConditionType.RECONCILING, ConditionType.STALLED})
"""The types that follow from phase and reason alone."""

_TROUBLE = (
    "The API server has not carried out the requests of a controller about the object for a while; the message says"
    " which, since when, and with what answer."
)
MEANINGS: Mapping[str, Mapping[ConditionType, str]] = MappingProxyType(
    {
        "Project": {ConditionType.API_TROUBLE: _TROUBLE},
        "Workspace": {
            ConditionType.INVALID_ANNOTATIONS: "Annotations that cannot be read, and what is used instead.",
            ConditionType.HISTORY_BACKLOG: "Records or logs of runs that could not be stored for more than a minute.",
            ConditionType.SOURCE_UNREACHABLE: "The repository could not be listed three times in a row.",
            ConditionType.API_TROUBLE: _TROUBLE,
        },
        "Rollout": {
            ConditionType.UNSELECTED_WORKSPACES: "Members that no step selects, and that are never granted.",
            ConditionType.API_TROUBLE: _TROUBLE,
        },
        "VariableSet": {ConditionType.API_TROUBLE: _TROUBLE},
    }
)
"""By kind, what the conditions beside those of ``KSTATUS`` mean where they are present."""


class Abnormal(Struct, frozen=True, kw_only=True):
    """An abnormal-true condition that holds now."""

    type: ConditionType
    reason: str
    message: str


class Standing(Struct, frozen=True, kw_only=True):
    """Phase, reason and message of an object, from which ``Ready`` and its companions are computed."""

    phase: Phase
    reason: Reason
    message: str
    generation: int
    gated: bool = False


class Wanted(Struct, frozen=True, kw_only=True):
    """A condition as it should be, before the existing one is looked at."""

    type: str
    status: str
    reason: str
    message: str


def shorten(message: str) -> str:
    """Return ``message`` cut to what a status message may hold; a cut is visible as ``…`` at the end."""
    return message if len(message) <= LONGEST_MESSAGE else message[: LONGEST_MESSAGE - 1] + "…"


def find(conditions: Iterable[Condition], type_: str) -> Condition | None:
    """Return the condition of that type."""
    return next((condition for condition in conditions if condition.type == type_), None)


def kstatus(phase: Phase, reason: Reason, *, gated: bool = False) -> tuple[str, ConditionType | None]:
    """Return the status of ``Ready`` and the companion condition that is ``True``, if there is one."""
    match phase:
        case Phase.PENDING | Phase.PLANNING | Phase.APPLYING | Phase.RECONCILING:
            return "Unknown", ConditionType.RECONCILING
        case Phase.PLANNED:
            return "Unknown", None if gated else ConditionType.RECONCILING
        case Phase.PLANNED_WITH_VIOLATIONS:
            return "Unknown", None
        case Phase.APPLIED | Phase.READY:
            return "True", None
        case Phase.FAILED | Phase.VALIDATION_FAILED:
            return "False", None if reason in HEALING else ConditionType.STALLED
        case Phase.DELETING:
            return "False", ConditionType.RECONCILING
        case Phase.IDLE:
            raise InvariantViolation("phase Idle is reserved and never written")
        case _:
            assert_never(phase)


def standing_conditions(
    standing: Standing,
    existing: Sequence[Condition],
    now: datetime,
    *,
    abnormal: Sequence[Abnormal] = (),
    owned: AbstractSet[str] = frozenset(),
) -> tuple[Condition, ...]:
    """Return all conditions of an object: its own brought up to date, those of other owners untouched.

    ``abnormal`` are the further conditions that hold now; ``owned`` are the further types the caller is responsible for
    (those of ``abnormal`` are in it anyway): an owned type that does not hold is removed.
    """
    ready, companion = kstatus(standing.phase, standing.reason, gated=standing.gated)
    message = shorten(standing.message)
    wanted = [Wanted(type=ConditionType.READY, status=ready, reason=standing.reason, message=message)]
    if companion is not None:
        wanted.append(Wanted(type=companion, status="True", reason=standing.reason, message=message))
    wanted += map(_holding, abnormal)
    return merge(existing, wanted, owned=KSTATUS | owned, generation=standing.generation, now=now)


def merge_abnormal(
    existing: Sequence[Condition],
    abnormal: Sequence[Abnormal],
    owned: ConditionType,
    *,
    generation: int,
    now: datetime,
) -> tuple[Condition, ...]:
    """Return ``existing`` with the abnormal-true condition of type ``owned`` as it holds now, or without it."""
    return merge(existing, [*map(_holding, abnormal)], owned=frozenset({owned}), generation=generation, now=now)


def merge(
    existing: Sequence[Condition],
    wanted: Sequence[Wanted],
    *,
    owned: AbstractSet[str],
    generation: int,
    now: datetime,
) -> tuple[Condition, ...]:
    """Return ``existing`` with the ``wanted`` conditions set and the ``owned`` but unwanted ones removed.

    Order is kept; new conditions come last. Types neither owned nor wanted belong to others and are not touched.
    """
    fresh = {want.type: want for want in wanted}
    merged: list[Condition] = []
    for condition in existing:
        want = fresh.pop(condition.type, None)
        if want is not None:
            merged.append(_renew(condition, want, generation, now))
        elif condition.type not in owned:
            merged.append(condition)
    return (*merged, *(_renew(None, want, generation, now) for want in fresh.values()))


def _holding(abnormal: Abnormal) -> Wanted:
    return Wanted(type=abnormal.type, status="True", reason=abnormal.reason, message=shorten(abnormal.message))


def _renew(old: Condition | None, want: Wanted, generation: int, now: datetime) -> Condition:
    unchanged = old is not None and old.status == want.status
    return Condition(
        type=str(want.type),
        status=want.status,
        reason=str(want.reason),
        message=want.message,
        last_transition_time=old.last_transition_time if old is not None and unchanged else format_time(now),
        observed_generation=generation,
    )
