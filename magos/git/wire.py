"""What comes from one remote, whatever the transport: every byte is counted, and none is taken after the deadline.

A listing of references is reduced as it arrives to those that somebody asked for: a server of an old protocol, or a
hostile one, sends all that it has, and what is kept in memory must not depend on that.
"""

import re
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from magos.bounds import GIT_LISTING
from magos.git.budget import Budget
from magos.git.deadline import Deadline
from magos.git.errors import GitError, GitReason
from magos.git.url import RepoURL
from magos.outbound.peers import Peers

Read = Callable[[int], bytes]

_REFERENCE = re.compile(rb"(unborn|[0-9a-f]{40,64}) ([^ \0\n]+)((?: [^ \0\n]+)*)\n?", re.DOTALL)
"""A reference in a listing of protocol v0 or v2 (gitprotocol-pack(5), gitprotocol-v2(5)); v0's first has a NUL."""
_ATTRIBUTES = (b"peeled:", b"symref-target:")
_HEADER = re.compile(rb"[0-9a-fA-F]{4}")
_LENGTH = 4


class Wire:
    """One remote's bytes, counted in ``budget`` and ended by ``deadline``; for one conversation at a time."""

    def __init__(self, url: RepoURL, deadline: Deadline, budget: Budget, peers: Peers = Peers()) -> None:  # noqa: B008  # immutable
        self.peers = peers
        self.url = url
        self.deadline = deadline
        self._budget = budget
        self._names: frozenset[bytes] | None = None

    def received(self, size: int) -> None:
        """Count ``size`` bytes. Raises ``GitError`` if they are too many or too late; any thread may call."""
        self.deadline.check()  # what a fast sender has on the way can be read after the cut, too
        self._budget.received(size, self.url)

    def remaining(self) -> float:
        """Return the seconds left, more than none."""
        return self.deadline.remaining()

    def cut(self, connection: socket.socket) -> None:
        """Shut ``connection`` down at the deadline."""
        self.deadline.cut(connection)

    @contextmanager
    def only(self, names: Iterable[str]) -> Iterator[None]:
        """Let through no references but ``names``, and what annotated tags among them point to, while in the block."""
        wanted = [name.encode("utf-8", "surrogateescape") for name in names]
        self._names = frozenset([*wanted, *(name + b"^{}" for name in wanted)])
        try:
            yield
        finally:
            self._names = None

    def reader(self, read: Read) -> Read:
        """Return ``read``, or what reduces its packets to the references that are wanted now."""
        return read if self._names is None else Listing(read, self._names, self.url).read


class Listing:
    """Reads the packets of a listing (gitprotocol-common(5)) through ``read`` and hands on those of interest."""

    def __init__(self, read: Read, names: frozenset[bytes], source: object) -> None:
        self._read = read
        self._names = names
        self._source = source
        self._pending = b""
        self._kept = 0

    def read(self, size: int) -> bytes:
        """Return up to ``size`` bytes of what is handed on; nothing at the end. Raises ``GitError`` for too much."""
        if not self._pending:
            self._pending = self._next()
            self._kept += len(self._pending)
            if self._kept > GIT_LISTING.limit:
                raise GitError(
                    GitReason.GIT_FAILED,
                    f"{self._source} answers a question about a few references with more than"
                    f" {GIT_LISTING.limit // 1024} KiB; check the URL and the server",
                )
        data, self._pending = self._pending[:size], self._pending[size:]
        return data

    def _next(self) -> bytes:
        """Return the next packet that is of interest, or whatever is no packet."""
        while True:
            length = self._read(_LENGTH)
            size = int(length, 16) - _LENGTH if _HEADER.fullmatch(length) else 0
            if size <= 0:  # a flush or delimiter packet, an empty one, the end, or no packet: the library's business
                return length
            content = self._read(size)
            if len(content) < size:
                return length + content
            kept = self._reduced(content)
            if kept is not None:
                return f"{len(kept) + _LENGTH:04x}".encode() + kept

    def _reduced(self, content: bytes) -> bytes | None:
        """Return ``content`` without unknown attributes, ``None`` for a reference that was not asked for."""
        found = _REFERENCE.fullmatch(content)
        if found is None:
            return content
        value, name, attributes = found.groups()
        if name not in self._names:
            return None
        known = [each for each in attributes.split() if each.startswith(_ATTRIBUTES)]
        return b" ".join([value, name, *known]) + b"\n"
