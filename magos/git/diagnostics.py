"""What a child process writes to its standard error: all of it counted, the beginning and the end kept.

A file would grow as long as the server sends, and a pipe that is not emptied would stop the child.
"""

import os
import subprocess
import threading
from collections.abc import Callable

from magos.bounds import SSH_HEAD, SSH_TAIL
from magos.git.errors import GitError

_CHUNK = 64 * 1024


class Ring:
    """The first ``head`` and the last ``tail`` bytes of a text of any length; may be read while it is written."""

    def __init__(self, head: int = SSH_HEAD.limit, tail: int = SSH_TAIL.limit) -> None:
        self._most_head = head
        self._most_tail = tail
        self._head = bytearray()
        self._tail = bytearray()
        self._lost = 0
        self._lock = threading.Lock()

    def write(self, data: bytes) -> None:
        """Append ``data``."""
        with self._lock:
            room = self._most_head - len(self._head)
            self._head += data[:room]
            self._tail += data[room:]
            excess = max(len(self._tail) - self._most_tail, 0)
            del self._tail[:excess]
            self._lost += excess

    def held(self) -> int:
        """Return how many bytes are kept."""
        return len(self._head) + len(self._tail)

    def text(self) -> str:
        """Return what is kept, where a part is lost in complete lines only; what is no UTF-8 is replaced."""
        with self._lock:
            head, tail = bytes(self._head), bytes(self._tail)
            if self._lost:
                head = head[: head.rfind(b"\n") + 1]
                tail = tail[tail.find(b"\n") + 1 :] if b"\n" in tail else b""
        return (head + tail).decode(errors="replace")


class Diagnostics:
    """Standard error of the children of one client, whose ``received`` counts it and raises ``GitError``."""

    def __init__(self, received: Callable[[int], None]) -> None:
        self._received = received
        self._ring = Ring()
        self._pumps: list[threading.Thread] = []

    def start(self, arguments: list[str]) -> subprocess.Popen[bytes]:
        """Start a child with pipes for input and output whose standard error comes here."""
        read_end, write_end = os.pipe()
        try:
            process = subprocess.Popen(
                arguments, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=write_end
            )
        except BaseException:
            os.close(read_end)
            raise
        finally:
            os.close(write_end)
        pump = threading.Thread(target=self._pump, args=(read_end, process), name="diagnostics", daemon=True)
        self._pumps.append(pump)
        pump.start()
        return process

    def text(self, seconds: float) -> str:
        """Return what is kept; waits up to ``seconds`` for what children that end are still saying."""
        for pump in self._pumps:
            pump.join(seconds)
        return self._ring.text()

    def close(self) -> None:
        """Wait for the end of what was read; the children must have been reaped."""
        for pump in self._pumps:
            pump.join()

    def _pump(self, read_end: int, process: subprocess.Popen[bytes]) -> None:
        with os.fdopen(read_end, "rb", buffering=0) as stream:
            while data := stream.read(_CHUNK):
                self._ring.write(data)
                try:
                    self._received(len(data))
                except GitError:  # budget and deadline keep the cause; the reader asks them when the output ends
                    process.kill()
                    return
