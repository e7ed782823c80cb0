"""I17 and I22: what status must say, and what a controller must leave alone."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from magos.api.annotations import (
    APPROVED,
    APPROVED_BY,
    DETECTED_REVISION,
    DETECTED_SOURCE,
    PERMISSION,
    RECONCILE_REQUEST,
    REQUESTED_BY,
)
from magos.api.labels import FINALIZER
from magos.api.meta import Condition
from magos.api.phases import may_follow
from magos.api.reasons import Reason
from magos.api.workspace import Workspace
from tests.sim.history.records import CONTROLLERS, Record, WorkspaceWritten
from tests.sim.history.state import owner_of

__all__ = ["check_statuses"]

Found = Iterator[tuple[str, str]]

_LONGEST = 1024
_REMOVES = (APPROVED, APPROVED_BY, RECONCILE_REQUEST, REQUESTED_BY, DETECTED_REVISION, DETECTED_SOURCE)
_SETS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "workspace": frozenset(),
        "project": frozenset(PERMISSION),
        "rollout": frozenset(PERMISSION),
        "refwatcher": frozenset({DETECTED_REVISION, DETECTED_SOURCE}),
        "variableset": frozenset(),
    }
)
_TAKES: Mapping[str, frozenset[str]] = MappingProxyType({**_SETS, "workspace": frozenset({*PERMISSION, *_REMOVES})})
_CONDITIONS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "workspace": frozenset(
            {"Ready", "Reconciling", "Stalled", "InvalidAnnotations", "ApiTrouble", "HistoryBacklog"}
        ),
        "refwatcher": frozenset({"SourceUnreachable"}),
    }
)


def check_statuses(record: Record) -> Found:
    """Yield (invariant, what is wrong) for one record that is about to become true."""
    if not isinstance(record, WorkspaceWritten) or record.actor not in CONTROLLERS:
        return
    if record.old is not None and record.new is not None:
        yield from _ownership(record.actor, record.old, record.new)
    if record.new is not None and record.actor == "workspace":
        yield from _explanation(record)


def _explanation(record: WorkspaceWritten) -> Found:
    new, old = record.new, record.old
    if new is None or new.status.phase is None or (old is not None and old.status == new.status):
        return
    status, owner = new.status, owner_of(record)
    if not status.reason or not status.message or len(status.message) > _LONGEST:
        yield "I17", f"{owner} is {status.phase} and does not say why in up to {_LONGEST} characters"
    if status.reason not in set(Reason):
        yield "I17", f"{owner} has a reason that nobody knows: {status.reason}"
    ready = next((each for each in status.conditions if each.type == "Ready"), None)
    if ready is None or (ready.reason, ready.message) != (status.reason, status.message):
        yield "I17", f"{owner}: condition Ready does not mirror {status.reason}"
    before = old.status.phase if old is not None else None
    if status.phase is not None and not may_follow(before, status.phase):
        yield "I17", f"{owner} went from {before} to {status.phase}"


def _ownership(actor: str, old: Workspace, new: Workspace) -> Found:
    if old.metadata.uid != new.metadata.uid:
        return
    name = new.metadata.name
    if old.spec != new.spec or old.metadata.labels != new.metadata.labels:
        yield "I22", f"{actor} changed spec or labels of {name}"
    before, after = old.metadata.annotations, new.metadata.annotations
    changed = {key for key in {*before, *after} if before.get(key) != after.get(key)}
    wrong = {key for key in changed if key not in (_SETS if key in after else _TAKES)[actor]}
    if wrong:
        yield "I22", f"{actor} changed {sorted(wrong)} of {name}"
    touched = set(old.metadata.finalizers) ^ set(new.metadata.finalizers)
    if touched - ({FINALIZER} if actor == "workspace" else set()):
        yield "I22", f"{actor} changed finalizers of {name}: {sorted(touched)}"
    mine = _CONDITIONS.get(actor, frozenset())
    if _foreign(old.status.conditions, mine) != _foreign(new.status.conditions, mine):
        yield "I22", f"{actor} changed conditions of {name} that are not its own"
    if actor != "workspace" and _bare(old) != _bare(new):
        yield "I22", f"{actor} wrote status of {name}"


def _foreign(conditions: Sequence[Condition], mine: frozenset[str]) -> dict[str, Condition]:
    return {each.type: each for each in conditions if each.type not in mine}


def _bare(workspace: Workspace) -> tuple[object, ...]:
    status = workspace.status
    return (status.phase, status.reason, status.message, status.current_run_id, status.observed_revision)
