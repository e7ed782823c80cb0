"""The cursor of a page of runs: the last run of the page before, as opaque text.

It names the UID of the Workspace too: a list that was begun goes on with the same Workspace, also if the name has
passed on to another one meanwhile.
"""

import base64
import binascii
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec
from msgspec import Struct

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST: Final = 2048


class Cursor(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The place behind one run in the order of runs: by time, in microseconds since 1970, then by run ID."""

    uid: str
    microseconds: int
    run_id: str

    @property
    def ordered_at(self) -> datetime:
        """The time of the run."""
        return _EPOCH + timedelta(microseconds=self.microseconds)


def cursor_behind(uid: str, ordered_at: datetime, run_id: str) -> str:
    """Return the cursor that asks for the runs behind this one."""
    cursor = Cursor(uid, (ordered_at - _EPOCH) // timedelta(microseconds=1), run_id)
    return base64.urlsafe_b64encode(msgspec.json.encode(cursor)).rstrip(b"=").decode()


def parse_cursor(text: str) -> Cursor:
    """Return the cursor that :func:`cursor_behind` wrote; anything else is a ``ValueError``."""
    problem = f"{text[:40]!r} is not a cursor that a page of runs gave; start again without one"
    if len(text) > _LONGEST or not text.isascii():
        raise ValueError(problem)
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        cursor = msgspec.json.decode(raw, type=Cursor)
        given = cursor_behind(cursor.uid, cursor.ordered_at, cursor.run_id)
    except (binascii.Error, msgspec.DecodeError, UnicodeError, OverflowError):
        raise ValueError(problem) from None
    if given != text or "\0" in cursor.uid + cursor.run_id:
        raise ValueError(problem)
    return cursor
