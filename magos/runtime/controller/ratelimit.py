"""How long an item that failed has to wait: the longer, the more often it failed in a row.

Per-item exponential back-off and nothing else: a global bucket would let one noisy item push quiet ones hours away. The
delays are those of Kubernetes controllers (5 ms doubling to 1000 s), with jitter so that items that failed together do
not come back together.
"""

import random
from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["ItemBackoff"]

K = TypeVar("K", bound=Hashable)

BASE = 0.005
CAP = 1000.0
JITTER = 0.1
CAPACITY = 100_000
_MAX_EXPONENT = 64  # beyond this the cap rules anyway, and the power stays finite


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
