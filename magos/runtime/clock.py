"""The two clocks of a process: one to measure with, one to show to people.

``monotonic`` counts the seconds of this machine, suspended time included, and never steps: every deadline, validity and
duration is reckoned with it. ``now`` is wall time, which may jump; it is written into objects and never decides who may
act. Nothing else in the runtime reads a clock, so that tests can put virtual time in its place.
"""

import sys
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What the runtime knows of time."""

    def monotonic(self) -> float:
        """Return seconds since an arbitrary start; never steps, and goes on while the machine is suspended."""
        ...

    def now(self) -> datetime:
        """Return the wall time as an aware UTC datetime."""
        ...


if sys.platform == "linux":
    _SUSPEND_AWARE = time.CLOCK_BOOTTIME
else:  # elsewhere (macOS) CLOCK_MONOTONIC itself counts suspended time
    _SUSPEND_AWARE = time.CLOCK_MONOTONIC


class SystemClock:
    """The clocks of the operating system."""

    def monotonic(self) -> float:
        """Return ``CLOCK_BOOTTIME``: unlike ``time.monotonic`` it goes on during suspend, as a rival's clock does."""
        return time.clock_gettime(_SUSPEND_AWARE)

    def now(self) -> datetime:
        """Return the wall time as an aware UTC datetime."""
        return datetime.now(UTC)
