"""The home page: what needs me, what is broken, what runs, what was applied lately."""

from collections.abc import Sequence
from datetime import UTC, datetime

from msgspec import Struct

from magos.api.workspace import Workspace
from magos.explain import Attention
from magos.ui.badges import attention_of
from magos.ui.rows import Row, row
from magos.ui.times import as_time
from magos.ui.workspaces import Count, Explained, Query, sentence

MOST = 8
"""Workspaces in a group of the page."""


class Group(Struct, frozen=True, kw_only=True):
    """A group of Workspaces; ``empty`` says what it means that there are none."""

    title: str
    tone: str
    rows: tuple[Row, ...]
    count: int
    path: str
    empty: str


class HomeView(Struct, frozen=True, kw_only=True):
    """The page."""

    sentence: tuple[Count, ...]
    groups: tuple[Group, ...]
    total: int


_GROUPS = (
    (Attention.NEEDS_YOU, "Needs you", "wait", "No plan waits for an approval."),
    (Attention.BROKEN, "Broken", "bad", "Nothing is broken."),
    (Attention.RUNNING, "Running", "run", "Nothing runs at the moment."),
    (Attention.SETTLED, "Recently applied", "ok", "Nothing has been applied yet."),
)
_LONG_AGO = datetime(1, 1, 1, tzinfo=UTC)


def view(workspaces: Sequence[Workspace], explained: Explained, now: datetime) -> HomeView:
    """Return the page for the Workspaces that the caller may list."""
    groups = []
    for state, title, tone, empty in _GROUPS:
        members = sorted((each for each in workspaces if attention_of(each) is state), key=_changed, reverse=True)
        groups.append(
            Group(
                title=title,
                tone=tone,
                rows=tuple(row(each, explained(each), now) for each in members[:MOST]),
                count=len(members),
                path=Query().path(state=str(state)),
                empty=empty,
            )
        )
    return HomeView(sentence=sentence(workspaces), groups=tuple(groups), total=len(workspaces))


def _changed(workspace: Workspace) -> datetime:
    return as_time(workspace.status.last_reconcile_time) or _LONG_AGO
