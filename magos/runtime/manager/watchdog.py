"""The last resort against a second leader: a thread that ends the process when the loop does not.

A loop that is stuck (a blocking call, a paused machine) can neither renew its lease nor notice that it lost it. This
thread can: if the right to act has ended and the guarded work has not been reported as stopped within one second, the
process ends at once, without clean-up, with exit code 4.
"""

import math
import os
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from magos.runtime.clock import Clock

EXIT_CODE = 4
TOLERANCE = 1.0
PERIOD = 0.2
_LAST_WORDS = (
    b'{"level":"critical","logger":"magos.runtime.manager.watchdog","message":"leadership ended, but the event loop did'
    b' not stop its work within a second: the process ends now, so that no second leader can act beside it"}\n'
)


def _end_process() -> None:
    os.write(2, _LAST_WORDS)
    os._exit(EXIT_CODE)


class Watchdog:
    """Used as a context manager around the life of the process: the thread runs inside it.

    ``arm`` and ``disarm`` may be called from any thread. ``end`` is called on the watchdog's thread.
    """

    def __init__(self, clock: Clock, end: Callable[[], None] = _end_process, tolerance: float = TOLERANCE) -> None:
        self._clock = clock
        self._end = end
        self._tolerance = tolerance
        self._until = math.inf
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join()

    def arm(self, until: float) -> None:
        """The right to act ends at ``until`` (seconds of the clock); by then, call again or ``disarm``."""
        self._until = until

    def disarm(self) -> None:
        """The guarded work has ended."""
        self._until = math.inf

    def overdue(self) -> bool:
        """Tell whether the work should have stopped by now and did not say so."""
        return self._clock.monotonic() > self._until + self._tolerance

    def _watch(self) -> None:
        while not self._stopping.wait(PERIOD):
            if self.overdue():
                self._end()
                return
