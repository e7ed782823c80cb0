"""PostgreSQL and the bucket as a simulation has them: in memory, and as unreliable as a scene wants them.

What is merged here is merged as the seam says: what is not known never overwrites what is.
"""

import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from copy import copy
from datetime import datetime
from typing import Any

import anyio
import msgspec

from magos.adapters.archivist.stores import Stores
from magos.api.kube import Pod
from magos.api.names import JobType
from magos.api.workspace import RunRecord
from magos.history.archive import ArchiveUnavailable, LogNotFound, StoredLog
from magos.history.model import PhaseRecord, WorkspaceKey
from magos.history.runs import Prunable
from magos.history.store import HistoryUnavailable
from magos.runtime.client.errors import ApiError, Status
from tests.sim.apiserver import SimApiServer
from tests.sim.fleet.crash import CrashPlan, Died, Moment
from tests.sim.history.records import History, JobCreated

__all__ = ["Bucket", "Database", "Evidence", "StoreTrap", "Weather"]


class StoreTrap:
    """Counts the calls of one process in the shared crash plan, and strikes where it says."""

    def __init__(self, plan: CrashPlan, die: Callable[[], None]) -> None:
        self._plan = plan
        self._die = die

    def before(self, what: str) -> bool:
        """Tell whether the process is struck behind the call."""
        if not self._plan.strikes():
            return False
        self._plan.struck = f"call that may raise {what}"
        if self._plan.moment is Moment.BEFORE:
            self._die()
            raise Died
        return True

    def after(self) -> None:
        """The call has taken effect; die, unless only the answer is lost."""
        if self._plan.moment is Moment.AFTER or self._plan.dies_of_lost_answers:
            self._die()
            raise Died


class Weather:
    """How a store behaves: ``down`` refuses all, ``share`` of the calls fail, half of those after their effect."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.down = False
        self.share = 0.0
        self.slow = 0.0
        self.calls = 0
        self.faults = 0

    @asynccontextmanager
    async def around(self, error: type[Exception], trap: StoreTrap | None) -> AsyncIterator[None]:
        """Do something in this weather."""
        self.calls += 1
        await anyio.sleep(self.rng.uniform(0.001, 0.02) + self.slow)
        if self.down:
            self.faults += 1
            raise error("connection refused")
        strikes = self.rng.random() < self.share
        self.faults += strikes
        if strikes and self.rng.random() < 0.5:
            raise error("connection lost")
        struck = trap is not None and trap.before(error.__name__)
        yield
        if trap is not None and struck:
            trap.after()
        if strikes or struck:
            raise error("connection lost after the commit")


class Database:
    """Rows by key; a write of the same row merges."""

    def __init__(self, rng: random.Random) -> None:
        self.weather = Weather(rng)
        self.trap: StoreTrap | None = None
        self.runs: dict[tuple[str, str], RunRecord] = {}
        self.phases: dict[tuple[str, str, JobType], PhaseRecord] = {}
        self.contradictions: list[str] = []

    async def record_run(self, workspace: WorkspaceKey, record: RunRecord) -> None:
        """Store the row of a run."""
        async with self.weather.around(HistoryUnavailable, self.trap):
            key = workspace.uid, record.run_id
            self._compare(self.runs.get(key), record)
            self.runs[key] = _merged(self.runs.get(key), record)

    async def record_phase(self, workspace: WorkspaceKey, record: PhaseRecord) -> None:
        """Store the row of a phase."""
        async with self.weather.around(HistoryUnavailable, self.trap):
            key = workspace.uid, record.run_id, record.phase
            self._compare(self.phases.get(key), record)
            self.phases[key] = _merged(self.phases.get(key), record)

    def _compare(self, old: RunRecord | PhaseRecord | None, new: RunRecord | PhaseRecord) -> None:
        if old is not None and old.result is not None and new.result not in (None, old.result):
            self.contradictions.append(f"run {new.run_id}: {old.result} became {new.result}")

    async def mark_deleted(self, existing: Collection[str], now: datetime) -> None:
        """Do nothing: the simulation does not prune."""

    async def prunable(self, keep: int, deleted_before: datetime, limit: int) -> tuple[Prunable, ...]:  # noqa: ARG002
        """Return nothing."""
        return ()

    async def prune(self, runs: Collection[Prunable]) -> None:
        """Do nothing."""


class Bucket:
    """Logs by key."""

    def __init__(self, rng: random.Random) -> None:
        self.weather = Weather(rng)
        self.trap: StoreTrap | None = None
        self.logs: dict[str, bytes] = {}

    async def store(self, key: str, chunks: AsyncIterator[bytes]) -> StoredLog:
        """Store a log."""
        text = b"".join([chunk async for chunk in chunks])
        async with self.weather.around(ArchiveUnavailable, self.trap):
            self.logs[key] = text
        return StoredLog(size=len(text), truncated=False)

    def open(self, key: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Nobody reads here."""
        raise LogNotFound(key)

    async def delete(self, keys: Collection[str]) -> None:
        """Delete logs."""
        for key in keys:
            self.logs.pop(key, None)


class Evidence:
    """Both, and the logs of the pods that are there."""

    def __init__(self, server: SimApiServer, rng: random.Random) -> None:
        self.database = Database(random.Random(rng.random()))
        self.bucket = Bucket(random.Random(rng.random()))
        self._server = server

    def stores(self, plan: CrashPlan, die: Callable[[], None]) -> Stores:
        """Return what one process sees of them; each call is a crash point of it."""
        database, bucket = copy(self.database), copy(self.bucket)
        database.trap = bucket.trap = StoreTrap(plan, die)
        return Stores(database, bucket, self._read)

    def lacking(self, history: History, unfinished: Collection[str]) -> list[str]:
        """Return what is not there of the runs that were started; the runs ``unfinished`` need not have ended."""
        started = [record for record in history if isinstance(record, JobCreated)]
        runs = {run_id: row for (_, run_id), row in self.database.runs.items() if row.result is not None}
        phases = {(run_id, half): row for (_, run_id, half), row in self.database.phases.items() if row.result}
        found = [*self.database.contradictions]
        for job in started:
            if job.run_id in unfinished:
                continue
            if job.run_id not in runs:
                found.append(f"run {job.run_id} has no end")
            row = phases.get((job.run_id, job.job_type))
            if row is None:
                found.append(f"the {job.job_type} of run {job.run_id} has no end")
            elif not row.log_error and row.log_key not in self.bucket.logs:
                found.append(f"the {job.job_type} of run {job.run_id} has no log")
        return found

    def down(self, *, is_down: bool) -> None:
        """Take both away, or bring them back."""
        self.database.weather.down = self.bucket.weather.down = is_down

    async def _read(self, pod: Pod, job_type: JobType) -> AsyncGenerator[bytes, None]:
        await anyio.sleep(0.01)
        meta = pod.metadata
        found = self._server.store.get(self._server.resource("pods"), (meta.namespace, meta.name))
        if found is None or found["metadata"]["uid"] != meta.uid:
            raise ApiError(f'pods "{meta.name}" not found', answer=Status(code=404, reason="NotFound"))
        yield f"=== {job_type} of {meta.name} ===\n".encode()


def _merged(old: Any, new: Any) -> Any:
    if old is None:
        return new
    known = {f: v for f in new.__struct_fields__ if (v := getattr(new, f)) not in (None, "", ())}
    return msgspec.structs.replace(old, **known)
