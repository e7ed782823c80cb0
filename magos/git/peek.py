"""The first objects of a pack, read as it arrives, so that a caller who needs only these can break the transfer off.

Servers send tags and commits before what belongs to them (gitformat-pack(5) leaves the order open, so no
caller may rely on it). Contents are hashed and dropped; only the first lines of tags are kept.
"""

import hashlib
import re
import struct
import zlib
from collections.abc import Iterable
from enum import StrEnum

import msgspec

_HEADER = struct.Struct(">4sLL")
_PIECE = 64 * 1024
_TAG_HEAD = 256
_LONGEST_HEAD = 10
_MORE = 0x80
_TAG = re.compile(rb"object ([0-9a-f]{40})\ntype (commit|tree|blob|tag)\n")


class Kind(StrEnum):
    """What an object is."""

    COMMIT = "commit"
    TREE = "tree"
    BLOB = "blob"
    TAG = "tag"


KINDS = {1: Kind.COMMIT, 2: Kind.TREE, 3: Kind.BLOB, 4: Kind.TAG}
"""By the number that packs give them."""


class Tip(msgspec.Struct, frozen=True):
    """What an object is once all tags are followed; a tag that leads nowhere is ``TAG``."""

    kind: Kind
    sha: str
    annotated: bool = False


class _Entry:
    """An object whose content is arriving."""

    def __init__(self, kind: Kind, size: int) -> None:
        self.kind = kind
        self.size = size
        self.seen = 0
        self.head = b""
        self.sum = hashlib.sha1(f"{kind} {size}\0".encode(), usedforsecurity=False)
        self.stream = zlib.decompressobj()


class Peek:
    """Takes a pack piece by piece. ``done`` once it is known what all of ``wanted`` are."""

    def __init__(self, wanted: Iterable[str]) -> None:
        self._wanted = tuple(wanted)
        self._objects: dict[str, Tip] = {}  # a tag's is what it points to, as it says
        self._pending = b""
        self._left: int | None = None
        self._entry: _Entry | None = None
        self._blind = False
        self.done = False

    def feed(self, data: bytes) -> None:
        """Take more of the pack. What cannot be read without the rest (a delta) ends the reading, not the transfer."""
        self._pending += data
        while not (self._blind or self.done) and self._step():
            pass
        if self._blind or self.done:
            self._pending = b""

    def learn(self, sha: str, kind: Kind, content: bytes) -> None:
        """Take note of an object that was read in another way, and whose content has that ID."""
        self._objects[sha] = _tip(sha, kind, content[:_TAG_HEAD])

    def missing(self) -> str | None:
        """Return the ID of an object that is still to be learned."""
        for each in self._wanted:
            tip = self._follow(each)
            if isinstance(tip, str):
                return tip
        return None

    def tips(self) -> dict[str, Tip]:
        """Return what is known of what was wanted."""
        followed = {each: self._follow(each) for each in self._wanted}
        return {each: tip for each, tip in followed.items() if isinstance(tip, Tip)}

    def _follow(self, sha: str) -> Tip | str:
        """Return what the object is in the end, or the ID of the object that has to be known first."""
        if sha not in self._objects:
            return sha
        tip, annotated = self._objects[sha], False
        while tip.annotated:
            annotated = True
            if tip.sha in self._objects:
                tip = self._objects[tip.sha]
            elif tip.kind is Kind.TAG:
                return tip.sha
            else:
                break
        return Tip(tip.kind, tip.sha, annotated)

    def _step(self) -> bool:
        """Go on as far as the next boundary; tell whether there may be more to read."""
        if self._left is None:
            return self._begin()
        if self._entry is not None:
            return self._inflate(self._entry)
        if self._left == 0:
            self._blind = True
            return False
        return self._next()

    def _begin(self) -> bool:
        if len(self._pending) < _HEADER.size:
            return False
        self._left = _HEADER.unpack_from(self._pending)[2]
        self._pending = self._pending[_HEADER.size :]
        return True

    def _next(self) -> bool:
        """Read the head of an object: three bits of kind, and the size in groups of four and then seven bits."""
        length = next((place for place, byte in enumerate(self._pending[:_LONGEST_HEAD], 1) if byte < _MORE), 0)
        if length == 0:
            self._blind = len(self._pending) >= _LONGEST_HEAD
            return False
        kind = KINDS.get((self._pending[0] >> 4) & 7)
        if kind is None:  # a delta
            self._blind = True
            return False
        size = self._pending[0] & 15
        for place, byte in enumerate(self._pending[1:length]):
            size |= (byte & 0x7F) << (4 + 7 * place)
        self._entry, self._pending = _Entry(kind, size), self._pending[length:]
        return True

    def _inflate(self, entry: _Entry) -> bool:
        if not self._pending:
            return False
        try:
            piece = entry.stream.decompress(self._pending, _PIECE)
        except zlib.error:
            self._blind = True
            return False
        self._pending = entry.stream.unconsumed_tail
        entry.seen += len(piece)
        entry.sum.update(piece)
        if entry.kind is Kind.TAG:
            entry.head += piece[: _TAG_HEAD - len(entry.head)]
        if entry.seen > entry.size:
            self._blind = True
        elif entry.stream.eof:
            self._pending = entry.stream.unused_data
            self._finish(entry)
            return True
        return bool(piece or self._pending)

    def _finish(self, entry: _Entry) -> None:
        self._entry = None
        self._left = (self._left or 0) - 1
        if entry.seen != entry.size:
            self._blind = True
            return
        sha = entry.sum.hexdigest()
        if entry.kind is Kind.TAG or sha in self._wanted:
            self._objects[sha] = _tip(sha, entry.kind, entry.head)
            self.done = self.missing() is None


def _tip(sha: str, kind: Kind, head: bytes) -> Tip:
    named = _TAG.match(head) if kind is Kind.TAG else None
    return Tip(kind, sha) if named is None else Tip(Kind(named[2].decode()), named[1].decode(), annotated=True)
