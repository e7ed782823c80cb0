"""What follows when the API server rejects a write or a live read for good: a message, and a later try."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType

from magos.reconcilers.storedtimes import due_at
from magos.runtime.decision import (
    UNREADABLE,
    AddFinalizer,
    Create,
    Delete,
    Effect,
    PatchAnnotations,
    QueryFailure,
    Refusal,
    RemoveFinalizer,
)

RETRY_DELAY = timedelta(minutes=1)
"""Until a rejected request is tried again: no watch event says that a right was granted or a policy was corrected."""

_EFFECTS: Mapping[type[Effect], str] = MappingProxyType(
    {
        Create: "creation of",
        Delete: "deletion of",
        PatchAnnotations: "change of annotations of",
        AddFinalizer: "finalizer for",
        RemoveFinalizer: "removal of the finalizer from",
    }
)
_PAST = datetime(1970, 1, 1, tzinfo=UTC)


def retry_time(last_reconcile_time: str | None, now: datetime, *, rejected: bool) -> datetime:
    """Return when the next try is due: ``RETRY_DELAY`` after the status that reports the rejection, else long ago.

    The write of that status wakes the controller, and must not bring about the next try at once.
    """
    return due_at(last_reconcile_time, RETRY_DELAY, now) if rejected else _PAST


def rejection_text(refusal: Refusal | None, failure: QueryFailure | None, *, reads: str, controller: str) -> str:
    """Return what was rejected, why, and what to do; ``reads`` names what the controller's live reads are about."""
    if refusal is not None:
        effect = refusal.effect
        target = effect.manifest.metadata.name if not hasattr(effect, "name") else effect.name
        what = f"{_EFFECTS[type(effect)]} {effect.kind.name} {target}"
        text = f"The API server rejected the {what}: {refusal.message.rstrip('.')}."
    elif failure is not None and failure.reason == UNREADABLE:
        return f"{failure.message}. Until then no permission is given or taken."
    else:
        text = f"{reads} cannot be read: {f'{failure.reason}: {failure.message}' if failure else 'unknown'}."
    return f"{text} Check the rights of the {controller} controller and the admission policies."
