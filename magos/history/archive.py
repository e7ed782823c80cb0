"""What others may ask of the log archive. An S3-compatible bucket carries it out (``s3``)."""

from collections.abc import AsyncIterator, Collection
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from msgspec import Struct

from magos.api.names import JobType
from magos.errors import MagosError

LIMIT = 50 << 20
"""Bytes of a log before compression; what is behind them is cut off."""

TRUNCATED = b"[log truncated: exceeded 50 MiB limit]\n"
"""Last line of a log that was cut off."""


class ArchiveUnavailable(MagosError):
    """The bucket does not answer, or refuses: what was asked may be asked again later."""


class LogNotFound(MagosError):
    """The bucket has no object under this key."""


class StoredLog(Struct, frozen=True, kw_only=True):
    """A stored log. ``size`` counts bytes before compression."""

    size: int
    truncated: bool


class LogArchive(Protocol):
    """Keeps logs. Raises ``ArchiveUnavailable``."""

    async def store(self, key: str, chunks: AsyncIterator[bytes]) -> StoredLog:
        """Store a log, in constant memory. Storing the same log again gives the same object.

        An error of ``chunks`` leaves no object and no partial upload, and comes out as it is.
        """
        ...

    def open(self, key: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a stored log; it is yielded decompressed, in chunks. Raises ``LogNotFound``."""
        ...

    async def delete(self, keys: Collection[str]) -> None:
        """Delete logs; one that does not exist counts as deleted."""
        ...


def log_key(namespace: str, workspace: str, run_id: str, phase: JobType) -> str:
    """Return the key of a log: ``run-logs/<namespace>/<workspace>/<run ID>/<plan or apply>.log.gz``."""
    return f"run-logs/{namespace}/{workspace}/{run_id}/{phase}.log.gz"
