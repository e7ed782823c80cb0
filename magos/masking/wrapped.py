"""Recognises secrets with white space in them where a formatter has changed that white space (spec §7.6).

The tools wrap the text of a diagnostic at 78 columns, put a gutter (``│``) before each line, and name the resource
before each line that its provisioner prints. So a form that has white space inside is also recognised where other
*gaps* stand in its place. A gap is a run of white space, and of what stands before a line: line ends in it may be
followed by the name of a provisioner, then by any number of gutter characters, colours and white space. It has at most
``LONGEST_GAP`` bytes. Nothing is changed within words.

The text is read as its words with one blank between two of them, line by line; whatever has been read may go, except
from the start of a form that the next line may still complete.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise
from typing import Final, NamedTuple

from magos.masking.matching import HEAD, Matcher
from magos.masking.secretforms import SHORTEST_SECRET

LONGEST_GAP: Final = 1024
_GUTTER: Final = re.compile(rb"(?:[ \t\r\v\f]|\xe2\x94\x82|\xe2\x95[\xb5\xb7]|\x1b\[[0-9;]{0,16}m){0,1024}")
"""White space, the gutter characters of the tools and the colours they have."""
_PROVISIONER: Final = re.compile(rb"\((?:local|remote)-exec\): ")
_LATEST_PROVISIONER: Final = 320
"""Bytes of a line in which the name of a provisioner must end."""
_LONG_GAP: Final = re.compile(rb"\s{%d,}" % (LONGEST_GAP + 1))
_WORD: Final = re.compile(rb"\S+")
_LEAD_KNOWN: Final = _LATEST_PROVISIONER + 2 * LONGEST_GAP
"""Bytes of an unfinished line after which it is certain what stands before it."""


def unwrapped(form: bytes) -> bytes:
    """Return ``form`` with single blanks between its words; nothing if it has none inside, or is too short then."""
    words = form.split()
    text = b" ".join(words)
    return text if len(words) > 1 and len(text.decode("utf-8", "replace")) >= SHORTEST_SECRET else b""


class _Pending(NamedTuple):
    """A form that begins at ``start``, of which the first ``matched`` bytes have been read."""

    start: int
    matched: int
    form: bytes


class UnwrappedForms:
    """Those of ``forms`` that have white space inside, as they are looked for; for any number of streams."""

    def __init__(self, forms: Iterable[bytes]) -> None:
        self.matcher = Matcher(text for form in forms if (text := unwrapped(form)))
        self._cut: defaultdict[bytes, list[bytes]] = defaultdict(list)
        for form in self.matcher.forms:
            for at in range(1, min(HEAD, len(form))):
                if form[at] == 0x20:
                    self._cut[form[:at]].append(form)
        self._longest_cut = max(map(len, self._cut), default=0)

    def broken_off(self, text: bytes, *, ends_in_word: bool) -> list[tuple[bytes, int]]:
        """Return the forms of which fewer than ``HEAD`` bytes stand at the end of ``text``, and how many."""
        if ends_in_word:  # only in a line that is too long to be held
            lengths = range(1, min(HEAD, len(text) + 1))
            return [
                (form, length)
                for form in self.matcher.forms
                for length in lengths
                if length < len(form) and text.endswith(form[:length])
            ]
        lengths = range(1, min(self._longest_cut, len(text)) + 1)
        return [(form, length) for length in lengths for form in self._cut.get(text[-length:], ())]


class Unwrapper:
    """Reads one stream. All offsets are those of the bytes held; :meth:`forget` moves them when some are let go."""

    def __init__(self, forms: UnwrappedForms) -> None:
        self._forms = forms
        self._pending: list[_Pending] = []
        self._gap = 0
        self._at_line_start = True
        self.position = 0
        """Up to where the stream has been read."""

    def begin(self, *, at_line_start: bool) -> None:
        """Read what is held from its first byte on."""
        self._pending.clear()
        self._gap, self._at_line_start, self.position = 0, at_line_start, 0

    def forget(self, size: int) -> None:
        """The first ``size`` bytes held are let go."""
        self.position -= size
        self._pending = [pending._replace(start=pending.start - size) for pending in self._pending]

    def settled(self) -> int:
        """Return up to where it is certain which bytes are covered."""
        return min((pending.start for pending in self._pending), default=self.position)

    def read(self, held: bytes | bytearray, end: int, *, final: bool = False) -> list[tuple[int, int]]:
        """Read on up to ``end``, which is the end of a line, lies in one that is very long, or is the end of all.

        Returns the spans of forms that were completed. What stands before an unfinished line is read only when it is
        certain; :attr:`position` tells.
        """
        if not self._forms.matcher.forms:
            self.position = end
            return []
        found: list[tuple[int, int]] = []
        while self.position < end:
            newline = held.find(b"\n", self.position, end)
            stop = newline + 1 or end
            if self._at_line_start:
                known = newline >= 0 or final or len(held) - self.position >= _LEAD_KNOWN
                lead = self.position + _lead(held, self.position) if known else end + 1
                if lead > end:
                    return found
                self._gap += lead - self.position
                self.position, self._at_line_start = lead, False
            self._read_line(bytes(held[self.position : stop]), found)
            self.position, self._at_line_start = stop, newline >= 0
        return found

    def _read_line(self, line: bytes, found: list[tuple[int, int]]) -> None:
        """Read a line, or a part of one, that begins at ``position``."""
        pieces = [(0, line)]
        if len(line) > LONGEST_GAP:
            bounds = [0, *(at for gap in _LONG_GAP.finditer(line) for at in gap.span()), len(line)]
            pieces = [(start, line[start:stop]) for start, stop in pairwise(bounds)]
        for offset, piece in pieces:
            words = b" ".join(piece.split())
            if not words:
                self._gap += len(piece)
                continue
            before = len(piece) - len(piece.lstrip())
            after = len(piece) - len(piece.rstrip())
            self._gap += before
            if self._gap > LONGEST_GAP:
                self._pending.clear()
            self._read_words(_Words(self.position + offset, piece, words), found, ends_in_word=not after)
            self._gap = after

    def _read_words(self, words: "_Words", found: list[tuple[int, int]], *, ends_in_word: bool) -> None:
        text = words.text
        continued = b" " + text if self._gap else text
        pending: list[_Pending] = []
        for start, matched, form in self._pending:
            missing = len(form) - matched
            if missing > len(continued):
                if form.startswith(continued, matched):
                    pending.append(_Pending(start, matched + len(continued), form))
            elif continued.startswith(form[matched:]):
                found.append((start, words.stop(missing - len(continued) + len(text))))
        for start, stop, form in self._forms.matcher.begun(text):
            if stop is None:
                pending.append(_Pending(words.start(start), len(text) - start, form))
            else:
                found.append((words.start(start), words.stop(stop)))
        for form, matched in self._forms.broken_off(text, ends_in_word=ends_in_word):
            pending.append(_Pending(words.start(len(text) - matched), matched, form))
        self._pending = [each for each in pending if ends_in_word or each.form[each.matched] == 0x20]


class _Words(NamedTuple):
    """The words of ``raw``, which begins at ``base`` in the bytes held, and where they stand in it."""

    base: int
    raw: bytes
    text: bytes

    def start(self, at: int) -> int:
        """Return where the byte ``at`` of the text, no blank, stands."""
        passed = 0
        for word in _WORD.finditer(self.raw):
            if at < passed + len(word[0]):
                return self.base + word.start() + at - passed
            passed += len(word[0]) + 1
        raise IndexError(at)

    def stop(self, at: int) -> int:
        """Return where the first ``at`` bytes of the text, the last of which is no blank, end."""
        return self.start(at - 1) + 1


def _lead(held: bytes | bytearray, start: int) -> int:
    """Return how many bytes stand before the text of the line that begins at ``start``."""
    line_end = held.find(b"\n", start, start + _LATEST_PROVISIONER)
    named = _PROVISIONER.search(held, start, line_end if line_end >= 0 else start + _LATEST_PROVISIONER)
    after_name = named.end() if named else start
    gutter = _GUTTER.match(held, after_name, after_name + LONGEST_GAP)
    return (gutter.end() if gutter else after_name) - start
