"""Times and durations as people read them: relative to now, with the exact time beside it."""

from datetime import datetime, timedelta

from msgspec import Struct

from magos.api.timestamps import format_time, parse_time

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))
_JUST_NOW = 10
"""Seconds around now that are called so: clocks of two machines differ by as much."""


class Moment(Struct, frozen=True, kw_only=True):
    """A point in time: ``iso`` for programs, ``exact`` for a tooltip, ``relative`` such as ``2 min ago``."""

    iso: str
    exact: str
    relative: str


def moment(when: datetime | str | None, now: datetime) -> Moment | None:
    """Return ``when``, which is aware or RFC 3339, as seen from ``now``; None for None and for what is no time."""
    known = as_time(when)
    if known is None:
        return None
    return Moment(iso=format_time(known), exact=f"{known:%Y-%m-%d %H:%M:%S} UTC", relative=relative(known - now))


def as_time(when: datetime | str | None) -> datetime | None:
    """Return the time that an object gives as text; None for what is no time: another hand may have written it."""
    if when is None or isinstance(when, datetime):
        return when
    try:
        return parse_time(when)
    except ValueError:
        return None


def relative(delta: timedelta) -> str:
    """Return ``2 min ago`` for a time that far away from now, ``in 2 min`` for one to come."""
    seconds = delta.total_seconds()
    if abs(seconds) < _JUST_NOW:
        return "just now"
    words = _about(abs(seconds))
    return f"in {words}" if seconds > 0 else f"{words} ago"


def duration(seconds: float) -> str:
    """Return ``1m 12s``: at most the two largest units, whole seconds; ``0s`` for nothing and less."""
    left = max(0, int(seconds))
    parts: list[str] = []
    for size, unit in _UNITS:
        count, left = divmod(left, size)
        if count or parts:
            parts.append(f"{count}{unit}")
        if len(parts) == 2:
            break
    return " ".join(part for part in parts if part[0] != "0") or "0s"


def between(start: datetime | str | None, end: datetime | str | None) -> float | None:
    """Return the seconds from ``start`` to ``end``; None where one of them is not known or they are the wrong way."""
    first, last = as_time(start), as_time(end)
    if first is None or last is None or last < first:
        return None
    return (last - first).total_seconds()


def _about(seconds: float) -> str:
    if seconds < 60:
        return f"{int(seconds)} s"
    if seconds < 3_600:
        return f"{int(seconds / 60)} min"
    if seconds < 86_400:
        return f"{int(seconds / 3_600)} h"
    days = int(seconds / 86_400)
    return f"{days} day" if days == 1 else f"{days} days"
