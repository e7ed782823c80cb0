"""The queue of ended runs in ``status.historyOutbox``: bounded, so that a status always fits into the API server."""

from collections.abc import Collection, Sequence

import msgspec
from msgspec.structs import replace

from magos.api.workspace import RunRecord, UsedVariable

LARGEST_RECORD = 6 << 10
"""Bytes of one record as JSON; variables that do not fit are left out, the last ones first."""

LARGEST_OUTBOX = 256 << 10
"""Bytes of all records of a Workspace as JSON. At the default retention it is never reached."""

_LONGEST_TEXT = 253
_LONGEST_MESSAGE = 1024


def appended(outbox: Sequence[RunRecord], record: RunRecord, most: int) -> tuple[RunRecord, ...]:
    """Return the outbox with ``record`` at its end, without the oldest that do not fit; a run is in it once."""
    others = [each for each in outbox if each.run_id != record.run_id]
    kept = [*others, bounded(record)][-max(most, 1) :]
    sizes = [len(msgspec.json.encode(each)) for each in kept]
    while len(kept) > 1 and sum(sizes) > LARGEST_OUTBOX:
        del kept[0], sizes[0]
    return tuple(kept)


def remaining(outbox: Sequence[RunRecord], stored: Collection[RunRecord]) -> tuple[RunRecord, ...]:
    """Return what the database has not confirmed; a record counts only as it was stored, to the last field."""
    return tuple(record for record in outbox if record not in stored)


def bounded(record: RunRecord) -> RunRecord:
    """Return the record with texts and variables cut to ``LARGEST_RECORD``."""
    short = replace(
        record,
        target_revision=_cut(record.target_revision, _LONGEST_TEXT),
        principal=_cut(record.principal, _LONGEST_TEXT),
        approved_by=_cut(record.approved_by, _LONGEST_TEXT),
        reason=_cut(record.reason, _LONGEST_TEXT),
        message=_cut(record.message, _LONGEST_MESSAGE),
        variables=(),
    )
    room = LARGEST_RECORD - len(msgspec.json.encode(short))
    fitting: list[UsedVariable] = []
    for variable in record.variables:
        room -= len(msgspec.json.encode(variable)) + 1
        if room < 0:
            break
        fitting.append(variable)
    return replace(short, variables=tuple(fitting))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
