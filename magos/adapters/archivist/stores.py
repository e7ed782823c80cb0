"""Where records and logs go, and where logs come from; None for what is switched off."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from datetime import datetime

from msgspec import Struct

from magos.api.kube import Pod
from magos.api.names import JobType
from magos.history.archive import LogArchive
from magos.history.store import HistoryWriter

ReadLog = Callable[[Pod, JobType], AsyncGenerator[bytes, None]]
"""Yields the whole log of a pod that has ended; raises ``ApiError``. It is closed when it is left early."""

FindPods = Callable[[str, str, str], Collection[Pod]]
"""``(namespace, Job's name, Job's UID)`` to the pods of that Job, as the cache knows them."""


Sweep = Callable[[frozenset[str], datetime], Awaitable[None]]
"""``(UIDs of all Workspaces of the cluster, now)``."""


class Stores(Struct, frozen=True):
    """Both connect when they are first used, so that a process starts and works whether or not they are there."""

    history: HistoryWriter | None
    archive: LogArchive | None
    read_log: ReadLog
    sweep: Sweep | None = None
    """Deletes what is kept no longer."""
