"""The ways in which the carrying out of a decision can end, and how an error of the API server is sorted into them."""

from enum import StrEnum

from msgspec import Struct

from magos.runtime.client.errors import ApiError
from magos.runtime.controller.consistency import Write
from magos.runtime.controller.ledger import Ledger, Target
from magos.runtime.decision import Create, Delete, Effect, Refusal, StatusPatch


class End(StrEnum):
    """How the carrying out of a decision ended."""

    COMPLETE = "complete"
    CONFLICT = "conflict"
    """What was judged is outdated: judge again once the caches have moved. Not an error."""
    REFUSED = "refused"
    """An effect was refused for good; the next pass has to be shown the refusal."""
    TRANSIENT = "transient"
    """No answer, or not now: back off."""
    FAILED = "failed"
    """The status itself was refused for good: there is no way to tell the user but the log. Back off."""
    FENCED = "fenced"
    """The right to write has ended."""


class Applied(Struct, frozen=True, kw_only=True):
    """The result: how it ended, and what the caches now have to show before the next pass of the same key."""

    end: End = End.COMPLETE
    writes: tuple[Write, ...] = ()
    refusal: Refusal | None = None
    message: str = ""
    retry_after: float | None = None


class Stop(Exception):
    """Raised where a step ends the decision; caught by the executor alone."""

    def __init__(self, end: End, message: str, *, refusal: Refusal | None = None, wait: float | None = None) -> None:
        super().__init__(message)
        self.end = end
        self.refusal = refusal
        self.wait = wait


def refused(action: Effect, error: ApiError) -> Stop:
    """Return the end of a decision whose effect the server refused for good."""
    reason = error.reason or f"HTTP {error.status}"
    refusal = Refusal(effect=action, code=error.status, reason=reason, message=error.message)
    return Stop(End.REFUSED, error.message, refusal=refusal)


def judge(error: ApiError, action: StatusPatch | Effect, target: Target, ledger: Ledger) -> Stop:
    """Sort an error of the API server into the ways a decision can end."""
    stored_but_unreadable = error.status == 200
    if (error.unknown_outcome or stored_but_unreadable) and not isinstance(action, Delete):
        ledger.unclear(target)
    if error.transient or error.unauthorized or error.unknown_outcome or error.gone or stored_but_unreadable:
        # What was stored is not refused; what it is now is for the cache to show, or to refuse to show.
        return Stop(End.TRANSIENT, error.message, wait=error.retry_after)
    vanished = error.not_found and not isinstance(action, Create)
    if error.conflict or vanished:
        ledger.unclear(target)
        return Stop(End.CONFLICT, error.message)
    if isinstance(action, StatusPatch):
        return Stop(End.FAILED, error.message)
    return refused(action, error)
