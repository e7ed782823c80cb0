"""Progress of long work, fit for a terminal and for a log.

On a terminal one line is rewritten in place. Elsewhere a line appears at the start, every ten seconds and at the end:
enough to see in a CI log that work goes on. What tools and servers say passes the door of terminals. Safe to call from
several threads.
"""

import threading
import time
from typing import Final, Protocol, TextIO

from magos.terminal import one_line, shown

_QUIET_SECONDS: Final = 10.0
_CLEAR_LINE: Final = "\r\x1b[2K"


class Progress(Protocol):
    """Takes the reports of long work."""

    def say(self, text: str) -> None:
        """Report a step that deserves a line of its own: a start, an end, a change of plan."""

    def tick(self, text: str) -> None:
        """Report the present state; call it as often as you like, it is shown as often as the output allows."""


class LineProgress:
    """:class:`Progress` on a text stream."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._live = stream.isatty()
        self._lock = threading.Lock()
        self._shown_at = 0.0

    def say(self, text: str) -> None:
        with self._lock:
            self._write(f"{_CLEAR_LINE if self._live else ''}{shown(text)}\n")
            self._shown_at = time.monotonic()

    def tick(self, text: str) -> None:
        with self._lock:
            now = time.monotonic()
            if self._live:
                self._write(f"{_CLEAR_LINE}{one_line(text)}")
            elif now - self._shown_at >= _QUIET_SECONDS:
                self._write(f"{one_line(text)}\n")
                self._shown_at = now

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
