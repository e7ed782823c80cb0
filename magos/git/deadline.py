"""A time budget that a blocking operation checks as it goes, and that cuts the connections of those that cannot."""

import contextlib
import socket
import threading
import time

from magos.git.errors import GitError, GitReason

__all__ = ["Deadline"]


class Deadline:
    """``seconds`` from now on the monotonic clock; ``what`` names the operation in the error."""

    def __init__(self, seconds: float, what: str) -> None:
        self._seconds = seconds
        self._what = what
        self._end = time.monotonic() + seconds
        self._cuts: list[tuple[threading.Timer, socket.socket]] = []

    def remaining(self) -> float:
        """Return the seconds left, at least 0.001 so that it can serve as a socket timeout."""
        return max(self._end - time.monotonic(), 0.001)

    def expired(self) -> bool:
        """Tell whether the budget is used up."""
        return time.monotonic() >= self._end

    def check(self) -> None:
        """Raise ``GitError`` (GitFailed) if the budget is used up."""
        if self.expired():
            raise self.error()

    def error(self) -> GitError:
        """Return the error that says so."""
        return GitError(
            GitReason.GIT_FAILED,
            f"{self._what} took longer than {self._seconds:g} s; check the network and the size of the repository",
        )

    def cut(self, connection: socket.socket) -> None:
        """Shut the connection down when the budget is used up, whoever reads from it then.

        A time-out of a socket begins anew with every byte, so a server that drips could hold a reader for ever: while
        it shakes hands, in its headers, in the middle of a packet. What a fast one has sent can still be read, so its
        readers must ``check``. ``release`` must follow.
        """
        own = connection.dup()  # a TLS layer takes the other's descriptor over
        timer = threading.Timer(self.remaining(), _shut_down, [own])
        timer.daemon = True
        self._cuts.append((timer, own))
        timer.start()

    def cut_all(self) -> None:
        """Shut every connection down that is to be cut at the end, now."""
        for _, own in tuple(self._cuts):
            _shut_down(own)

    def release(self) -> None:
        """Cut no connection any more; those that were cut stay so."""
        for timer, own in self._cuts:
            timer.cancel()
            if timer.ident is not None:  # None: its start was interrupted
                timer.join()
            own.close()
        self._cuts.clear()


def _shut_down(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # the other side was faster
        connection.shutdown(socket.SHUT_RDWR)
