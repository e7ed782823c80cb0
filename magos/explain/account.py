"""What an explanation consists of, and how it words names and times."""

import re
import shlex
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from msgspec import Struct

from magos.api.timestamps import format_time, parse_time
from magos.api.workspace import Workspace
from magos.durations import format_duration

CONTROLLER: Final = "the workspace controller"
CHECK_CONTROLLER: Final = "check whether the workspace controller runs"
CHECK_COMMAND: Final = "kubectl get deployments --all-namespaces --selector=control-plane=magos"
_LINK: Final = re.compile(r"\[([^\]]*)\]\([^)]*\)")


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


def subject(workspace: Workspace) -> str:
    """Return ``Workspace team-a/network``."""
    return f"Workspace {path_of(workspace)}"


def path_of(workspace: Workspace) -> str:
    """Return ``team-a/network``, as commands take it."""
    meta = workspace.metadata
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


def command(*words: str) -> str:
    """Return a command line that a shell takes word by word, whatever the words hold."""
    return shlex.join(words)


def time_of(text: str | None) -> datetime | None:
    """Return the time that stands in an object, None if there is none or it cannot be read."""
    try:
        return parse_time(text) if text else None
    except ValueError:
        return None


def at(when: datetime, now: datetime) -> str:
    """Return a time to come as ``at 2026-01-02T03:04:05Z (in 45s)``; one that has passed has no such addition."""
    distance = timedelta(seconds=round((when - now).total_seconds()))
    return f"at {format_time(when)}{f' (in {format_duration(distance)})' if distance > timedelta(0) else ''}"


def short(revision: str) -> str:
    """Return a commit as people read it."""
    return revision[:7]


def clause(message: str) -> str:
    """Return a message of status as part of a sentence: on one line and without the full stop at its end."""
    return " ".join(message.split()).removesuffix(".")


def plain(markdown: str) -> str:
    """Return a text of the reference pages without the marks that only a page shows."""
    return _LINK.sub(r"\1", markdown).replace("`", "")
