"""Where the parts of a JSON text are: found without decoding them, and without recursion.

Promises: nesting of any depth is no trouble, and time is in proportion to the length of the text. A text that ends
before its brackets do, or goes on behind them, is a ``ValueError``. What stands inside a part is not judged: strings
are skipped by their quotes, everything else by its brackets.
"""

import re
from collections.abc import Iterator

_BLANK = re.compile(rb"[ \t\r\n]*+")
_QUOTED = rb'"(?:[^"\\]++|\\.)*+"'
_STRING = re.compile(_QUOTED, re.DOTALL)
_SCALAR = re.compile(rb'[^\s,:"{}\[\]]++')
_OPENING = b"{["


def _to_bracket(levels: int) -> re.Pattern[bytes]:
    """Return what skips to the next bracket, taking containers of up to ``levels`` levels in one go.

    That makes wide texts cheap; of a deep one, each level is looked at ``levels`` times at most.
    """
    inside = rb'[^"{}\[\]]++|' + _QUOTED
    flat = inside
    for _ in range(levels):
        inside = rb"%b|\{(?:%b)*+\}|\[(?:%b)*+\]" % (flat, inside, inside)
    return re.compile(rb"(?:%b)*+[{}\[\]]" % inside, re.DOTALL)


_TO_BRACKET = _to_bracket(3)


def members(text: bytes, at: int = 0) -> Iterator[tuple[bytes, int, int]]:
    """Yield key (with its quotes, as written), begin and end of each value of the object that begins at ``at``."""
    at = _blank(text, at)
    if text[at : at + 1] == b"{" and text[(first := _blank(text, at + 1)) : first + 1] == b"}":
        _finish(text, first + 1, at)
        return
    begin = at
    while True:
        at = _expect(text, at, b"{" if at == begin else b",")
        key = _STRING.match(text, _blank(text, at))
        if key is None:
            raise ValueError(f"a key is missing at byte {at}")
        start = _blank(text, _expect(text, key.end(), b":"))
        end = _end(text, start)
        yield key[0], start, end
        at = _blank(text, end)
        if text[at : at + 1] == b"}":
            _finish(text, at + 1, begin)
            return


def elements(text: bytes, at: int = 0) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each element of the array that begins at ``at``."""
    at = _blank(text, at)
    if text[at : at + 1] == b"[" and text[(first := _blank(text, at + 1)) : first + 1] == b"]":
        _finish(text, first + 1, at)
        return
    begin = at
    while True:
        start = _blank(text, _expect(text, at, b"[" if at == begin else b","))
        end = _end(text, start)
        yield start, end
        at = _blank(text, end)
        if text[at : at + 1] == b"]":
            _finish(text, at + 1, begin)
            return


def _end(text: bytes, at: int) -> int:
    """Return where the value that begins at ``at`` ends."""
    if text[at : at + 1] not in (b"{", b"["):
        found = _STRING.match(text, at) or _SCALAR.match(text, at)
        if found is None:
            raise ValueError(f"a value is missing at byte {at}")
        return found.end()
    depth, at = 1, at + 1
    while depth:
        bracket = _TO_BRACKET.match(text, at)
        if bracket is None:
            raise ValueError("the text ends inside a value")
        at = bracket.end()
        depth += 1 if text[at - 1] in _OPENING else -1
    return at


def _expect(text: bytes, at: int, mark: bytes) -> int:
    at = _blank(text, at)
    if text[at : at + 1] != mark:
        raise ValueError(f"expected {mark.decode()!r} at byte {at}")
    return at + 1


def _blank(text: bytes, at: int) -> int:
    found = _BLANK.match(text, at)
    return at if found is None else found.end()


def _finish(text: bytes, at: int, begin: int) -> None:
    """A value that is the whole text must be followed by nothing."""
    inside = begin > _blank(text, 0)
    if not inside and _blank(text, at) != len(text):
        raise ValueError(f"the text goes on behind its end at byte {at}")
