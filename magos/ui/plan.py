"""What a plan does, by address and grouped by action, beside the counts of its run."""

from collections.abc import Mapping

from markupsafe import Markup
from msgspec import Struct

from magos.api.workspace import PlanSummary
from magos.ui.ansi import to_html
from magos.ui.planlog import Action, Change, PlanLog

_WORDS = {
    Action.DESTROY: "Destroy",
    Action.REPLACE: "Replace",
    Action.CREATE: "Create",
    Action.UPDATE: "Update in place",
    Action.IMPORT: "Import",
    Action.MOVE: "Move",
    Action.FORGET: "Forget",
    Action.OUTPUT: "Outputs",
}
_TONES = {Action.DESTROY: "bad", Action.REPLACE: "warn", Action.CREATE: "ok", Action.UPDATE: "apply"}
_SIGNS = {"+": "plus", "-": "minus", "~": "tilde", "#": "remark"}


class DiffLine(Struct, frozen=True, kw_only=True):
    """A line of the tool; ``kind`` is ``plus``, ``minus``, ``tilde``, ``remark`` or empty."""

    html: Markup
    kind: str


class Entry(Struct, frozen=True, kw_only=True):
    """An address. ``open`` tells whether its lines are shown at once."""

    address: Markup
    lines: tuple[DiffLine, ...]
    left_out: int
    open: bool


class Group(Struct, frozen=True, kw_only=True):
    """The addresses of an action; ``total`` counts also those that are not shown."""

    action: Action
    title: str
    tone: str
    total: int
    entries: tuple[Entry, ...]


class PlanView(Struct, frozen=True, kw_only=True):
    """The changes. ``problem`` says why none are shown, ``differs`` where the log disagrees with the counts."""

    groups: tuple[Group, ...] = ()
    left_out: int = 0
    problem: str = ""
    differs: str = ""


def view(read: PlanLog | str, counts: PlanSummary | None) -> PlanView:
    """Return what is shown of a plan's log, or of the sentence that says why there is none."""
    if isinstance(read, str):
        return PlanView(problem=read)
    if read.cut:
        return PlanView(problem="The plan's log is cut: it is longer than what is stored. Its changes are not shown.")
    if not read.found:
        if counts is not None and not _numbers(counts):
            return PlanView()
        return PlanView(problem="The plan's log has no changes by address that Magos can read.")
    groups = tuple(_group(action, read) for action in Action if read.found.get(action))
    left_out = sum(read.found.values()) - len(read.changes)
    return PlanView(groups=groups, left_out=left_out, differs=_difference(read.found, counts))


def _group(action: Action, read: PlanLog) -> Group:
    return Group(
        action=action,
        title=_WORDS[action],
        tone=_TONES.get(action, "idle"),
        total=read.found[action],
        entries=tuple(_entry(each) for each in read.changes if each.action is action),
    )


def _entry(change: Change) -> Entry:
    return Entry(
        address=to_html(change.address),
        lines=tuple(DiffLine(html=to_html(line), kind=_SIGNS.get(line.lstrip()[:1], "")) for line in change.lines),
        left_out=change.left_out,
        open=change.action is Action.DESTROY,
    )


def _numbers(counts: PlanSummary) -> tuple[int, int, int] | None:
    numbers = (counts.destroy, counts.change, counts.add)
    return numbers if any(numbers) or not counts.no_changes else None


def _difference(found: Mapping[Action, int], counts: PlanSummary | None) -> str:
    """Return what to say where the blocks of the log do not add up to the counts of the plan."""
    if counts is None:
        return ""
    replaced = found.get(Action.REPLACE, 0)
    told = (
        found.get(Action.DESTROY, 0) + replaced,
        found.get(Action.UPDATE, 0),
        found.get(Action.CREATE, 0) + replaced,
    )
    if told == (counts.destroy, counts.change, counts.add):
        return ""
    return (
        f"The log tells of {told[0]} to destroy, {told[1]} to change and {told[2]} to add, and the plan itself of"
        f" {counts.destroy}, {counts.change} and {counts.add}. Trust the plan itself: a configuration can print text"
        " that looks like changes, and a log may lack some. Read the log before you approve."
    )
