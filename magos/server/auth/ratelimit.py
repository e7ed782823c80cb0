"""How often a password may be tried: five failures a minute and address, then pauses that double up to 15 minutes.

An attempt counts as a failure from its begin until it succeeds, so that attempts side by side are no way around. After
a pause each further failure starts the next one, until a login succeeds or the address was quiet for 15 minutes.
Addresses beyond ``MOST`` push out the one that was quiet longest.
"""

import math
from collections import OrderedDict
from collections.abc import Callable

from magos.server.problems import Problem

FAILURES = 5
WINDOW = 60.0
SHORTEST, LONGEST = 60.0, 900.0
"""Seconds of the first pause, and of the longest."""
MOST = 10_000


class _Record:
    __slots__ = ("level", "tried", "until")

    def __init__(self) -> None:
        self.tried: list[float] = []
        self.until = 0.0
        self.level = 0


class RateLimiter:
    """See the module. ``monotonic`` returns seconds."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._records: OrderedDict[str, _Record] = OrderedDict()

    def begin(self, address: str) -> None:
        """Count an attempt; raise ``Problem`` 429 where none is allowed now."""
        now = self._monotonic()
        record = self._record(address, now)
        if now < record.until:
            raise too_many(record.until - now)
        record.tried = [moment for moment in record.tried if now - moment < WINDOW]
        record.tried.append(now)
        if record.level or len(record.tried) >= FAILURES:
            record.until = now + min(LONGEST, SHORTEST * 2**record.level)
            record.level = min(record.level + 1, 16)
            record.tried.clear()

    def succeeded(self, address: str) -> None:
        """Forget the address: whoever is there knows the password."""
        self._records.pop(address, None)

    def _record(self, address: str, now: float) -> _Record:
        record = self._records.pop(address, None)
        if record is None or (record.level and now - record.until >= LONGEST):
            record = _Record()
        self._records[address] = record
        if len(self._records) > MOST:
            self._records.popitem(last=False)
        return record

    def __len__(self) -> int:
        """Return how many addresses are remembered."""
        return len(self._records)


def too_many(seconds: float) -> Problem:
    """Return the answer to one attempt too many."""
    wait = max(1, math.ceil(seconds))
    return Problem(429, f"too many failed logins, try again in {wait} s", headers={"Retry-After": str(wait)})
