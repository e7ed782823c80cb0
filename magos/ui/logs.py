"""A stored log, a window of it at a time: numbered lines under the headings of their stages, and what was searched.

The whole log may have 50 MiB; only the lines of the window are kept while it is read.
"""

import re
from collections import deque

from markupsafe import Markup
from msgspec import Struct, structs

from magos.api.names import JobType
from magos.joblog import heading_stage
from magos.ui import links
from magos.ui.ansi import plain, to_html
from magos.ui.lines import Lines
from magos.ui.minimap import ErrorLines, minimap

WINDOW = 400
"""Lines of a page."""

_ERROR = re.compile(r"^\W{0,4}Error: ")
_WARNING = re.compile(r"^\W{0,4}Warning: ")
_BYTES = 64_000
"""Characters of log text in a page; longer lines are cut further, so that a page stays small."""


class Line(Struct, frozen=True, kw_only=True):
    """A numbered line; ``kind`` is ``error``, ``warning``, ``match`` or empty."""

    number: int
    html: Markup
    kind: str


class Part(Struct, frozen=True, kw_only=True):
    """The lines of a stage that are in the window. ``stage`` is empty where its heading is before the window."""

    stage: str
    lines: tuple[Line, ...]


class LogView(Struct, frozen=True, kw_only=True):
    """The page of a log. ``problem`` says why there is none."""

    title: str
    run_path: str
    workspace_path: str
    workspace: str
    phase: JobType
    phases: tuple[tuple[JobType, str], ...]
    parts: tuple[Part, ...] = ()
    first: int = 0
    last: int = 0
    total: int = 0
    earlier: str = ""
    later: str = ""
    error: str = ""
    search: str = ""
    matches: int = 0
    next_match: str = ""
    base: str = ""
    minimap: Markup = Markup("")
    download: str = ""
    stream: str = ""
    problem: str = ""


class Reading:
    """Takes in a log in chunks and keeps the window that is asked for.

    ``start`` is the number of its first line, counted from 1; 0 asks for the window of the first match of ``search``,
    else of the first error, else for the end.
    """

    def __init__(self, start: int, search: str = "") -> None:
        self._start = start
        self._search = search.lower()
        self._lines = Lines()
        self._last: deque[tuple[int, str]] = deque(maxlen=WINDOW)
        self._window: list[tuple[int, str]] = []
        self._anchor = start
        self.total = 0
        self.matches = 0
        self.first_error = 0
        self.errors = ErrorLines()
        self.next_match = 0

    def feed(self, chunk: bytes) -> None:
        """Take in the next chunk; lines may be cut anywhere."""
        for line in self._lines.feed(chunk):
            self._take(line)

    def finish(self) -> tuple[Part, ...]:
        """Return the window in parts; the log has ended."""
        for line in self._lines.finish():
            self._take(line)
        return _parts(self._window or list(self._last), self._search)

    def _take(self, line: str) -> None:
        self.total += 1
        text = plain(line)
        if _ERROR.match(text):
            self.first_error = self.first_error or self.total
            self.errors.add(self.total)
        matched = bool(self._search) and self._search in text.lower()
        if matched:
            self.matches += 1
            if not self.next_match and self._window and self.total > self._window[-1][0] and self._full:
                self.next_match = self.total
        if not self._anchor and (matched if self._search else self.first_error):
            self._anchor = max(1, self.total - 20)
            self._window = [entry for entry in self._last if entry[0] >= self._anchor]
        if self._anchor and self.total >= self._anchor and not self._full:
            self._window.append((self.total, line))
        self._last.append((self.total, line))

    @property
    def _full(self) -> bool:
        return len(self._window) >= WINDOW


def view(base: LogView, reading: Reading, root: str) -> LogView:
    """Return ``base``, which says whose log it is, with the window that was read; drawn links begin with ``root``."""
    parts = reading.finish()
    numbers = [line.number for part in parts for line in part.lines]
    first, last = (numbers[0], numbers[-1]) if numbers else (0, 0)

    def at(line: int, *, search: str = base.search) -> str:
        return links.query(base.base, phase=str(base.phase), from_=line, q=search)

    def to(line: int) -> str:
        return f"{at(max(1, line - 20))}#L{line}"

    return structs.replace(
        base,
        parts=parts,
        first=first,
        last=last,
        total=reading.total,
        earlier=at(max(1, first - WINDOW)) if first > 1 else "",
        later=at(last + 1) if last < reading.total else "",
        error=to(reading.first_error) if reading.first_error else "",
        minimap=minimap(
            reading.errors.marks(reading.total), (first, last), reading.total, lambda line: root + to(line)
        ),
        matches=reading.matches,
        next_match=f"{at(reading.next_match)}#L{reading.next_match}" if reading.next_match else "",
    )


def _parts(entries: "list[tuple[int, str]]", search: str) -> tuple[Part, ...]:
    longest = max(200, _BYTES // max(len(entries), 1))
    parts: list[tuple[str, list[Line]]] = [("", [])]
    for number, line in entries:
        stage = heading_stage(line)
        if stage is not None:
            parts.append((str(stage), []))
        shown = line if len(line) <= longest else line[:longest] + "…"
        parts[-1][1].append(Line(number=number, html=to_html(shown), kind=_kind(plain(line), search)))
    return tuple(Part(stage=stage, lines=tuple(lines)) for stage, lines in parts if lines)


def _kind(text: str, search: str) -> str:
    if search and search in text.lower():
        return "match"
    if _ERROR.match(text):
        return "error"
    return "warning" if _WARNING.match(text) else ""
