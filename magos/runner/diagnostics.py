"""Finds, at the end of a tool's output, why it failed.

The tools print diagnostics in plain form (``-no-color``): a line ``Error: <summary>``, the place in the configuration
and a text. The log stays readable for people; no decision depends on what is taken from it.
"""

import re
from datetime import datetime, timedelta
from typing import Final

from magos.durations import format_duration
from magos.masking.message import shorten as shorten_to

LONGEST_DIAGNOSTIC: Final = 512
"""Characters of a diagnostic that reach status and history."""

# A diagnostic follows an empty line; "Error:" elsewhere is output of a program, quoted in one or not.
_START: Final = re.compile(r"(?:\A\s*|\n\n)Error: ")
_NEXT: Final = re.compile(r"^(?:Warning: |\[magos-job\] )", re.MULTILINE)
_SOURCE_LINE: Final = re.compile(r"\s+\d+: ")
_LOCK_FIELD: Final = re.compile(r"^\s+(ID|Who|Operation|Created):\s+(\S.*?)\s*$", re.MULTILINE)
_CREATED: Final = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.\d+)?\s*(?:\+0000(?: UTC)?|UTC|Z)", re.ASCII)
_UNPRINTABLE: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x09\x0b-\x1f\x7f-\x9f]")


def last_error(output: bytes, now: datetime) -> str | None:
    """Return the last error diagnostic in ``output`` on one line, at most 512 characters; None if there is none.

    For a locked state it has lock ID, holder, time and age at ``now`` (field case F13).
    """
    text = _UNPRINTABLE.sub("", output.decode("utf-8", "replace").replace("\r\n", "\n"))
    starts = [match.start() for match in _START.finditer(text)]
    if not starts:
        return None
    block = text[starts[-1] :].lstrip()
    end = _NEXT.search(block)
    block = block[: end.start()] if end else block
    return shorten(_locked(block, now) or _one_line(block))


def shorten(text: str, limit: int = LONGEST_DIAGNOSTIC) -> str:
    """Return ``text``, cut to ``limit`` characters with a final ellipsis; ``text`` is masked, or composed of fields."""
    return shorten_to(text, limit)


def _one_line(block: str) -> str:
    summary, *rest = [line.strip() for line in block.splitlines() if line.strip() and not _SOURCE_LINE.match(line)]
    summary = summary.removeprefix("Error: ")
    return f"{summary}: {' '.join(rest)}" if rest else summary


def _locked(block: str, now: datetime) -> str | None:
    if "state lock" not in block.partition("\n")[0]:
        return None
    lock = dict(_LOCK_FIELD.findall(block))
    if "ID" not in lock:
        return None
    who = lock.get("Who", "somebody unknown")
    operation = lock.get("Operation", "").removeprefix("OperationType") or "an operation"
    since = lock.get("Created", "unknown")
    return (
        f"the state is locked: lock {lock['ID']}, held by {who} for {operation} since {since}{_age(since, now)};"
        " if that holder is gone, release the lock with force-unlock, then request a reconcile"
    )


def _age(since: str, now: datetime) -> str:
    """Return how long ago ``since`` was, to the second, in brackets; nothing if it is not a time in UTC."""
    found = _CREATED.fullmatch(since)
    try:
        age = now - datetime.fromisoformat(f"{found[1]}T{found[2]}+00:00") if found else timedelta(seconds=-1)
    except ValueError:
        return ""
    return f" ({format_duration(timedelta(seconds=int(age.total_seconds())))} ago)" if age >= timedelta() else ""
