"""What was already read of a log, so that a log which is opened again neither repeats nor loses a line.

A log that is opened again is asked for from a time on. The API server passes that time on in whole seconds, so lines
from before come again, and the node's times alone do not tell which: two lines may have one time, and lines of the two
output streams may be a little out of order. So the last lines themselves are remembered, by time and checksum, and
recognised in the order in which they come again. The node may also have dropped them meanwhile, because it rotates
logs: then whatever is newer is new.

Not recognised are only lines that were written after the node's clock was set back and while the connection was down.
"""

from collections import Counter, deque
from datetime import UTC, datetime
from typing import Final
from zlib import crc32

from magos.api.timestamps import format_time
from magos.joblog.pieces import Piece

_REMEMBERED: Final = 1024
"""Lines; far more than two streams get out of order. It bounds memory, and what is read twice over a break."""

_OUT_OF_ORDER_SECONDS: Final = 1
"""How much earlier than the lines before it a line may be that is still to come."""

_Key = tuple[int, int]
_NO_TIME: Final = -1


class Seen:
    """Tells new pieces of one container's log from those that were taken before."""

    def __init__(self) -> None:
        self._last: deque[_Key] = deque()
        self._before = 0
        """Lines before those remembered that have the same time as the first of these."""
        self._pieces = 0
        """Pieces taken of the last line, if not all of it was; else 0."""
        self.reopen()

    @property
    def since(self) -> str:
        """The time from which on the log must be read again: RFC 3339 in whole seconds, empty for its beginning."""
        earliest = min((at for at, _ in self._last), default=_NO_TIME)
        if earliest == _NO_TIME:
            return ""
        return format_time(datetime.fromtimestamp(earliest // 1_000_000_000 - _OUT_OF_ORDER_SECONDS, UTC))

    def reopen(self) -> None:
        """Begin a new reading of the log, from ``since`` on."""
        self._expected = Counter(self._last)
        self._skip = self._before
        self._recognised = not self._last
        self._newest = max((at for at, _ in self._last), default=_NO_TIME)
        self._taking = True
        self._known_pieces = 0

    def take(self, piece: Piece) -> bool:
        """Return whether the piece is new, and remember it if so. Give it the pieces of a reading in their order."""
        if piece.starts:
            key = (_NO_TIME if piece.at is None else piece.at, crc32(piece.text))
            self._taking = self._is_new(key)
            if self._taking:
                self._remember(key)
        if self._known_pieces:  # of the line that the break cut in two
            self._known_pieces -= 1
            self._taking = self._known_pieces == 0
            return False
        if not self._taking:
            return False
        self._pieces = 0 if piece.ends else self._pieces + 1
        return True

    def _is_new(self, key: _Key) -> bool:
        at, _ = key
        if not self._recognised and self._skip and at == self._last[0][0]:
            self._skip -= 1
            return False
        if self._expected[key] > 0:
            # A line without a time may well come twice, so it does not tell where in the log this is.
            self._recognised = self._recognised or at != _NO_TIME or self._newest == _NO_TIME
            self._expected[key] -= 1
            if self._pieces and key == self._last[-1] and not self._expected[key]:
                self._known_pieces = self._pieces
            return False
        return self._recognised or at > self._newest

    def _remember(self, key: _Key) -> None:
        self._pieces = 0
        self._last.append(key)
        if len(self._last) > _REMEMBERED:
            dropped = self._last.popleft()
            self._before = self._before + 1 if dropped[0] == self._last[0][0] else 0
