"""The phases every kind's ``status.phase`` is taken from, and what may follow what for a Workspace.

The tables are the single source: the CRDs' enum, the reconcilers' machine and the documentation are made from them.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class Phase(StrEnum):
    """``status.phase`` of all kinds. ``Idle`` is reserved and never written."""

    PENDING = "Pending"
    RECONCILING = "Reconciling"
    READY = "Ready"
    IDLE = "Idle"
    PLANNING = "Planning"
    PLANNED = "Planned"
    PLANNED_WITH_VIOLATIONS = "PlannedWithViolations"
    APPLYING = "Applying"
    APPLIED = "Applied"
    FAILED = "Failed"
    VALIDATION_FAILED = "ValidationFailed"
    DELETING = "Deleting"


RUNNING = frozenset({Phase.PLANNING, Phase.APPLYING})
"""A Job of the Workspace is named in status and not yet known to have ended."""

TERMINAL = frozenset({Phase.APPLIED, Phase.FAILED, Phase.VALIDATION_FAILED})
"""The run is over."""

WITH_PLAN = frozenset({Phase.PLANNED, Phase.PLANNED_WITH_VIOLATIONS})
"""A plan waits to be applied; gated if ``status.awaitingApproval`` is set."""

GRANTABLE = frozenset({None, Phase.PENDING, Phase.PLANNED, Phase.PLANNED_WITH_VIOLATIONS})
"""A Workspace waits for permission; in ``None``, without a phase yet, for the run first that it is given for."""

_P = Phase
WORKSPACE_TRANSITIONS: Mapping[Phase | None, frozenset[Phase]] = MappingProxyType(
    {
        None: frozenset({_P.PENDING, _P.FAILED, _P.DELETING}),
        _P.PENDING: frozenset({_P.PENDING, _P.PLANNING, _P.FAILED, _P.DELETING}),
        _P.PLANNING: frozenset(
            {
                _P.PLANNING,
                _P.PLANNED,
                _P.PLANNED_WITH_VIOLATIONS,
                _P.APPLIED,  # an empty plan: there is nothing to apply
                _P.FAILED,
                _P.VALIDATION_FAILED,
                _P.PENDING,  # the spec changed meanwhile: the plan is discarded
                _P.DELETING,
            }
        ),
        _P.PLANNED: frozenset({_P.PLANNED, _P.APPLYING, _P.PENDING, _P.FAILED, _P.DELETING}),
        _P.PLANNED_WITH_VIOLATIONS: frozenset(
            {_P.PLANNED_WITH_VIOLATIONS, _P.APPLYING, _P.PENDING, _P.FAILED, _P.DELETING}
        ),
        _P.APPLYING: frozenset({_P.APPLYING, _P.APPLIED, _P.FAILED, _P.DELETING}),
        _P.APPLIED: frozenset({_P.APPLIED, _P.PENDING, _P.FAILED, _P.DELETING}),
        _P.FAILED: frozenset({_P.FAILED, _P.PENDING, _P.DELETING}),
        _P.VALIDATION_FAILED: frozenset({_P.VALIDATION_FAILED, _P.PENDING, _P.FAILED, _P.DELETING}),
        _P.DELETING: frozenset({_P.DELETING}),
    }
)
"""Every pair of phases that a Workspace may show one after the other. What is not listed is a bug, and not written."""


def may_follow(before: Phase | None, after: Phase) -> bool:
    """Tell whether a Workspace may go from ``before`` (``None``: no phase yet) to ``after``."""
    return after in WORKSPACE_TRANSITIONS.get(before, frozenset())
