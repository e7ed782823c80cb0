"""Slows down a key that is written over and over: two writers that undo each other, or a status that never settles.

Each key may have ``BURST`` writing passes at once and one more a second; beyond that its passes wait. No sane object
comes near: a whole run of a Workspace is about fifteen writes.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["ChurnGuard"]

K = TypeVar("K", bound=Hashable)

BURST = 60.0
PER_SECOND = 1.0
_SWEEP_AT = 1024


class ChurnGuard(Generic[K]):
    """A bucket of writes per key; full buckets are not kept. Times are seconds of any one clock."""

    def __init__(self) -> None:
        self._buckets: dict[K, tuple[float, float]] = {}
        self._sweep_at = _SWEEP_AT

    def __len__(self) -> int:
        """Return the number of keys that were written lately."""
        return len(self._buckets)

    def wrote(self, key: K, now: float) -> bool:
        """Count a pass that wrote; return True if it is the one that used the bucket up."""
        before = self._level(key, now)
        self._buckets[key] = (before - 1, now)
        if len(self._buckets) > self._sweep_at:
            self._sweep(now)
        return before - 1 < 1 <= before

    def wait(self, key: K, now: float) -> float:
        """Return the seconds the key has to wait before its next pass, 0 for none."""
        if key not in self._buckets:
            return 0.0
        return max(0.0, (1 - self._level(key, now)) / PER_SECOND)

    def _level(self, key: K, now: float) -> float:
        level, at = self._buckets.get(key, (BURST, now))
        return min(BURST, level + (now - at) * PER_SECOND)

    def _sweep(self, now: float) -> None:
        self._buckets = {key: bucket for key, bucket in self._buckets.items() if self._level(key, now) < BURST}
        self._sweep_at = max(_SWEEP_AT, 2 * len(self._buckets))
