"""What the answer of a poll means for one Workspace: the RefWatcher's only writes.

1. A commit that differs from the known one in whatever direction is written as DR together with its source key, on the
   condition that the Workspace is the one that was judged; on a conflict the same answer is judged anew.
2. An answer is judged until nothing is left to do, then never again: what others write between two polls stands.
3. ``SourceUnreachable`` is set after three errors in a row and removed by the first success, or when nothing is polled
   any more. All other conditions are kept. Failures may take turns (servers behind one name, their addresses in the
   text): a reason that was told lately is not told again.
4. What is there already is not written.
"""

from datetime import datetime
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from magos.api.annotations import DETECTED_REVISION, DETECTED_SOURCE
from magos.api.conditions import ConditionType, Wanted, find, merge, shorten
from magos.api.likeness import CREDENTIALS_MATTER, credentials_hint
from magos.api.meta import Condition
from magos.api.workspace import WORKSPACES, Workspace
from magos.reconcilers.events import EventBuilder
from magos.reconcilers.revisions import applied_revision, detected_revision, source_of
from magos.reconcilers.statuses import status_patch
from magos.runtime.decision import Decision, Event, Outcome, PatchAnnotations, StatusPatch

TOLERATED_ERRORS = 2
"""Errors in a row that are not worth a condition."""

_EVENTS = EventBuilder(WORKSPACES, "Poll")
_OWNED = frozenset({ConditionType.SOURCE_UNREACHABLE})


class Failure(Struct, frozen=True):
    """Why a poll has no commit: a reason of spec §6.7 and a message for people."""

    reason: str
    message: str


class PollAnswer(Struct, frozen=True, kw_only=True):
    """What the last poll of a Workspace answered: a commit or a failure; ``errors`` counts failures in a row."""

    sha: str = ""
    failure: Failure | None = None
    errors: int = 0


class PollResult(StrEnum):
    """What a poll meant for a Workspace, as counted."""

    CHANGED = "changed"
    UNCHANGED = "unchanged"
    ERROR = "error"
    SEEDED = "seeded"


class Observation(Struct, frozen=True, kw_only=True):
    """A Workspace that exists, whether it is polled, and the poll answer that is not dealt with yet.

    ``similar`` are the Secrets that may have been meant for its URL, where none is in force. ``told`` are the reasons
    of failures that the Workspace told lately.
    """

    now: datetime
    workspace: Workspace
    polled: bool = True
    answer: PollAnswer | None = None
    similar: tuple[str, ...] = ()
    told: frozenset[str] = frozenset()


def compare(workspace: Workspace, answer: PollAnswer) -> PollResult:
    """Compare with the known commit: a valid DR, otherwise the commit of this source that was applied last."""
    if answer.failure is not None:
        return PollResult.ERROR
    known = detected_revision(workspace) or applied_revision(workspace)
    if not known:
        return PollResult.SEEDED
    return PollResult.UNCHANGED if known == answer.sha else PollResult.CHANGED


def reconcile(seen: Observation) -> Decision:
    """Return the decision for one observation: total, deterministic and free of side effects."""
    answer = seen.answer if seen.polled else None
    status, complaint = _condition(seen, answer)
    if answer is None or compare(seen.workspace, answer) not in (PollResult.CHANGED, PollResult.SEEDED):
        return Decision(status=status, events=complaint, outcome=Outcome.DONE)
    target = seen.workspace.spec.source.target_revision
    announcement = _announcement(seen.workspace, answer.sha)
    if announcement.annotations.items() <= seen.workspace.metadata.annotations.items():
        return Decision(status=status, events=complaint, outcome=Outcome.DONE)
    return Decision(
        status=status,
        effects=(announcement,),
        events=(*complaint, _EVENTS.normal(seen.workspace, "RevisionDetected", f"{target} is at {answer.sha}.")),
        outcome=Outcome.DONE,
    )


def _announcement(workspace: Workspace, sha: str) -> PatchAnnotations:
    meta = workspace.metadata
    return PatchAnnotations(
        kind=WORKSPACES,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        annotations={DETECTED_REVISION: sha, DETECTED_SOURCE: source_of(workspace)},
        resource_version=meta.resource_version,
    )


def _condition(seen: Observation, answer: PollAnswer | None) -> tuple[StatusPatch | None, tuple[Event, ...]]:
    """Return the write that brings ``SourceUnreachable`` up to date, and the Event if it comes into being."""
    workspace = seen.workspace
    old = workspace.status.conditions
    present = find(old, ConditionType.SOURCE_UNREACHABLE)
    wanted: list[Wanted] = []
    if answer is not None and answer.failure is not None:
        if answer.errors <= TOLERATED_ERRORS:
            return None, ()
        wanted.append(_unreachable(answer.failure, seen.similar))
    elif answer is None and seen.polled:
        return None, ()
    if present is not None and wanted and (_says(present, wanted[0]) or _told(seen, present, wanted[0])):
        return None, ()
    conditions = merge(old, wanted, owned=_OWNED, generation=workspace.metadata.generation, now=seen.now)
    if conditions == old:
        return None, ()
    patch = status_patch(WORKSPACES, workspace, replace(workspace.status, conditions=conditions))
    new = wanted if present is None else ()
    return patch, tuple(_EVENTS.warning(workspace, each.type, f"{each.reason}: {each.message}") for each in new)


def _unreachable(failure: Failure, similar: tuple[str, ...]) -> Wanted:
    hint = credentials_hint(similar) if failure.reason in CREDENTIALS_MATTER else ""
    message = shorten(f"{failure.message} {hint}" if hint else failure.message)
    return Wanted(type=ConditionType.SOURCE_UNREACHABLE, status="True", reason=failure.reason, message=message)


def told_reason(seen: Observation) -> str:
    """Return the reason of the failure that the Workspace tells exactly as the answer has it, empty if it does not."""
    failure = seen.answer.failure if seen.answer is not None else None
    present = find(seen.workspace.status.conditions, ConditionType.SOURCE_UNREACHABLE)
    if failure is None or present is None:
        return ""
    return failure.reason if _says(present, _unreachable(failure, seen.similar)) else ""


def _told(seen: Observation, present: Condition, wanted: Wanted) -> bool:
    return present.status == wanted.status and wanted.reason in seen.told


def _says(present: Condition, wanted: Wanted) -> bool:
    """Tell whether the condition is up to date; a generation that moved on is not worth a write."""
    return (present.status, present.reason, present.message) == (wanted.status, wanted.reason, wanted.message)
