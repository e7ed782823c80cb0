"""Refusals as pages: what it is, why, and what to do."""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct


class ErrorView(Struct, frozen=True, kw_only=True):
    """The page of a refusal. ``text`` is the server's own, fit for whoever asked."""

    status: int
    title: str
    text: str
    advice: str
    back: str


_KNOWN: Mapping[int, tuple[str, str]] = MappingProxyType(
    {
        400: ("This address makes no sense", "Follow a link from one of the lists."),
        401: ("Log in first", "Your session has ended, or there was none."),
        403: ("You may not see or do this", "Ask whoever administers Magos for the right that is named above."),
        404: ("There is no such thing here", "It may have been deleted or renamed. Look for it in the lists."),
        405: ("This cannot be done here", "Follow a link from one of the lists."),
        409: ("It has changed meanwhile", "Nothing was done. Look at how it stands now, then decide again."),
        422: ("Something is missing", "Nothing was done. Read what is said above, then try again."),
        429: ("Too many attempts", "Wait a little, then try again."),
        502: ("The identity provider does not answer", "Try to log in again in a moment."),
        503: ("Not available at the moment", "Try again in a moment. Running Jobs are not concerned."),
    }
)


def view(status: int, text: str, back: str = "/") -> ErrorView:
    """Return the page of a refusal; ``back`` is the path, below the root, that leads out of it."""
    title, advice = _KNOWN.get(status, ("Something went wrong", "Try again. If it stays so, look at the server's log."))
    return ErrorView(status=status, title=title, text=text, advice=advice, back=back)
