"""What history no longer keeps goes: first the logs in the bucket, then the rows that lead to them (spec §8.4)."""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec import Struct

from magos.history.archive import LogArchive
from magos.history.store import HistoryWriter

BATCH: Final = 200
"""Runs that are deleted in one transaction, with at most four logs each: one request to a bucket deletes 1,000."""

_MOST_BATCHES: Final = 50
"""A pass ends; what is left is for the next one."""

_LONG_AGO: Final = datetime(1, 1, 1, tzinfo=UTC)


class Swept(Struct, frozen=True, kw_only=True):
    """What a pass did. ``more`` says that it left something for the next one."""

    runs: int = 0
    logs: int = 0
    more: bool = False


async def sweep(
    writer: HistoryWriter,
    archive: LogArchive | None,
    *,
    keep: int,
    ttl: timedelta,
    existing: Collection[str],
    now: datetime,
) -> Swept:
    """Note which Workspaces are gone, and delete what is kept no longer; doing it again does no harm.

    ``existing`` are the UIDs of all Workspaces of the cluster: pass it only if the list is complete. Without
    ``archive`` rows go alone. Raises ``ArchiveUnavailable``, then the rows whose logs were to go stay, and
    ``HistoryUnavailable``, then the next pass finds the same runs again.
    """
    await writer.mark_deleted(existing, now)
    deleted_before = _LONG_AGO if now - _LONG_AGO <= ttl else now - ttl
    runs = logs = 0
    for _ in range(_MOST_BATCHES):
        batch = await writer.prunable(keep, deleted_before, BATCH)
        if not batch:
            return Swept(runs=runs, logs=logs)
        keys = sorted({key for run in batch for key in run.log_keys})
        if archive is not None and keys:
            await archive.delete(keys)
            logs += len(keys)
        await writer.prune(batch)
        runs += len(batch)
    return Swept(runs=runs, logs=logs, more=True)
