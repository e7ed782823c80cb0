"""Works beside the controllers while leading: stores what passes hand in, and wakes who waits for it (spec §8.2).

Passes hand in and ask in one call, which never waits. Nothing is written to the cluster here.
"""

from collections.abc import Collection, Hashable
from typing import Protocol

import anyio
import anyio.abc
import structlog

from magos.adapters.archivist.delivery import Delivery
from magos.adapters.archivist.ledger import PATIENCE, Entry, Ledger, RunTask
from magos.api.workspace import RunRecord
from magos.history.model import WorkspaceKey
from magos.reconcilers.archive.jobs import Due, JobTask
from magos.reconcilers.archive.keeping import Archived, Loss, Standing
from magos.reconcilers.archive.parcels import PREFIX as PARCEL
from magos.runtime.clock import Clock
from magos.runtime.controller.source import WakeUp
from magos.runtime.controller.workqueue import Key

AT_ONCE = 8
"""Tries that may be under way."""

_log = structlog.get_logger(__name__)


class ArchiveObserver(Protocol):
    """Gets what is given up."""

    def given_up(self, loss: Loss) -> None:
        """Something will never be stored."""
        ...


class _Unobserved:
    def given_up(self, loss: Loss) -> None:
        """Do nothing."""


class Archivist:
    """See the module; everything but ``run`` is synchronous and belongs on the loop."""

    def __init__(self, delivery: Delivery, clock: Clock) -> None:
        self.ledger = Ledger()
        self.workspaces = WakeUp()
        self.jobs = WakeUp()
        self.parcels = WakeUp()
        self.observer: ArchiveObserver = _Unobserved()
        self._delivery = delivery
        self._clock = clock
        self._changed = anyio.Event()

    def runs(self, workspace: WorkspaceKey, records: Collection[RunRecord], *, parcel: Key | None = None) -> Standing:
        """Hand in the records that a status, or a parcel, holds, and return which of them are stored."""
        caller = (self.parcels, parcel) if parcel else (self.workspaces, Key(workspace.namespace, workspace.name))
        place = "parcel" if parcel else "run"
        ended = [record for record in records if record.result is not None]
        names = {(place, workspace.uid, record.run_id) for record in ended}
        for key in self.ledger.keys_of(workspace.uid):
            if isinstance(key, tuple) and key[0] == place and key not in names:
                self.ledger.drop(key)
        stored: list[RunRecord] = []
        for record in ended:
            task = RunTask(workspace=workspace, record=record)
            entry = self._put((place, workspace.uid, record.run_id), task, workspace.uid, caller)
            if entry.done == task:
                stored.append(record)
        backlog = self.ledger.backlog(workspace.uid, self._clock.monotonic())
        return Standing(stored=frozenset(stored), backlog=backlog)

    def job(self, task: JobTask) -> Archived | None:
        """Hand in a Job, and return how it is archived, None while it is not."""
        meta = task.job.metadata
        if task.due is Due.STOPPING:
            return None
        if task.due is Due.NOTHING:
            self.gone(Key(meta.namespace, meta.name))
            return None
        caller = (self.jobs, Key(meta.namespace, meta.name))
        entry = self._put(("job", meta.namespace, meta.name), task, task.uid, caller)
        return entry.archived if entry.done == task else None

    def gone(self, job: Key) -> None:
        """Forget a Job that is gone, or does not wait any more."""
        self.ledger.drop(("job", job.namespace, job.name))

    def emptied(self, parcel: Key) -> None:
        """Forget the records of a parcel that is gone."""
        for key in self.ledger.keys_of(parcel.name.removeprefix(PARCEL)):
            if isinstance(key, tuple) and key[0] == "parcel":
                self.ledger.drop(key)

    async def run(self) -> None:
        """Store for ever."""
        slots = anyio.CapacityLimiter(AT_ONCE)
        async with anyio.create_task_group() as group:
            while True:
                self._changed = anyio.Event()
                self._start_due(group, slots)
                due = None if not slots.available_tokens else self.ledger.next_due()
                pause = None if due is None else max(due - self._clock.monotonic(), 0.0)
                with anyio.move_on_after(pause):
                    await self._changed.wait()

    def _put(self, key: Hashable, task: RunTask | JobTask, owner: str, caller: tuple[WakeUp, Key]) -> Entry:
        now = self._clock.monotonic()
        fresh = Entry(task=task, owner=owner, since=self._clock.now(), added=now, caller=caller)
        known = self.ledger.find(key)
        if known is not None and known.owner != owner:
            self.ledger.drop(key)
        entry = self.ledger.put(key, fresh)
        if entry.done != task:
            self._changed.set()
        return entry

    def _start_due(self, group: anyio.abc.TaskGroup, slots: anyio.CapacityLimiter) -> None:
        while slots.available_tokens:
            taken = self.ledger.take(self._clock.monotonic())
            if taken is None:
                return
            slots.acquire_on_behalf_of_nowait(taken[1])
            group.start_soon(self._try, *taken, slots)

    async def _try(self, key: Hashable, entry: Entry, slots: anyio.CapacityLimiter) -> None:
        task = entry.task
        try:
            archived = await self._delivery.store(entry, task)
        except Exception as error:  # noqa: BLE001 - whatever a store does, the others go on, and it is tried again
            message = str(error) or type(error).__name__
            _log.warning("not stored, tried again", item=str(key), error=message, attempt=entry.failures + 1)
            self.ledger.failed(key, entry, message, self._clock.monotonic(), self._delivery.next_look(task))
            self._tell_backlog(entry)
        else:
            self.ledger.finished(key, entry, task, archived, self._clock.monotonic())
            if archived is not None and archived.loss is not None:
                self.observer.given_up(archived.loss)
            wake_up, caller = entry.caller
            wake_up.wake(caller)
            self._tell_backlog(entry)
        finally:
            slots.release_on_behalf_of(entry)
            self._changed.set()

    def _tell_backlog(self, entry: Entry) -> None:
        """Wake the Workspace where what its status shows is not true any more."""
        before, now = self.ledger.told(entry.owner), self._clock.monotonic()
        if before is None and now - entry.added < PATIENCE:
            return
        if self.ledger.backlog(entry.owner, now) != before:
            self.workspaces.wake(_workspace_of(entry))


def _workspace_of(entry: Entry) -> Key:
    task = entry.task
    if isinstance(task, RunTask):
        return Key(task.workspace.namespace, task.workspace.name)
    return Key(task.job.metadata.namespace, task.workspace)
