"""What is kept of runs, and what is known about that which is still to be stored."""

from datetime import datetime, timedelta
from enum import StrEnum

from msgspec import Struct

from magos.api.workspace import RunRecord

GIVEN_UP = "ArchiveGivenUp"
"""Reason of the Warning Event that tells of a record or a log that will never be stored."""


class Keeping(Struct, frozen=True, kw_only=True):
    """What an administrator has switched on. With neither records nor logs nothing is different from before."""

    records: bool = False
    logs: bool = False
    retention: int = 30
    """Runs of a Workspace that history keeps, and that may wait in its status."""
    give_up_after: timedelta = timedelta(hours=24)
    """After this a Job waits no longer for its record and its log."""
    namespace: str = ""
    """The controllers' own, where records of deleted Workspaces wait."""

    @property
    def on(self) -> bool:
        """True if anything is kept."""
        return self.records or self.logs


class Loss(StrEnum):
    """Why something will never be stored; a label of ``archive_given_up_total``."""

    POD_GONE = "PodGone"
    NEVER_STARTED = "NeverStarted"
    TIMED_OUT = "TimedOut"
    NAMESPACE_DELETED = "NamespaceDeleted"
    OUTBOX_FULL = "OutboxFull"


class Backlog(Struct, frozen=True, kw_only=True):
    """What of a Workspace has waited for more than a minute. It changes when the count does, not with every error."""

    count: int
    since: datetime
    error: str


class Standing(Struct, frozen=True, kw_only=True):
    """What history has of the records that a Workspace's status, or its parcel, holds."""

    stored: frozenset[RunRecord] = frozenset()
    backlog: Backlog | None = None


class Archived(Struct, frozen=True, kw_only=True):
    """A Job whose record and log are stored, or given up for the reason ``loss``; ``note`` says it to people."""

    loss: Loss | None = None
    note: str = ""
