"""Chunks of a container's log to lines, each with the time at which the node says it was written.

Any chunking of the same bytes gives the same pieces: a line of at most ``PART`` bytes is one piece, a longer one is
cut after every ``PART`` bytes. At most ``PART`` bytes are held.
"""

from datetime import datetime
from functools import lru_cache
from typing import Final

from msgspec import Struct

PART: Final = 1 << 20
"""Longest piece, in bytes."""

_STAMP: Final = 64
"""No time is longer than this many bytes."""


class Piece(Struct, frozen=True, kw_only=True, gc=False):
    """A line, or a part of a long one. ``at`` is in nanoseconds since 1970, None if the line has no time."""

    text: bytes
    at: int | None
    starts: bool = True
    """It is the first piece of its line."""
    ends: bool = True
    """It is the last piece of its line."""


class PieceSplitter:
    """Cuts a stream of chunks, whose lines begin with a time and a space, into pieces without times."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._at: int | None = None
        self._within = False
        """The rest belongs to a line whose first piece is out."""

    def feed(self, chunk: bytes) -> list[Piece]:
        """Return the pieces that ``chunk`` completes."""
        *complete, rest = chunk.split(b"\n")
        pieces: list[Piece] = []
        for part in complete:
            self._rest += part
            self._cut(pieces)
            text, at = self._text()
            pieces.append(Piece(text=text, at=at, starts=not self._within))
            self._rest.clear()
            self._within = False
        self._rest += rest
        self._cut(pieces)
        return pieces

    def rest(self) -> Piece | None:
        """Return the end of a line that has no newline yet: the stream was cut there, or the container printed none."""
        if not self._rest:
            return None
        text, at = self._text()
        return Piece(text=text, at=at, starts=not self._within)

    def _cut(self, pieces: list[Piece]) -> None:
        while len(self._rest) > PART:
            text, self._at = self._text()
            if len(text) <= PART:
                return
            pieces.append(Piece(text=text[:PART], at=self._at, starts=not self._within, ends=False))
            self._rest[:] = text[PART:]
            self._within = True

    def _text(self) -> tuple[bytes, int | None]:
        line = bytes(self._rest)
        return (line, self._at) if self._within else _stamped(line)


def _stamped(line: bytes) -> tuple[bytes, int | None]:
    """Return the text behind the time that a line begins with, and the time; the line itself if it has none."""
    stamp, space, _ = line[:_STAMP].partition(b" ")
    if not space:
        return line, None
    at = _nanoseconds(stamp)
    return (line, None) if at is None else (line[len(stamp) + 1 :], at)


def _nanoseconds(stamp: bytes) -> int | None:
    """Read a time in RFC 3339 with any number of digits behind the point; None if it is none."""
    if len(stamp) < 20 or not stamp.isascii():
        return None
    text = stamp.decode()
    fraction, zone = "", text[19:]
    if zone[0] == ".":
        digits = len(zone) - len(zone[1:].lstrip("0123456789"))
        fraction, zone = zone[1:digits], zone[digits:]
    second = _seconds(text[:19], zone)
    return None if second is None else second * 1_000_000_000 + int(fraction.ljust(9, "0")[:9])


@lru_cache(maxsize=16)
def _seconds(second: str, zone: str) -> int | None:
    """Return seconds since 1970. Lines that follow each other mostly share the second and the zone."""
    if second[10:11] != "T" or not zone:
        return None
    try:
        return int(datetime.fromisoformat(second + zone).timestamp())
    except ValueError:
        return None
