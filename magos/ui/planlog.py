"""The changes of a plan by address, read out of the log of its phase.

OpenTofu and Terraform print a block for each address: a header such as ``  # aws_instance.web will be created``, and
the attributes below it. The runner has masked the text already. What a configuration prints into the same log can
imitate headers, so nothing is decided by what is found here: it is shown beside the counts of status.

What is promised: every input gives an answer, and no more is kept than the bounds below say; the rest is counted.
"""

import re
from collections import Counter
from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from magos.api.runnerpod import Stage
from magos.joblog import heading_stage
from magos.ui.ansi import plain
from magos.ui.lines import Lines

MOST_ADDRESSES = 500
MOST_LINES = 200
"""Lines of an address."""
MOST_TEXT = 200_000
"""Characters of all lines; each line counts for ``_MARKUP`` more."""
LONGEST = 500
"""Characters of a line, and of an address."""


class Action(StrEnum):
    """What a plan does with an address, in the order of the page."""

    DESTROY = "destroy"
    REPLACE = "replace"
    CREATE = "create"
    UPDATE = "update"
    IMPORT = "import"
    MOVE = "move"
    FORGET = "forget"
    OUTPUT = "output"


class Change(Struct, frozen=True, kw_only=True):
    """An address and the tool's lines about it. ``left_out`` counts the lines that are not kept."""

    action: Action
    address: str
    lines: tuple[str, ...]
    left_out: int = 0


class PlanLog(Struct, frozen=True, kw_only=True):
    """What was found. ``found`` counts all blocks by action, also those beyond the bound of ``changes``."""

    changes: tuple[Change, ...]
    found: Mapping[Action, int]
    cut: bool
    """True if the log says itself that its end is missing."""


_HEADER = "  # "
_MARKUP = 24
_PHRASES: tuple[tuple[str, Action | None], ...] = (
    (r"is tainted, so (?:it )?must be replaced", Action.REPLACE),
    (r"must be replaced", Action.REPLACE),
    (r"will be replaced(?:, as requested| due to changes in replace_triggered_by)?", Action.REPLACE),
    (r"will be created", Action.CREATE),
    (r"will be updated in-place", Action.UPDATE),
    (r"will be destroyed", Action.DESTROY),
    (r"will be imported", Action.IMPORT),
    (r"will be removed from the \w+ state,? but will not be destroyed", Action.FORGET),
    (r"will no longer be managed by \w+(?:, but will not be destroyed)?", Action.FORGET),
    (r"will be read during apply", None),
    (r"has been deleted", None),
    (r"has changed", None),
    (r"has moved to \S.*", Action.MOVE),
)
"""What stands behind the address, longest first where one ends with another. None: no change of the plan."""
_ENDS = tuple((re.compile(rf" {phrase}$"), action) for phrase, action in _PHRASES)
_OUTPUT = re.compile(r"  (?:[-+~]|-/\+) (?P<name>[^\s=]+)\s+= ")
_OUTPUTS = "Changes to Outputs:"


class Reader:
    """Takes in the log of a plan phase in chunks. ``truncated`` is the last line of one whose end is missing."""

    def __init__(self, truncated: str) -> None:
        self._truncated = truncated
        self._lines = Lines()
        self._inside = False
        self._in_outputs = False
        self._open: _Block | None = None
        self._kept: list[_Block] = []
        self._found: Counter[Action] = Counter()
        self._text = 0
        self._cut = False

    def feed(self, chunk: bytes) -> None:
        """Take in the next chunk; lines may be cut anywhere."""
        for line in self._lines.feed(chunk):
            self._take(line)

    def finish(self) -> PlanLog:
        """Return what was found; the log has ended."""
        for line in self._lines.finish():
            self._take(line)
        changes = tuple(block.change() for block in self._kept)
        return PlanLog(changes=changes, found=dict(self._found), cut=self._cut)

    def _take(self, line: str) -> None:
        self._cut = line == self._truncated
        stage = heading_stage(line) if line.startswith("=") else None  # most lines of a long log need no look
        if stage is not None:
            self._inside = stage is Stage.TERRAFORM
            self._end()
        elif self._inside:
            self._read(line if line.isascii() and "\x1b" not in line else plain(line))

    def _read(self, line: str) -> None:
        if line.rstrip() == _OUTPUTS:
            self._end()
            self._in_outputs = True
        elif _ends_block(line):
            self._end()
        elif self._in_outputs:
            named = _OUTPUT.match(line)
            if named:
                self._begin(Action.OUTPUT, named["name"])
            self._keep(line)
        elif not self._header(line):
            self._keep(line)

    def _header(self, line: str) -> bool:
        header = _header(line)
        if header is None:
            return False
        address, action = header
        self._end()
        if action is not None:
            self._begin(action, address)
        return True

    def _begin(self, action: Action, address: str) -> None:
        self._found[action] += 1
        self._open = None
        if len(self._kept) < MOST_ADDRESSES:
            self._open = _Block(action, address)
            self._kept.append(self._open)

    def _keep(self, line: str) -> None:
        if self._open is not None:
            self._text += self._open.keep(line, MOST_TEXT - self._text)

    def _end(self) -> None:
        self._open = None
        self._in_outputs = False


class _Block:
    """The lines of an address while they are read."""

    def __init__(self, action: Action, address: str) -> None:
        self.action = action
        self.address = address if len(address) <= LONGEST else address[: LONGEST - 1] + "…"
        self.lines: list[str] = []
        self.left_out = 0

    def keep(self, line: str, room: int) -> int:
        """Keep a line if there is room for it; return how much room it takes."""
        if self.left_out or len(self.lines) >= MOST_LINES or min(len(line), LONGEST) + _MARKUP > room:
            self.left_out += 1
            return 0
        kept = line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
        self.lines.append(kept)
        return len(kept) + _MARKUP

    def change(self) -> Change:
        """Return the block without the empty lines at its end."""
        lines = list(self.lines)
        while lines and not lines[-1].strip():
            lines.pop()
        return Change(action=self.action, address=self.address, lines=tuple(lines), left_out=self.left_out)


_INDENTS = frozenset(("", *" }-+~.<"))


def _ends_block(line: str) -> bool:
    """Tell whether this line stands outside of all blocks: ``Plan:``, a sentence of the tool, a rule.

    Lines of blocks are indented, but for the signs of an action and the brace that ends what is forgotten.
    """
    return line[:1] not in _INDENTS and not line.isspace()


def _header(line: str) -> tuple[str, Action | None] | None:
    """Return the address and the action of a header, None if the line is none. Only its end is looked for:
    keys of instances are free text, and may hold such words themselves."""
    if not line.startswith(_HEADER) or len(line) > 4 * LONGEST:
        return None
    text = line.rstrip()[len(_HEADER) :]
    for end, action in _ENDS:
        found = end.search(text)
        if found is not None and found.start() > 0:
            moved = action is Action.MOVE
            address = f"{text[: found.start()]} to {text[found.start() + 14 :]}" if moved else text[: found.start()]
            return address, action
    return None
