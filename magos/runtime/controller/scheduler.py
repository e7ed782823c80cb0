"""Items with the times at which they are due: one entry an item, and the earliest time wins.

Pure bookkeeping: callers pass the time, and it sets no timer. Adding and taking cost O(log n); cancelled and replaced
entries stay in the heap until they come up or outnumber the live ones.
"""

import heapq
import math
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

_SMALL = 64


class Scheduler(Generic[K]):
    """A set of items, each with one time in seconds of any one clock."""

    def __init__(self) -> None:
        self._entries: dict[K, tuple[float, int]] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._serial = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, item: object) -> bool:
        return item in self._entries

    def when(self, item: K) -> float | None:
        """Return when the item is due, None if it is not scheduled."""
        entry = self._entries.get(item)
        return None if entry is None else entry[0]

    def schedule(self, item: K, when: float) -> bool:
        """Schedule the item for ``when`` unless an earlier time stands already; tell whether the time was taken."""
        if not math.isfinite(when):
            raise ValueError(f"{item!r} cannot be scheduled for {when}: not a time")
        entry = self._entries.get(item)
        if entry is not None and entry[0] <= when:
            return False
        self._serial += 1
        self._entries[item] = (when, self._serial)
        heapq.heappush(self._heap, (when, self._serial, item))
        self._compact()
        return True

    def cancel(self, item: K) -> bool:
        """Take the item out; tell whether it was scheduled."""
        if self._entries.pop(item, None) is None:
            return False
        self._compact()
        return True

    def clear(self) -> None:
        """Take everything out."""
        self._entries.clear()
        self._heap.clear()

    def next_due(self) -> float | None:
        """Return the earliest time, None if nothing is scheduled."""
        while self._heap and not self._is_live(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: float) -> list[K]:
        """Take out and return what is due at ``now``, in the order of time, then of scheduling."""
        due = []
        while self._heap and self._heap[0][0] <= now:
            entry = heapq.heappop(self._heap)
            if self._is_live(entry):
                del self._entries[entry[2]]
                due.append(entry[2])
        return due

    def _is_live(self, entry: tuple[float, int, K]) -> bool:
        return self._entries.get(entry[2]) == entry[:2]

    def _compact(self) -> None:
        if len(self._heap) > _SMALL + 2 * len(self._entries):
            self._heap = [(when, serial, item) for item, (when, serial) in self._entries.items()]
            heapq.heapify(self._heap)
