"""The list of Workspaces: search, filters, order and pages, all of them in the address (spec §10)."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum

from msgspec import Struct, structs

from magos.api.phases import Phase
from magos.api.workspace import Workspace
from magos.explain import Account, Attention
from magos.ui import links
from magos.ui.badges import attention_of
from magos.ui.rows import Row, row

PAGE = 50
"""Workspaces on a page."""

PATH = "/workspaces"


class Sort(StrEnum):
    """The orders of the list."""

    NAME = "name"
    STATUS = "status"


class Layout(StrEnum):
    """The forms of the list."""

    ROWS = "rows"
    CARDS = "cards"


_URGENCY = {each: index for index, each in enumerate(Attention)}


class Query(Struct, frozen=True, kw_only=True):
    """What of the list is asked for. Empty fields do not restrict it."""

    q: str = ""
    state: str = ""
    project: str = ""
    phase: str = ""
    label: str = ""
    namespace: str = ""
    sort: Sort = Sort.NAME
    view: Layout = Layout.CARDS
    after: str = ""
    before: str = ""

    @classmethod
    def parse(cls, parameters: Mapping[str, str]) -> "Query":
        """Return what an address asks for; what is not known or makes no sense does not restrict the list."""
        texts = {
            name: parameters.get(name, "").strip()[:253]
            for name in ("q", "project", "label", "namespace", "after", "before")
        }
        return cls(
            **texts,
            state=_known(Attention, parameters.get("state", "")),
            phase=_known(Phase, parameters.get("phase", "")),
            sort=Sort(_known(Sort, parameters.get("sort", "")) or Sort.NAME),
            view=Layout(_known(Layout, parameters.get("view", "")) or Layout.CARDS),
        )

    def path(self, **changes: str) -> str:
        """Return the address of this list with some fields changed; a change begins at the first page."""
        changed = structs.replace(self, **{"after": "", "before": "", **changes})
        defaults = {"sort": Sort.NAME, "view": Layout.CARDS}
        return links.query(
            PATH, **{key: value for key, value in structs.asdict(changed).items() if value != defaults.get(key)}
        )

    @property
    def filtered(self) -> bool:
        """True if not all Workspaces are asked for."""
        return any((self.q, self.state, self.project, self.phase, self.label, self.namespace))

    def takes(self, workspace: Workspace) -> bool:
        """Tell whether the Workspace is in the list."""
        meta, spec = workspace.metadata, workspace.spec
        return (
            (not self.namespace or meta.namespace == self.namespace)
            and (not self.project or spec.project_ref.name == self.project)
            and (not self.phase or (workspace.status.phase or Phase.PENDING) == self.phase)
            and (not self.state or attention_of(workspace) == self.state)
            and (not self.label or _labelled(meta.labels, self.label))
            and (not self.q or self.q.lower() in f"{meta.namespace}/{meta.name}".lower())
        )


class Count(Struct, frozen=True, kw_only=True):
    """A part of the answering sentence, and where it leads."""

    text: str
    tone: str
    path: str


class Choice(Struct, frozen=True, kw_only=True):
    """An entry of a menu of a filter."""

    value: str
    chosen: bool


class ListView(Struct, frozen=True, kw_only=True):
    """The page of the list."""

    query: Query
    sentence: tuple[Count, ...]
    rows: tuple[Row, ...]
    matching: int
    total: int
    projects: tuple[Choice, ...]
    namespaces: tuple[Choice, ...]
    phases: tuple[Choice, ...]
    newer: str
    """Address of the page before, empty on the first."""
    older: str


Explained = Callable[[Workspace], Account]
"""Explains a Workspace; called for those alone that are shown."""


def view(workspaces: Sequence[Workspace], query: Query, explained: Explained, now: datetime) -> ListView:
    """Return the page that ``query`` asks for. ``workspaces`` are all that the caller may list, sorted by name."""
    found = [each for each in workspaces if query.takes(each)]
    if query.sort is Sort.STATUS:
        found.sort(key=_key(query))
    shown, earlier, later = _page(found, query)
    return ListView(
        query=query,
        sentence=sentence(workspaces, query),
        rows=tuple(row(each, explained(each), now) for each in shown),
        matching=len(found),
        total=len(workspaces),
        projects=_choices((each.spec.project_ref.name for each in workspaces), query.project),
        namespaces=_choices((each.metadata.namespace for each in workspaces), query.namespace),
        phases=_choices((str(each.status.phase or Phase.PENDING) for each in workspaces), query.phase),
        newer=query.path(before=_cursor(shown[0], query)) if earlier else "",
        older=query.path(after=_cursor(shown[-1], query)) if later else "",
    )


_WORDS = (
    (Attention.NEEDS_YOU, "wait", "{} waits for you", "{} wait for you"),
    (Attention.BROKEN, "bad", "{} failed", "{} failed"),
    (Attention.RUNNING, "run", "{} runs", "{} run"),
    (Attention.WAITING, "idle", "{} waits its turn", "{} wait their turn"),
    (Attention.SETTLED, "ok", "{} applied", "{} applied"),
)


def sentence(workspaces: Iterable[Workspace], query: Query | None = None) -> tuple[Count, ...]:
    """Return how many Workspaces there are of each kind that there is one of, the most urgent first."""
    counts = Counter(map(attention_of, workspaces))
    asked = query or Query()
    return tuple(
        Count(
            text=(one if counts[state] == 1 else many).format(counts[state]),
            tone=tone,
            path=asked.path(state=str(state), phase=""),
        )
        for state, tone, one, many in _WORDS
        if counts[state]
    )


def _page(found: Sequence[Workspace], query: Query) -> tuple[Sequence[Workspace], bool, bool]:
    """Return what is shown, and whether there is something before and behind it."""
    key = _key(query)
    if query.before:
        limit = _decoded(query.before)
        earlier = [each for each in found if key(each) < limit]
        start = max(0, len(earlier) - PAGE)
        return earlier[start:], start > 0, len(earlier) < len(found)
    limit = _decoded(query.after) if query.after else (-1, "", "")
    start = next((index for index, each in enumerate(found) if key(each) > limit), len(found))
    shown = found[start : start + PAGE]
    return shown, bool(shown) and start > 0, start + PAGE < len(found)


Position = tuple[int, str, str]


def _key(query: Query) -> Callable[[Workspace], Position]:
    if query.sort is Sort.NAME:
        return lambda each: (0, each.metadata.namespace, each.metadata.name)
    return lambda each: (_URGENCY[attention_of(each)], each.metadata.namespace, each.metadata.name)


def _cursor(workspace: Workspace, query: Query) -> str:
    urgency, namespace, name = _key(query)(workspace)
    return f"{urgency}/{namespace}/{name}"


def _decoded(cursor: str) -> Position:
    urgency, _, rest = cursor.partition("/")
    namespace, _, name = rest.partition("/")
    return (int(urgency) if urgency.isdecimal() and urgency.isascii() else -1, namespace, name)


def _choices(values: Iterable[str], chosen: str) -> tuple[Choice, ...]:
    known = sorted({*values, chosen} - {""})
    return tuple(Choice(value=value, chosen=value == chosen) for value in known)


def _labelled(labels: Mapping[str, str], wanted: str) -> bool:
    key, equals, value = wanted.partition("=")
    return key in labels and (not equals or labels[key] == value)


def _known(words: type[StrEnum], text: str) -> str:
    return text if text in {str(word) for word in words} else ""
