"""What others may ask of history. PostgreSQL carries it out (``postgres``); simulations put their own in its place."""

from collections.abc import Collection
from datetime import datetime
from typing import Protocol

from magos.api.workspace import RunRecord
from magos.errors import MagosError
from magos.history.model import PhaseRecord, WorkspaceKey
from magos.history.runs import Prunable, Run, RunPage


class HistoryUnavailable(MagosError):
    """The database does not answer, or not as it should: what was asked may be asked again later."""


class HistoryWriter(Protocol):
    """Writes history. Every call is one transaction, and doing it again changes nothing.

    Raises ``HistoryUnavailable``; then it is not known whether the write took place.
    """

    async def record_run(self, workspace: WorkspaceKey, record: RunRecord) -> None:
        """Store the row of a run. What is not known (empty, None) never overwrites what is."""
        ...

    async def record_phase(self, workspace: WorkspaceKey, record: PhaseRecord) -> None:
        """Store the row of a phase. What is not known (empty, None) never overwrites what is."""
        ...

    async def mark_deleted(self, existing: Collection[str], now: datetime) -> None:
        """Note the time of deletion for every Workspace whose UID is not in ``existing`` and that has none yet."""
        ...

    async def prunable(self, keep: int, deleted_before: datetime, limit: int) -> tuple[Prunable, ...]:
        """Return finished runs that retention no longer keeps, at most ``limit``, oldest first.

        These are all but the newest ``keep`` finished runs of a Workspace, and every run of a Workspace that was
        deleted before ``deleted_before``.
        """
        ...

    async def prune(self, runs: Collection[Prunable]) -> None:
        """Delete the rows of these runs; their logs have gone from the bucket before."""
        ...


class HistoryReader(Protocol):
    """Reads history. Raises ``HistoryUnavailable``."""

    async def runs(self, namespace: str, name: str, *, uid: str = "", limit: int = 20, cursor: str = "") -> RunPage:
        """Return runs of a Workspace, newest first.

        Without ``uid`` these are the runs of the Workspace that bears the name now, or bore it last. A ``cursor`` that
        no earlier page gave is a ``ValueError``.
        """
        ...

    async def run(self, namespace: str, name: str, run_id: str, *, uid: str = "") -> Run | None:
        """Return one run, or None if history does not have it."""
        ...
