"""Once an hour what history keeps no longer goes (spec §8.4)."""

import anyio
import structlog

from magos.adapters.archivist.stores import Sweep
from magos.api.workspace import Workspace
from magos.runtime.cache.informer import Informer
from magos.runtime.clock import Clock

EVERY = 3600.0
"""Seconds between two passes; one that fails is not repeated before the next is due."""

_log = structlog.get_logger(__name__)


class Sweeper:
    """Sees which Workspaces exist in the cache, which is complete before this begins to work."""

    def __init__(self, sweep: Sweep, workspaces: Informer[Workspace], clock: Clock) -> None:
        self._sweep = sweep
        self._workspaces = workspaces
        self._clock = clock

    async def run(self) -> None:
        """Sweep for ever."""
        while True:
            await anyio.sleep(EVERY)
            if self._workspaces.cache.undecodable:
                _log.warning("nothing is swept while a Workspace cannot be read: it would count as deleted")
                continue
            existing = frozenset(each.metadata.uid for each in self._workspaces.cache.list())
            try:
                await self._sweep(existing, self._clock.now())
            except Exception as error:  # noqa: BLE001 - whatever the stores do, the next pass comes
                _log.warning("old runs could not be deleted, tried again in an hour", error=str(error))
