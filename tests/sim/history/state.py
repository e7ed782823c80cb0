"""What the checker knows at each record: the live objects, their recent past, and what each run has done."""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from magos.api.annotations import EXECUTION_ALLOWED, EXECUTION_GRANTED_FOR, TRUE, execution_allowed
from magos.api.names import JobType
from magos.api.rollout import Rollout
from magos.api.workspace import Workspace
from tests.sim.history.records import (
    CONTROLLERS,
    JobCreated,
    JobDeleted,
    Owner,
    PodCreated,
    PodEnded,
    Record,
    RolloutWritten,
    ToolEnded,
    ToolStarted,
    WorkspaceWritten,
)

__all__ = ["Run", "Snapshot", "State", "is_grant", "owner_of"]

ROUND_TRIP = 0.05
"""Seconds that may pass between a read right before a write and that write."""

T = TypeVar("T")
Half = tuple[Owner, str, JobType]


@dataclass(frozen=True)
class Snapshot:
    """All Workspaces and Rollouts at one moment; only good until the next one is asked for."""

    workspaces: Mapping[Owner, Workspace]
    rollouts: Mapping[Owner, Rollout]


@dataclass(frozen=True)
class _Change:
    """What a record changed, and what was there before it."""

    at: float
    key: Owner
    workspace: Workspace | None = None
    rollout: Rollout | None = None
    of_rollout: bool = False


@dataclass
class Run:
    """One run of one Workspace, as far as it has come."""

    jobs: list[JobCreated] = field(default_factory=list)
    pods: list[PodCreated] = field(default_factory=list)
    started: list[ToolStarted] = field(default_factory=list)
    ended: list[ToolEnded] = field(default_factory=list)
    gated_at: float | None = None
    approved_at: float | None = None
    pin: str = ""
    deleted_by_people: set[JobType] = field(default_factory=set)
    """Halves whose Job a person deleted: where that was never seen, nobody can tell it from a Job never created."""

    def end_of(self, job_type: JobType) -> ToolEnded | None:
        """Return how that half of the run ended."""
        return next((each for each in self.ended if each.job_type is job_type), None)


