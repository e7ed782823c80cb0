"""Room on the Workspace's volume: what a run may remove to go on, and in which order (spec §7.7).

Before anything is created what other runs left is removed. Where less than a tenth is free, caches go by their last
use, and never what this run needs. Where a step meets a full volume all the same, everything goes that is not needed,
and the step is done once more.
"""

import time
from collections.abc import Callable
from math import inf
from typing import Final, TypeVar

from magos.folder import Folder
from magos.runner.caches import Cached, cached, evict, last_used, linked_providers, mark_used, own_tool, victims
from magos.runner.config import RunConfig
from magos.runner.journal import Journal
from magos.runner.markers import remove_other_runs, started
from magos.runner.outcome import StageFailed
from magos.runner.paths import Paths
from magos.runner.space import no_space

T = TypeVar("T")

EVICTED: Final = "the volume is short of space: cached downloads were removed; what is needed again is downloaded again"
"""What the log says where caches had to go."""

_RESERVE_SHARE: Final = 10


class Room:
    """What makes room for one run on ``volume``, which the caller holds."""

    def __init__(self, volume: Folder, paths: Paths, run: RunConfig, journal: Journal) -> None:
        self._volume = volume
        self._paths = paths
        self._run = run
        self._journal = journal

    def clean(self) -> None:
        """Remove what other runs left, unless this phase was started before: then another run may be at work.

        Where the volume is nearly full, also caches that the run before did not use.
        """
        if started(self._volume, self._run):
            return
        removed = remove_other_runs(self._volume, self._run)
        if removed:
            self._journal.say(f"removed the files of {removed} earlier run(s)")
        if self._missing() > 0:
            entries = self._entries()
            self._remove(victims(entries, self._likely(entries), self._missing()))

    def reserve(self) -> None:
        """Note what this run uses, once ``init`` has linked it; remove other caches where the volume is nearly full."""
        needed = self._needed()
        mark_used(self._volume, needed, time.time())
        if self._missing() > 0:
            self._remove(victims(self._entries(), needed, self._missing()))

    def retried(self, step: Callable[[], T]) -> T:
        """Do ``step``; if it meets a full volume, remove every cache that this run does not need and do it again."""
        try:
            return step()
        except (StageFailed, OSError) as error:
            if not no_space(error) or not self.emptied():
                raise
        return step()

    def insisted(self, step: Callable[[], T]) -> T:
        """Do ``step``; if it meets a full volume, as ``retried``, and then without any cache: it matters more."""
        try:
            return self.retried(step)
        except (StageFailed, OSError) as error:
            if not no_space(error) or not self._remove(victims(self._entries(), frozenset(), inf)):
                raise
        return step()

    def emptied(self) -> bool:
        """Remove every cache that ``init`` has not linked, half a download too; True if there was any."""
        return self._remove(victims(self._entries(), self._needed(), inf))

    def made(self, wanted: int) -> bool:
        """Remove caches that the run before did not use, to free ``wanted`` bytes; True if there were any.

        Says nothing: it may be called beside the stage's own thread.
        """
        entries = self._entries()
        return evict(self._volume, victims(entries, self._likely(entries), wanted)) > 0

    def _needed(self) -> frozenset[str]:
        return linked_providers(self._paths, self._run) | {own_tool(self._run)}

    def _likely(self, entries: tuple[Cached, ...]) -> frozenset[str]:
        """Return what this run probably needs, as long as nothing is known but what the run before used."""
        return last_used(entries) | {own_tool(self._run)}

    def _entries(self) -> tuple[Cached, ...]:
        return cached(self._volume, self._paths, self._run, time.time())

    def _missing(self) -> int:
        """Return how many bytes are missing until a tenth of the volume is free."""
        space = self._volume.space()
        return (space.f_blocks // _RESERVE_SHARE - space.f_bavail) * space.f_frsize

    def _remove(self, chosen: tuple[Cached, ...]) -> bool:
        gone = evict(self._volume, chosen)
        if gone:
            self._journal.say(EVICTED)
        return gone > 0
