"""What happens on SIGTERM (spec §7.6).

Outside a tool the stage unwinds at once through ``Terminated``, and is ended after four seconds if something holds it
up. While a tool runs the request is only noted: whatever waits for the tool asks it to stop, once.

``Terminated`` may interrupt any line of the main thread, also one inside a library that holds a lock. So the handler
takes no lock itself. An error after ``requested_at`` was set proves nothing: the interruption may
have caused it.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic, sleep
from types import FrameType
from typing import Final

from magos.api.runnerpod import TERMINATED

_LONGEST_UNWINDING: Final = 4.0
_HANDLED: Final = (signal.SIGTERM, signal.SIGINT)


class Terminated(BaseException):
    """The stage was asked to stop; passes every ``except Exception``."""


class Termination:
    """The one handler of SIGTERM and SIGINT of this process.

    ``requested_at`` is the monotonic time of the first signal, else None; later signals change nothing. ``wakeup`` is a
    file descriptor that becomes readable when a signal (SIGCHLD too) arrives.
    """

    def __init__(self) -> None:
        self.requested_at: float | None = None
        self.wakeup, self._write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._overdue, self._begin = os.pipe2(os.O_CLOEXEC)
        self._waiting = False
        self._unwinding = False

    def install(self) -> None:
        """Take over the signals, also those that were blocked until now; only the main thread may."""
        # Blocked while the watchdog starts, so that it inherits the mask and no signal is ever delivered to it.
        signal.pthread_sigmask(signal.SIG_BLOCK, {*_HANDLED, signal.SIGCHLD})
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()
        signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        for number in _HANDLED:
            signal.signal(number, self._asked)
        # Without a handler of its own the signal would be dropped and not wake anybody.
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {*_HANDLED, signal.SIGCHLD})

    def conclude(self) -> None:
        """Ignore signals from now on: the exit code is decided.

        The interpreter resets handlers while it ends, and a signal in these milliseconds would kill it.
        """
        for number in _HANDLED:
            signal.signal(number, signal.SIG_IGN)

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Only note a request while the block runs, and raise ``Terminated`` at its end if there was one."""
        self._waiting = True
        self.check()
        try:
            yield
        finally:
            self._waiting = False
        self.check()

    def check(self) -> None:
        """Raise ``Terminated`` if a stop was requested."""
        if self.requested_at is not None:
            self._unwind()

    def _asked(self, _number: int, _frame: FrameType | None) -> None:
        if self.requested_at is None:
            self.requested_at = monotonic()
        if not self._waiting:
            self._unwind()

    def _unwind(self) -> None:
        if self._unwinding:
            return  # a second signal must not interrupt the cleaning up
        self._unwinding = True
        os.write(self._begin, b"!")
        raise Terminated

    def _watch(self) -> None:
        os.read(self._overdue, 1)
        sleep(_LONGEST_UNWINDING)
        os._exit(TERMINATED)