class State:
    """Fed with every record *after* the checks of that record; ``slack`` is how long the recent past lasts."""

    def __init__(self, slack: float) -> None:
        self.slack = slack
        self.workspaces: dict[Owner, Workspace] = {}
        self.rollouts: dict[Owner, Rollout] = {}
        self.runs: dict[tuple[Owner, str], Run] = {}
        self.working: dict[Half, float] = {}
        self.granted: dict[Owner, tuple[str, dict[str, str]]] = {}
        """The run that a Rollout granted last, and the VariableSets that it was to take, with their digests."""
        self.pods: dict[Owner, set[str]] = {}
        self._grants: dict[Owner, list[tuple[float, Workspace]]] = {}
        self._permitted: dict[Owner, float] = {}
        self._changes: deque[_Change] = deque()

    def run(self, owner: Owner, run_id: str) -> Run:
        """Return what is known about a run."""
        return self.runs.setdefault((owner, run_id), Run())

    def applying(self, owner: Owner) -> bool:
        """Tell whether an apply of this Workspace is at work."""
        return any(who == owner and half is JobType.APPLY for who, _, half in self.working)

    def recently(self, now: float, within: float | None = None) -> Iterator[Snapshot]:
        """Yield what was true at some moment of the recent past, or of a shorter one, the present first.

        The past is made from the present by taking changes back, as far as somebody asks: most never do.
        """
        while self._changes and self._changes[0].at <= now - self.slack:
            self._changes.popleft()
        yield Snapshot(self.workspaces, self.rollouts)
        until = now - (self.slack if within is None else within)
        workspaces, rollouts = dict(self.workspaces), dict(self.rollouts)
        for change in reversed(self._changes):
            if change.at <= until:
                return
            if change.of_rollout:
                _put(rollouts, change.key, change.rollout)
            else:
                _put(workspaces, change.key, change.workspace)
            yield Snapshot(workspaces, rollouts)

    def permitted_since(self, owner: Owner, since: float) -> bool:
        """Tell whether the Workspace had permission at some moment from a round trip before ``since`` on."""
        now = self.workspaces.get(owner)
        if now is not None and execution_allowed(now.metadata.annotations):
            return True
        return self._permitted.get(owner, float("-inf")) >= since - ROUND_TRIP

    def lately(self, now: float, owner: Owner, *, since: float) -> list[Workspace | None]:
        """Return the Workspace as it was from one round trip to the API server before ``since``, the present first."""
        return [each.workspaces.get(owner) for each in self.recently(now, now - since + ROUND_TRIP)]

    def grants_lately(self, now: float, owner: Owner, *, since: float) -> list[Workspace]:
        """Return the Workspace as each grant left it that was in force from one round trip before ``since`` on."""
        grants = self._grants.get(owner, [])
        ends = (*(at for at, _ in grants[1:]), now)
        return [granted for (_, granted), end in zip(grants, ends, strict=False) if end > since - ROUND_TRIP]

    def take(self, record: Record) -> None:
        """Let the record be true."""
        match record:
            case WorkspaceWritten():
                self._workspace(record)
            case RolloutWritten():
                item = record.new or record.old
                if item is not None:
                    key = (item.metadata.namespace, item.metadata.name)
                    before = self.rollouts.get(key)
                    self._changes.append(_Change(record.at, key, rollout=before, of_rollout=True))
                    _put(self.rollouts, key, record.new)
            case JobCreated():
                self.run(record.workspace, record.run_id).jobs.append(record)
            case PodCreated():
                self.run(record.workspace, record.run_id).pods.append(record)
                self.pods.setdefault(record.workspace, set()).add(record.pod)
            case JobDeleted():
                if record.actor not in CONTROLLERS:
                    self.run(record.workspace, record.run_id).deleted_by_people.add(record.job_type)
            case PodEnded():
                self.pods.setdefault(record.workspace, set()).discard(record.pod)
            case ToolStarted():
                self.run(record.workspace, record.run_id).started.append(record)
                self.working[record.workspace, record.run_id, record.job_type] = record.at
            case ToolEnded():
                self.run(record.workspace, record.run_id).ended.append(record)
                self.working.pop((record.workspace, record.run_id, record.job_type), None)

    def _workspace(self, record: WorkspaceWritten) -> None:
        key = owner_of(record)
        before = self.workspaces.get(key)
        if before is not None and execution_allowed(before.metadata.annotations):
            self._permitted[key] = record.at
        self._changes.append(_Change(record.at, key, workspace=before))
        _put(self.workspaces, key, record.new)
        if record.new is not None:
            self._follow(record, record.new)
        if record.new is not None and is_grant(record):
            self._grants.setdefault(key, []).append((record.at, record.new))

    def _follow(self, record: WorkspaceWritten, new: Workspace) -> None:
        status = new.status
        if is_grant(record):
            self.granted.pop(owner_of(record), None)
            if record.actor == "rollout" and status.current_run is not None:
                sets = {each.name: each.digest for each in status.current_run.variable_sets}
                self.granted[owner_of(record)] = (status.current_run_id, sets)
        run = self.run(owner_of(record), status.current_run_id)
        waiting = status.awaiting_approval
        if waiting is not None and waiting.run_id == status.current_run_id and run.gated_at is None:
            run.gated_at = record.at


def _put(objects: dict[Owner, T], key: Owner, value: T | None) -> None:
    if value is None:
        objects.pop(key, None)
    else:
        objects[key] = value


def is_grant(record: WorkspaceWritten) -> bool:
    """Tell whether the write gives permission, or gives it for something else than before."""
    old, new = (each.metadata.annotations if each is not None else {} for each in (record.old, record.new))
    keys = (EXECUTION_ALLOWED, EXECUTION_GRANTED_FOR)
    return new.get(EXECUTION_ALLOWED) == TRUE and any(new.get(key) != old.get(key) for key in keys)


def owner_of(record: WorkspaceWritten) -> Owner:
    """Return which Workspace the record is about."""
    item = record.new or record.old
    if item is None:
        raise ValueError("a record about no Workspace")
    return item.metadata.namespace, item.metadata.name
