"""The door of everything that a program of ours writes to a terminal.

Names, messages and the output of tools come from elsewhere. A terminal obeys control characters in them: an escape
sequence rewrites what stands above, sets the title or asks the terminal to answer; a bidirectional override shows words
in another order than they are in. So no such character reaches the terminal. What is shown in its place can be read.
"""

import sys
import unicodedata
from typing import Final

_ESCAPED: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""By their Unicode category: control characters (C0, DEL, C1), formats (bidirectional overrides, characters of no
width), halves of surrogate pairs, and separators of lines and paragraphs."""

_LAYOUT: Final = frozenset("\n\t")


def shown(text: str) -> str:
    """Return ``text`` with every character that a terminal would obey as an escape; lines stay lines, tabs tabs."""
    return "".join(each if each in _LAYOUT else _visible(each) for each in text)


def one_line(text: str) -> str:
    r"""Return ``text`` likewise on one line: a field of a text of ours. A line feed becomes ``\n``."""
    return "".join(map(_visible, text))


def echo(text: str, *, error: bool = False) -> None:
    """Write ``text`` and a line feed to standard output, or standard error, at once."""
    print(shown(text), file=sys.stderr if error else sys.stdout, flush=True)


def _visible(character: str) -> str:
    if unicodedata.category(character) not in _ESCAPED:
        return character
    return character.encode("unicode_escape").decode("ascii")


def write_exactly(text: str) -> None:
    """Write machine-readable output as it is, in UTF-8, to standard output: what reads it is a program."""
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode())
    sys.stdout.buffer.flush()
