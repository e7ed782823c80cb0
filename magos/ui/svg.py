"""Drawings that the server makes: durations and outcomes of runs, and what a Workspace descends from.

They are SVG of ours with escaped texts; colours come from classes, so that both themes fit and no style is inline.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from markupsafe import Markup
from msgspec import Struct

_NODE_WIDTH, _NODE_HEIGHT, _GAP_X, _GAP_Y = 184, 32, 48, 8
MOST_NODES = 60
"""Nodes of a drawing; beyond that Workspaces are drawn as one node for each state."""
_LETTERS = 20


class Bar(Struct, frozen=True, kw_only=True):
    """A run in a sparkline: how long it took, how it ended, and what to say about it."""

    seconds: float
    tone: str
    title: str


class Node(Struct, frozen=True, kw_only=True):
    """A box of the lineage. ``path`` is what it leads to, below the root; empty for nothing."""

    text: str
    path: str = ""
    tone: str = "idle"


def sparkline(bars: Sequence[Bar]) -> Markup:
    """Return bars of durations, the first one left, over dots of outcomes; empty for no runs."""
    if not bars:
        return Markup("")
    longest = max(bar.seconds for bar in bars) or 1
    drawn = []
    for index, bar in enumerate(bars):
        height = max(2, round(22 * bar.seconds / longest))
        drawn.append(
            Markup(
                '<g class="tone-{}"><title>{}</title><rect x="{}" y="{}" width="6" height="{}" rx="1"></rect>'
                '<circle cx="{}" cy="32" r="2.5"></circle></g>'
            ).format(bar.tone, bar.title, index * 10, 24 - height, height, index * 10 + 3)
        )
    width = len(bars) * 10
    return Markup(
        '<svg class="spark" role="img" aria-label="{}" width="{}" height="36" viewBox="0 0 {} 36">{}</svg>'
    ).format(f"Durations and outcomes of the last {len(bars)} runs", width, width, Markup("").join(drawn))


def lineage(columns: Sequence[Sequence[Node]], root: str) -> Markup:
    """Return the columns as boxes from left to right, each box joined to all of the next column."""
    filled = [_within(column) for column in columns if column]
    if not filled:
        return Markup("")
    rows = max(map(len, filled))
    height = rows * (_NODE_HEIGHT + _GAP_Y) - _GAP_Y
    width = len(filled) * (_NODE_WIDTH + _GAP_X) - _GAP_X
    places = [
        [(x * (_NODE_WIDTH + _GAP_X), _top(y, len(col), height)) for y in range(len(col))]
        for x, col in enumerate(filled)
    ]
    lines = [_line(start, end) for left, right in pairwise(places) for start in left for end in right]
    boxes = [
        _box(node, place, root)
        for col, spots in zip(filled, places, strict=True)
        for node, place in zip(col, spots, strict=True)
    ]
    label = " to ".join(f"{len(col)} of level {index}" for index, col in enumerate(filled, 1))
    return Markup(
        '<svg class="lineage" role="group" aria-label="Lineage: {}" width="{}" height="{}"'
        ' viewBox="0 0 {} {}">{}{}</svg>'
    ).format(label, width, height, width, height, Markup("").join(lines), Markup("").join(boxes))


def grouped(nodes: Sequence[Node], words: Sequence[str], path: str) -> tuple[Node, ...]:
    """Return the nodes, or where they are too many one for each state; ``words`` are the states of the nodes."""
    if len(nodes) <= MOST_NODES:
        return tuple(nodes)
    tones = {word: node.tone for word, node in zip(words, nodes, strict=True)}
    return tuple(
        Node(text=f"{count} {word}", path=path, tone=tones[word]) for word, count in Counter(words).most_common()
    )


def _within(column: Sequence[Node]) -> Sequence[Node]:
    if len(column) <= MOST_NODES:
        return column
    return (*column[: MOST_NODES - 1], Node(text=f"and {len(column) - MOST_NODES + 1} more"))


def _top(index: int, count: int, height: int) -> int:
    used = count * (_NODE_HEIGHT + _GAP_Y) - _GAP_Y
    return (height - used) // 2 + index * (_NODE_HEIGHT + _GAP_Y)


def _line(start: tuple[int, int], end: tuple[int, int]) -> Markup:
    x1, y1 = start[0] + _NODE_WIDTH, start[1] + _NODE_HEIGHT // 2
    x2, y2 = end[0], end[1] + _NODE_HEIGHT // 2
    middle = (x1 + x2) // 2
    return Markup('<path class="edge" d="M{} {}C{} {} {} {} {} {}"></path>').format(
        x1, y1, middle, y1, middle, y2, x2, y2
    )


def _box(node: Node, place: tuple[int, int], root: str) -> Markup:
    x, y = place
    short = node.text if len(node.text) <= _LETTERS else node.text[: _LETTERS - 1] + "…"
    body = Markup(
        '<g class="node tone-{}"><title>{}</title><rect x="{}" y="{}" width="{}" height="{}" rx="6"></rect>'
        '<circle cx="{}" cy="{}" r="4"></circle><text x="{}" y="{}">{}</text></g>'
    ).format(
        node.tone,
        node.text,
        x + 0.5,
        y + 0.5,
        _NODE_WIDTH - 1,
        _NODE_HEIGHT - 1,
        x + 14,
        y + _NODE_HEIGHT // 2,
        x + 26,
        y + _NODE_HEIGHT // 2 + 4,
        short,
    )
    return Markup('<a href="{}">{}</a>').format(root + node.path, body) if node.path else body
