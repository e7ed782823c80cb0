"""Durations as Kubernetes users write them (``1h30m``, ``1.5h``, ``300ms``).

Grammar: one or more ``<decimal><unit>`` with the units ``ns us µs ms s m h``, no sign, no blanks, greater than zero.
Arithmetic is exact to the nanosecond in decimal and rounded to the microseconds of ``timedelta``.
"""

import re
from datetime import timedelta
from decimal import Decimal

_UNITS = {
    "ns": Decimal("0.000000001"),
    "us": Decimal("0.000001"),
    "\u00b5s": Decimal("0.000001"),  # the micro sign
    "\u03bcs": Decimal("0.000001"),  # the Greek letter: Go accepts both
    "ms": Decimal("0.001"),
    "s": Decimal(1),
    "m": Decimal(60),
    "h": Decimal(3600),
}
_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|\u00b5s|\u03bcs|ms|s|m|h)")
_LONGEST = 64


def parse_duration(text: str) -> timedelta:
    """Return the duration written as ``text``; raise ``ValueError`` naming the text and what is allowed."""
    position = 0
    seconds = Decimal(0)
    while 0 < len(text) <= _LONGEST and position < len(text):
        part = _PART.match(text, position)
        if part is None:
            break
        seconds += Decimal(part[1]) * _UNITS[part[2]]
        position = part.end()
    if not text or position != len(text):
        raise ValueError(f"{text!r} is not a duration such as 30s, 5m or 1h30m")
    try:
        value = timedelta(microseconds=int(seconds * 1_000_000))
    except OverflowError:
        raise ValueError(f"{text!r} is longer than any duration that can be kept") from None
    if value <= timedelta(0):
        raise ValueError(f"{text!r} must be greater than zero (at least 1us)")
    return value


def format_duration(value: timedelta) -> str:
    """Return ``value`` in full form, as Go prints it: ``45m0s``, ``1h0m0s``, ``1.5s``, ``300ms``."""
    microseconds = round(value / timedelta(microseconds=1))
    if microseconds < 0:
        raise ValueError("a duration has no sign")
    if 0 < microseconds < 1_000:
        return f"{microseconds}µs"
    if 0 < microseconds < 1_000_000:
        return f"{_decimal(microseconds, 1_000)}ms"
    minutes, rest = divmod(microseconds, 60_000_000)
    hours, minutes = divmod(minutes, 60)
    text = f"{_decimal(rest, 1_000_000)}s"
    if hours or minutes:
        text = f"{minutes}m{text}"
    return f"{hours}h{text}" if hours else text


def _decimal(value: int, unit: int) -> str:
    return f"{Decimal(value) / unit:f}".rstrip("0").rstrip(".") if value % unit else str(value // unit)
