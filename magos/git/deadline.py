"""A time budget that a blocking operation checks as it goes, and that cuts the connections of those that cannot."""

import socket
import time

from magos.git.errors import GitError, GitReason
from magos.outbound.cuts import Cuts


class Deadline:
    """``seconds`` from now on the monotonic clock; ``what`` names the operation in the error."""

    def __init__(self, seconds: float, what: str) -> None:
        self._seconds = seconds
        self._what = what
        self._end = time.monotonic() + seconds
        self._cuts = Cuts()

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
        """Shut the connection down when the budget is used up; its readers must ``check``, ``release`` must follow."""
        self._cuts.cut(connection, self.remaining())

    def cut_all(self) -> None:
        """Shut every connection down that is to be cut at the end, now."""
        self._cuts.now()

    def release(self) -> None:
        """Cut no connection any more; those that were cut stay so."""
        self._cuts.release()
