"""How a log is stored: cut to its limit, compressed, in parts of equal size; and how it is read again. No I/O.

The same log gives the same bytes, however it arrives: the compressed stream has no time in it, and parts are cut at
fixed sizes. Everything here blocks for up to some 10 ms a megabyte; call it from a thread.
"""

import zlib
from collections.abc import Iterator
from typing import Final

from magos.history.archive import LIMIT, TRUNCATED

PART_BYTES: Final = 5 << 20
"""Size of all parts of an upload but the last one: the least that S3 takes."""

READ_LIMIT: Final = LIMIT + (1 << 20)
"""No log is longer when it is decompressed; what is, nobody stored here."""

_LONGEST_TAIL: Final = 1 << 20
"""Bytes of an unfinished line that are held back, so that a log can be cut at a line's end."""

_GZIP: Final = 31
"""zlib's window of 32 KiB, in the gzip format; its header then has no time."""

_BLOCK: Final = 256 << 10


class Cut:
    """Lets a log pass up to its limit; ``size`` counts the bytes that passed."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._tail = bytearray()
        self._within = False
        """What passed ends within a line."""
        self.size = 0
        self.truncated = False

    def feed(self, chunk: bytes) -> bytes:
        """Return what may be stored for certain; after the limit is passed, nothing more is taken."""
        if self.truncated:
            return b""
        self._tail += chunk[: self._limit - self.size - len(self._tail) + 1]
        if self.size + len(self._tail) > self._limit:
            del self._tail[self._limit - self.size :]
            self.truncated = True
            return b""
        end = self._tail.rfind(b"\n") + 1
        if len(self._tail) - end > _LONGEST_TAIL:
            end = len(self._tail)
        return self._pass(end)

    def finish(self) -> bytes:
        """Return the rest of the log, or the line that says that it was cut."""
        if not self.truncated:
            return self._pass(len(self._tail))
        end = self._tail.rfind(b"\n") + 1
        if end == 0 and self._within:  # a line of megabytes, whose beginning has passed
            return self._pass(len(self._tail)) + self._added(b"\n" + TRUNCATED)
        return self._pass(end) + self._added(TRUNCATED)

    def _pass(self, end: int) -> bytes:
        passed = bytes(self._tail[:end])
        del self._tail[:end]
        self.size += len(passed)
        self._within = not passed.endswith(b"\n") if passed else self._within
        return passed

    def _added(self, text: bytes) -> bytes:
        self.size += len(text)
        return text


class Packer:
    """Cuts and compresses a log to parts of an upload; holds about one part."""

    def __init__(self) -> None:
        self._cut = Cut()
        self._gzip = zlib.compressobj(6, zlib.DEFLATED, _GZIP)
        self._raw = bytearray()
        self._packed = bytearray()

    @property
    def size(self) -> int:
        """Bytes before compression, so far."""
        return self._cut.size

    @property
    def truncated(self) -> bool:
        """Whether the log is longer than its limit: the rest of it need not be read."""
        return self._cut.truncated

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the parts that are complete now."""
        self._raw += chunk
        # Always blocks of one size: how a log arrives must not show in what is stored.
        while len(self._raw) >= _BLOCK:
            self._packed += self._gzip.compress(self._cut.feed(bytes(self._raw[:_BLOCK])))
            del self._raw[:_BLOCK]
        return list(self._parts())

    def finish(self) -> list[bytes]:
        """Return the last parts, the last of all possibly smaller than the others."""
        rest = self._cut.feed(bytes(self._raw)) + self._cut.finish()
        self._packed += self._gzip.compress(rest) + self._gzip.flush()
        parts = list(self._parts())
        return [*parts, bytes(self._packed)] if self._packed else parts

    def _parts(self) -> Iterator[bytes]:
        while len(self._packed) >= PART_BYTES:
            yield bytes(self._packed[:PART_BYTES])
            del self._packed[:PART_BYTES]


class Unpacker:
    """Decompresses a stored log in blocks of bounded size; ``ValueError`` for what is no whole gzip stream."""

    def __init__(self) -> None:
        self._gzip = zlib.decompressobj(_GZIP)
        self._rest = b""
        self._more = False
        """The decompressor may hold bytes for which the last block had no room."""
        self._size = 0
        self.full = False
        """The object holds more than any log that was stored here; the rest of it is not read."""

    def feed(self, chunk: bytes) -> None:
        """Take compressed bytes; read them with ``block`` until that is empty."""
        self._rest += chunk

    def block(self) -> bytes:
        """Return the next decompressed bytes, empty if it needs more to read or is ``full``."""
        if self.full or not (self._rest or self._more):
            return b""
        try:
            content = self._gzip.decompress(self._rest, _BLOCK)
        except zlib.error as error:
            raise ValueError(f"it is not a gzip stream: {error}") from None
        self._rest = self._gzip.unconsumed_tail
        self._more = len(content) == _BLOCK
        self._size += len(content)
        self.full = self._size > READ_LIMIT
        return content

    def finish(self) -> None:
        """Raise ``ValueError`` if the stream is not whole."""
        if not (self.full or self._gzip.eof):
            raise ValueError("its gzip stream ends too early")
