"""Points in time as they stand in objects: RFC 3339, UTC, suffix ``Z``, whole seconds."""

from datetime import UTC, datetime


def format_time(when: datetime) -> str:
    """Return ``when`` (aware) as ``2026-01-02T03:04:05Z``; fractions of a second are cut off, never rounded up."""
    if when.tzinfo is None:
        raise ValueError("a time without zone cannot be written as RFC 3339")
    return f"{when.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def parse_time(text: str) -> datetime:
    """Return the aware UTC time written as RFC 3339 (any offset, any fraction), or raise ``ValueError``."""
    when = datetime.fromisoformat(text)
    if when.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone: RFC 3339 wants Z or an offset")
    try:
        return when.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{text!r} lies outside the years 1 to 9999 in UTC") from None
