"""What happened, in the words of the invariants: one record a fact, in the order in which the facts became true.

Objects are the typed ones of ``magos.api``; so a history can also be written by hand.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from magos.api.names import JobType
from magos.api.result import Result
from magos.api.rollout import Rollout
from magos.api.workspace import Workspace

__all__ = [
    "CONTROLLERS",
    "History",
    "JobCreated",
    "JobDeleted",
    "Owner",
    "PodCreated",
    "PodDeleted",
    "PodEnded",
    "Record",
    "RolloutWritten",
    "ToolEnded",
    "ToolStarted",
    "WorkspaceWritten",
]

CONTROLLERS = frozenset({"workspace", "project", "rollout", "variableset", "refwatcher"})
"""Actors that are Magos; everybody else is a person or Kubernetes."""

Owner: TypeAlias = tuple[str, str]
"""(namespace, name) of a Workspace."""


@dataclass(frozen=True, kw_only=True)
class _Fact:
    at: float
    actor: str = ""


@dataclass(frozen=True, kw_only=True)
class WorkspaceWritten(_Fact):
    """A Workspace was created (no ``old``), changed or removed (no ``new``)."""

    old: Workspace | None
    new: Workspace | None


@dataclass(frozen=True, kw_only=True)
class RolloutWritten(_Fact):
    """A Rollout was created, changed or removed."""

    old: Rollout | None
    new: Rollout | None


@dataclass(frozen=True, kw_only=True)
class JobCreated(_Fact):
    """A Job was created so that it starts, or was let go after it was created suspended at the time ``asked``.

    ``revision`` and ``digest`` are what its pod is told.
    """

    workspace: Owner
    uid: str
    run_id: str
    job_type: JobType
    revision: str = ""
    digest: str = ""
    asked: float | None = None


@dataclass(frozen=True, kw_only=True)
class JobDeleted(_Fact):
    """Somebody asked for the deletion of a Job: Magos of one that had not ended, everybody else of any."""

    workspace: Owner
    run_id: str
    job_type: JobType


@dataclass(frozen=True, kw_only=True)
class PodCreated(_Fact):
    """A runner pod exists and is not terminal."""

    workspace: Owner
    pod: str
    run_id: str
    job_type: JobType


@dataclass(frozen=True, kw_only=True)
class PodDeleted(_Fact):
    """Somebody asked for the deletion of a pod that had not ended."""

    workspace: Owner
    pod: str
    run_id: str
    job_type: JobType


@dataclass(frozen=True, kw_only=True)
class PodEnded(_Fact):
    """The pod is terminal or gone."""

    workspace: Owner
    pod: str


@dataclass(frozen=True, kw_only=True)
class ToolStarted(_Fact):
    """The tool works on this commit; an apply applies the plan with this digest."""

    workspace: Owner
    run_id: str
    job_type: JobType
    revision: str
    digest: str = ""


@dataclass(frozen=True, kw_only=True)
class ToolEnded(_Fact):
    """The tool has ended."""

    workspace: Owner
    run_id: str
    job_type: JobType
    result: Result


Record: TypeAlias = (
    WorkspaceWritten
    | RolloutWritten
    | JobCreated
    | JobDeleted
    | PodCreated
    | PodDeleted
    | PodEnded
    | ToolStarted
    | ToolEnded
)

History: TypeAlias = Sequence[Record]
