"""Log text as HTML: everything is escaped, colours become classes, and no other control of a terminal has an effect.

``ESC [ … m`` (SGR) with the 16 colours of the palette, bold, dim, italic and underline is understood. Every other
sequence is dropped, and every other character that a terminal or a browser would obey (controls, bidirectional
overrides, characters of no width) is shown as its escape, as ``magos.terminal`` does it.
"""

import re
from collections.abc import Iterator

from markupsafe import Markup, escape

from magos.terminal import one_line

_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)(?P<sgr>[0-9;]*)m"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # any other control sequence
    r"|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # operating system commands: titles, links
    r"|\x1b[PX^_][^\x1b]*(?:\x1b\\)?"  # strings for devices
    r"|\x1b[ -/]*[0-~]?"
)
_STYLES = {1: "b", 2: "d", 3: "i", 4: "u"}
_OFF = {22: ("b", "d"), 23: ("i",), 24: ("u",)}
LONGEST = 4_000
"""Characters of a line that are shown; the whole line is in the download."""


def to_html(line: str) -> Markup:
    """Return one line of a log as well-formed HTML of text and ``span`` elements alone."""
    return Markup("").join(_spans(line[:LONGEST])) + (Markup("…") if len(line) > LONGEST else Markup(""))


def plain(line: str) -> str:
    """Return the text of a line without its sequences: what is searched."""
    return _SEQUENCE.sub("", line)


def _spans(line: str) -> Iterator[Markup]:
    style: tuple[str, ...] = ()
    position = 0
    for found in _SEQUENCE.finditer(line):
        yield _span(line[position : found.start()], style)
        position = found.end()
        if found["sgr"] is not None:
            style = _after(style, found["sgr"])
    yield _span(line[position:], style)


def _span(text: str, style: tuple[str, ...]) -> Markup:
    shown = escape("\t".join(map(one_line, text.split("\t"))))
    if not text or not style:
        return shown
    return Markup('<span class="{}">{}</span>').format(" ".join(f"a-{name}" for name in style), shown)


def _after(style: tuple[str, ...], parameters: str) -> tuple[str, ...]:
    """Return the style after an SGR sequence; what the palette does not have changes nothing."""
    codes = [int(code[-4:] or 0) for code in parameters.split(";")]
    kept = list(style)
    while codes:
        code = codes.pop(0)
        if code in (38, 48):
            codes = codes[2:] if codes[:1] == [5] else codes[4:]
            continue
        removed, added = _change(code, kept)
        kept = [name for name in kept if name not in removed] + [name for name in added if name not in kept]
    return tuple(kept)


def _change(code: int, style: list[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names that a code takes away and those that it adds."""
    if code == 0:
        return tuple(style), ()
    if code in _STYLES:
        return (), (_STYLES[code],)
    if code in _OFF:
        return _OFF[code], ()
    for first, kind, offset in ((30, "f", 0), (90, "f", 8), (40, "g", 0), (100, "g", 8)):
        if first <= code < first + 8:
            return _of_kind(style, kind), (f"{kind}{code - first + offset}",)
    if code in (39, 49):
        return _of_kind(style, "f" if code == 39 else "g"), ()
    return (), ()


def _of_kind(style: list[str], kind: str) -> tuple[str, ...]:
    return tuple(name for name in style if name[0] == kind)
