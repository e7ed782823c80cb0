"""What is to be stored, what is stored, and when the next try of what failed is due. Kept in memory alone.

After a restart everything is handed in again by the passes over what still waits in the cluster, and stored again: each
write is idempotent, so nothing is lost and nothing doubled.
"""

import heapq
import itertools
from collections.abc import Hashable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from msgspec import Struct

from magos.api.workspace import RunRecord
from magos.history.model import WorkspaceKey
from magos.reconcilers.archive.jobs import Due, JobTask
from magos.reconcilers.archive.keeping import Archived, Backlog
from magos.runtime.controller.source import WakeUp
from magos.runtime.controller.workqueue import Key

FIRST_RETRY = 1.0
LONGEST_RETRY = 300.0
PATIENCE = 60.0
"""Seconds after which something that waits is a backlog that status shows."""


class RunTask(Struct, frozen=True, kw_only=True):
    """A record of an ended run."""

    workspace: WorkspaceKey
    record: RunRecord


Task: TypeAlias = RunTask | JobTask


@dataclass(eq=False)
class Entry:
    """One thing to store. ``done`` is the task that has been stored as it stands; ``failures`` counts in a row."""

    task: Task
    owner: str
    """UID of the Workspace."""
    since: datetime
    added: float
    caller: tuple[WakeUp, Key]
    done: Task | None = None
    archived: Archived | None = None
    failures: int = 0
    error: str = ""
    running: bool = False
    due: float = 0.0
    memory: dict[str, object] = field(default_factory=dict)
    """What of the task has been done already, so that a try does not repeat it."""

    @property
    def waits(self) -> bool:
        """True while something is to be stored that may not get lost."""
        return self.done != self.task and not (isinstance(self.task, JobTask) and self.task.due is Due.BEGINNING)


class Ledger:
    """See the module; used on the loop alone."""

    def __init__(self) -> None:
        self._entries: dict[Hashable, Entry] = {}
        self._owned: dict[str, dict[Hashable, Entry]] = {}
        self._heap: list[tuple[float, int, Hashable]] = []
        self._serial = itertools.count()
        self._told: dict[str, Backlog] = {}

    def put(self, key: Hashable, entry: Entry) -> Entry:
        """Hand something in; what is known already is kept, and what has changed is due at once."""
        known = self._entries.get(key)
        if known is None:
            self._entries[key] = known = entry
            self._owned.setdefault(entry.owner, {})[key] = entry
            self._schedule(key, known, entry.added)
        elif known.task != entry.task:
            if not _same_work(entry.task, known.task):
                known.failures, known.added, known.since = 0, entry.added, entry.since
                self._schedule(key, known, entry.added)
            elif known.done == known.task:
                known.done = entry.task
            known.task = entry.task
        return known

    def drop(self, key: Hashable) -> None:
        """Forget something that is not in the cluster any more."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            left = self._owned[entry.owner]
            del left[key]
            if not left:
                del self._owned[entry.owner]

    def find(self, key: Hashable) -> Entry | None:
        """Return what was handed in under the key."""
        return self._entries.get(key)

    def keys_of(self, owner: str) -> tuple[Hashable, ...]:
        """Return the keys of everything of a Workspace."""
        return tuple(self._owned.get(owner, ()))

    def take(self, now: float) -> tuple[Hashable, Entry] | None:
        """Return something that is due and mark it as running, None if nothing is."""
        while self._heap and self._heap[0][0] <= now:
            due, _, key = heapq.heappop(self._heap)
            entry = self._entries.get(key)
            if entry is None or entry.running or entry.done == entry.task or entry.due != due:
                continue
            entry.running = True
            return key, entry
        return None

    def next_due(self) -> float | None:
        """Return when to look again."""
        return self._heap[0][0] if self._heap else None

    def finished(self, key: Hashable, entry: Entry, task: Task, archived: Archived | None, now: float) -> None:
        """Note that ``task`` is stored; if another was handed in meanwhile, that is due now."""
        entry.running, entry.done, entry.failures, entry.error = False, task, 0, ""
        entry.archived = archived
        if entry.task != task:
            if _same_work(task, entry.task):
                entry.done = entry.task
            else:
                self._schedule(key, entry, now)

    def failed(self, key: Hashable, entry: Entry, error: str, now: float, at_most: float) -> None:
        """Note a failure; the next try comes after a pause that doubles, and no later than ``at_most`` seconds."""
        entry.running, entry.error = False, error
        pause = min(FIRST_RETRY * 2.0**entry.failures, LONGEST_RETRY, max(at_most, FIRST_RETRY))
        entry.failures = min(entry.failures + 1, 10)
        self._schedule(key, entry, now + pause)

    def backlog(self, owner: str, now: float) -> Backlog | None:
        """Return what of a Workspace waits for longer than ``PATIENCE``; it changes only with the count."""
        found = self._owned.get(owner, {}).values()
        late = [each for each in found if each.waits and each.error and now - each.added >= PATIENCE]
        told = self._told.get(owner)
        if not late:
            self._told.pop(owner, None)
            return None
        if told is None or told.count != len(late):
            since = told.since if told is not None else min(each.since for each in late)
            told = self._told[owner] = Backlog(count=len(late), since=since, error=late[0].error)
        return told

    def told(self, owner: str) -> Backlog | None:
        """Return the backlog that was returned last."""
        return self._told.get(owner)

    def waiting(self) -> int:
        """Return how much waits to be stored."""
        return sum(entry.waits for entry in self._entries.values())

    def _schedule(self, key: Hashable, entry: Entry, at: float) -> None:
        entry.due = at
        if not entry.running:
            heapq.heappush(self._heap, (at, next(self._serial), key))


def _same_work(one: Task, other: Task) -> bool:
    """A Job that changed in what is not stored, such as its version, is the same work."""
    if not (isinstance(one, JobTask) and isinstance(other, JobTask)):
        return one == other
    return _work(one) == _work(other)


def _work(task: JobTask) -> tuple[object, ...]:
    meta = task.job.metadata
    return task.due, meta.annotations, task.job.status if task.due is not Due.BEGINNING else None
