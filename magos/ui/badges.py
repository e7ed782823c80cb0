"""What a state looks like: icon, word and tone, never a colour alone (spec §10)."""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from magos.api.phases import Phase
from magos.api.workspace import RunResult, Workspace
from magos.explain import Attention


class Badge(Struct, frozen=True, kw_only=True):
    """A state in a word. ``icon`` names a symbol of the sprite, ``tone`` a class; ``moves`` while something runs."""

    word: str
    icon: str
    tone: str
    moves: bool = False


_NONE = Badge(word="Pending", icon="pending", tone="idle")
PHASES: Mapping[Phase, Badge] = MappingProxyType(
    {
        Phase.PENDING: _NONE,
        Phase.IDLE: Badge(word="Idle", icon="pending", tone="idle"),
        Phase.RECONCILING: Badge(word="Reconciling", icon="applying", tone="apply", moves=True),
        Phase.PLANNING: Badge(word="Planning", icon="planning", tone="run", moves=True),
        Phase.PLANNED: Badge(word="Planned", icon="planned", tone="plan"),
        Phase.PLANNED_WITH_VIOLATIONS: Badge(word="Violations", icon="warning", tone="warn"),
        Phase.APPLYING: Badge(word="Applying", icon="applying", tone="apply", moves=True),
        Phase.APPLIED: Badge(word="Applied", icon="ok", tone="ok"),
        Phase.READY: Badge(word="Ready", icon="ok", tone="ok"),
        Phase.FAILED: Badge(word="Failed", icon="failed", tone="bad"),
        Phase.VALIDATION_FAILED: Badge(word="Policy failed", icon="blocked", tone="bad"),
        Phase.DELETING: Badge(word="Deleting", icon="deleting", tone="warn", moves=True),
    }
)
_GATED = Badge(word="Needs approval", icon="hand", tone="wait")
_RESULTS: Mapping[RunResult, Badge] = MappingProxyType(
    {
        RunResult.APPLIED: Badge(word="Applied", icon="ok", tone="ok"),
        RunResult.NO_CHANGES: Badge(word="No changes", icon="ok", tone="idle"),
        RunResult.FAILED: Badge(word="Failed", icon="failed", tone="bad"),
        RunResult.VALIDATION_FAILED: Badge(word="Policy failed", icon="blocked", tone="bad"),
        RunResult.DISCARDED: Badge(word="Discarded", icon="pending", tone="idle"),
    }
)
_UNFINISHED = Badge(word="Unfinished", icon="planning", tone="run")


def phase_badge(phase: Phase | None) -> Badge:
    """Return the badge of a phase; None is an object that its controller has not seen yet."""
    return _NONE if phase is None else PHASES[phase]


def workspace_badge(workspace: Workspace) -> Badge:
    """Return the badge of a Workspace: one that waits for a person says so instead of its phase."""
    if workspace.metadata.deletion_timestamp:
        return PHASES[Phase.DELETING]
    return _GATED if workspace.status.awaiting_approval else phase_badge(workspace.status.phase)


def result_badge(result: RunResult | None) -> Badge:
    """Return the badge of how a run ended; None is a run without an end."""
    return _UNFINISHED if result is None else _RESULTS[result]


_ATTENTION: Mapping[Phase, Attention] = MappingProxyType(
    {
        Phase.FAILED: Attention.BROKEN,
        Phase.VALIDATION_FAILED: Attention.BROKEN,
        Phase.PLANNING: Attention.RUNNING,
        Phase.APPLYING: Attention.RUNNING,
        Phase.APPLIED: Attention.SETTLED,
        Phase.READY: Attention.SETTLED,
        Phase.IDLE: Attention.SETTLED,
    }
)


def attention_of(workspace: Workspace) -> Attention:
    """Return roughly what a Workspace asks of people, to count thousands; ``explain`` says it in full."""
    if workspace.metadata.deletion_timestamp:
        return Attention.WAITING
    if workspace.status.awaiting_approval is not None:
        return Attention.NEEDS_YOU
    phase = workspace.status.phase
    return Attention.WAITING if phase is None else _ATTENTION.get(phase, Attention.WAITING)
