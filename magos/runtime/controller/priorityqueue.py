"""The queue of waiting keys: the order in which a work queue hands out what is ready.

One level a priority, first in first out inside a level, the more urgent level first. A key waits in one level only;
asked for again with more urgency it moves to the end of the more urgent level and keeps the time since which it waits.
Of every eight turns one goes to the longest waiting head of the less urgent levels if it has waited 30 s: urgent work
that never ends slows the rest down, but cannot starve it.
"""

from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

from magos.errors import InvariantViolation
from magos.runtime.decision import Priority

K = TypeVar("K", bound=Hashable)

AGED = 30.0
AGING_TURN = 8
_RANKS = {priority: rank for rank, priority in enumerate(Priority)}
_PRIORITIES = tuple(Priority)
_USUAL = _PRIORITIES[1]  # looked up by identity: the hash of an enum member costs more than all the rest of an add


def rank_of(priority: Priority) -> int:
    """Return the number of the priority's level; 0 is the most urgent."""
    return 1 if priority is _USUAL else _RANKS[priority]


class Waiting(Generic[K]):
    """A key that waits: in which level, and since when."""

    __slots__ = ("key", "live", "rank", "since")

    def __init__(self, key: K, rank: int, since: float) -> None:
        self.key = key
        self.rank = rank
        self.since = since
        self.live = True  # False once the key has moved to another level

    @property
    def priority(self) -> Priority:
        """The priority of the level."""
        return _PRIORITIES[self.rank]


class PriorityQueue(Generic[K]):
    """All levels together; putting and taking cost O(1)."""

    def __init__(self) -> None:
        self._levels: tuple[deque[Waiting[K]], ...] = tuple(deque() for _ in Priority)
        self._entries: dict[K, Waiting[K]] = {}
        self._turn = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def put(self, waiting: Waiting[K]) -> None:
        """Queue a key that is not queued yet."""
        self._entries[waiting.key] = waiting
        self._levels[waiting.rank].append(waiting)

    def urge(self, key: K, rank: int) -> bool:
        """Move a queued key to a more urgent level (to no less urgent one); return False if it is not queued."""
        waiting = self._entries.get(key)
        if waiting is None:
            return False
        if rank < waiting.rank:
            waiting.live = False
            self.put(Waiting(key, rank, waiting.since))
        return True

    def take(self, now: float) -> Waiting[K] | None:
        """Return the key whose turn it is and take it out; None if all levels are empty."""
        if not self._entries:
            return None
        self._turn += 1
        aged = self._aged(now) if self._turn % AGING_TURN == 0 else None
        for level in self._levels if aged is None else (aged,):
            while level:
                waiting = level.popleft()
                if waiting.live:
                    del self._entries[waiting.key]
                    return waiting
        raise InvariantViolation("a key is queued but stands in no level")

    def clear(self) -> None:
        """Take everything out."""
        self._entries.clear()
        for level in self._levels:
            level.clear()

    def _aged(self, now: float) -> deque[Waiting[K]] | None:
        lower = [level for level in self._levels[1:] if self._trim(level)]
        oldest = min(lower, key=lambda level: level[0].since, default=None)
        return oldest if oldest is not None and now - oldest[0].since > AGED else None

    @staticmethod
    def _trim(level: deque[Waiting[K]]) -> bool:
        """Drop what has moved away from the head; tell whether anything is left."""
        while level and not level[0].live:
            level.popleft()
        return bool(level)
