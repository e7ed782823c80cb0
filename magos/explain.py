"""What a Workspace waits for, who holds it, since when, and what to do: one text for the command line and the UI."""

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from magos.api.project import Project
from magos.api.rollout import Rollout
from magos.api.workspace import Workspace


class Attention(StrEnum):
    """What a state asks of people; the home page sorts by it."""

    NEEDS_YOU = "needs-you"
    """A person has to act: an approval waits."""
    BROKEN = "broken"
    """It failed and does not go on by itself with success to be expected."""
    RUNNING = "running"
    WAITING = "waiting"
    """It waits for something other than a person, and goes on by itself."""
    SETTLED = "settled"


class Account(Struct, frozen=True, kw_only=True):
    """How things stand with one Workspace, in words. All texts are plain and of one line."""

    attention: Attention
    sentence: str
    """What it does or waits for: a whole sentence with a named subject."""
    holder: str = ""
    """Who or what holds it: a Rollout, a Project, a person, a Job with its node, a VariableSet. Empty if none."""
    since: datetime | None = None
    next_steps: tuple[str, ...] = ()
    """What a person can do, the best first. Empty if there is nothing to do."""
    command: str = ""
    """The kubectl or magos command of the first step. Empty if there is none."""


def explain(workspace: Workspace, project: Project | None, rollout: Rollout | None, now: datetime) -> Account:
    """Return how things stand with ``workspace``; total, and pure. ``rollout`` is the one of its Project, if any."""
    raise NotImplementedError
