"""How long a key has to wait: because it failed, or because it is written over and over.

A failed key waits the longer, the more often it failed in a row. This is per key and nothing else: a global bucket
would let one noisy key push quiet ones hours away. The delays are those of Kubernetes controllers (5 ms doubling to
1000 s), with jitter so that keys that failed together do not come back together.

A key that is written may have ``BURST`` writing passes at once and one more a second: two writers that undo each other,
or a status that never settles, are slowed down. No sane object comes near: a whole run of a Workspace is about fifteen
writes.
"""

import random
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

BASE = 0.005
CAP = 1000.0
JITTER = 0.1
CAPACITY = 100_000
_MAX_EXPONENT = 64  # beyond this the cap rules anyway, and the power stays finite

BURST = 60.0
PER_SECOND = 1.0
_SWEEP_AT = 1024


class ItemBackoff(Generic[K]):
    """Counts the failures in a row of each item.

    Remembers at most ``capacity`` items: where more fail, those that failed longest ago start over.
    """

    def __init__(self, rng: random.Random, *, base: float = BASE, cap: float = CAP, capacity: int = CAPACITY) -> None:
        if not 0 < base <= cap or capacity < 1:
            raise ValueError(f"back-off needs 0 < base <= cap and room for one item, got {base}, {cap}, {capacity}")
        self._rng = rng
        self._base = base
        self._cap = cap
        self._capacity = capacity
        self._failures: dict[K, int] = {}

    def __len__(self) -> int:
        return len(self._failures)

    def failed(self, item: K) -> float:
        """Count one more failure; return the delay in seconds, ``base * 2^n`` ±10 %, never more than the cap."""
        earlier = self._failures.pop(item, 0)  # popped, so that the order of the dict is the order of last failures
        self._failures[item] = earlier + 1
        if len(self._failures) > self._capacity:
            del self._failures[next(iter(self._failures))]
        delay = min(self._cap, self._base * 2.0 ** min(earlier, _MAX_EXPONENT))
        return min(self._cap, delay * self._rng.uniform(1 - JITTER, 1 + JITTER))

    def failures(self, item: K) -> int:
        """Return the failures in a row."""
        return self._failures.get(item, 0)

    def forget(self, item: K) -> None:
        """Start over for this item: it succeeded, or what it failed on has changed."""
        self._failures.pop(item, None)


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
