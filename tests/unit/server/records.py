"""History, archive and logs of pods that a test fills."""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

import anyio

from magos.api.kube import Pod
from magos.api.labels import JOB_TYPE, RUN_ID, WORKSPACE
from magos.api.names import JobType, job_name
from magos.api.runnerpod import Stage
from magos.history.archive import ArchiveUnavailable, LogNotFound, StoredLog
from magos.history.runs import Run, RunPage
from magos.history.store import HistoryUnavailable
from magos.ids import RunID
from magos.joblog import LogLine
from magos.runtime.client.client import ApiClient
from tests.sim.apiserver.resources import Json

__all__ = ["RUN", "FakeArchive", "FakeHistory", "FakeJobs", "pod"]

RUN = RunID("20260101T000000-00000000")


class FakeHistory:
    """Has the rows of one Workspace's runs, by its UID."""

    def __init__(self, *runs: Run) -> None:
        self.rows = list(runs)
        self.down = False
        self.asked: list[tuple[str, int, str]] = []

    async def runs(self, namespace: str, name: str, *, uid: str = "", limit: int = 20, cursor: str = "") -> RunPage:
        """Return a page; a cursor is the number of runs before it."""
        del namespace, name
        self._check()
        self.asked.append((uid, limit, cursor))
        begin = int(cursor or 0)
        rows = sorted(self._of(uid), key=lambda run: run.run_id, reverse=True)
        more = str(begin + limit) if len(rows) > begin + limit else ""
        return RunPage(items=tuple(rows[begin : begin + limit]), next_cursor=more)

    async def run(self, namespace: str, name: str, run_id: str, *, uid: str = "") -> Run | None:
        """Return the run."""
        del namespace, name
        self._check()
        return next((each for each in self._of(uid) if each.run_id == run_id), None)

    def _of(self, uid: str) -> list[Run]:
        return [each for each in self.rows if uid in ("", each.workspace_uid)]

    def _check(self) -> None:
        if self.down:
            raise HistoryUnavailable("connection refused by db.internal:5432")


class FakeArchive:
    """Has logs by their keys."""

    def __init__(self, **logs: bytes) -> None:
        self.logs = dict(logs)
        self.down = False
        self.open_logs = 0

    async def store(self, key: str, chunks: AsyncIterator[bytes]) -> StoredLog:
        """Nothing is stored here."""
        raise NotImplementedError(key)

    @asynccontextmanager
    async def open(self, key: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a log."""
        if self.down:
            raise ArchiveUnavailable("no route to bucket.internal")
        if key not in self.logs:
            raise LogNotFound(key)
        self.open_logs += 1
        try:
            yield _chunks(self.logs[key])
        finally:
            self.open_logs -= 1

    async def delete(self, keys: Collection[str]) -> None:
        """Nothing is deleted here."""
        raise NotImplementedError(keys)


async def _chunks(text: bytes) -> AsyncIterator[bytes]:
    for begin in range(0, len(text), 7):
        yield text[begin : begin + 7]


class FakeJobs:
    """Stands for ``magos.joblog``: lines that a test lets a pod print."""

    def __init__(self) -> None:
        self.lines: list[LogLine] = []
        self.ended = False
        self.failure: Exception | None = None
        self.followers = 0

    def print(self, text: str, stage: Stage = Stage.TERRAFORM) -> None:
        """Print a line."""
        self.lines.append(LogLine(stage=stage, text=text.encode()))

    async def finished_log(self, client: ApiClient, pod: Pod, job_type: JobType) -> AsyncIterator[bytes]:
        """Yield everything."""
        del client
        yield f"{pod.metadata.name} {job_type}\n".encode()
        for line in self.lines:
            yield line.text + b"\n"

    async def followed_lines(self, client: ApiClient, pod: Pod, job_type: JobType) -> AsyncIterator[LogLine]:
        """Yield lines as they are printed."""
        del client, pod, job_type
        self.followers += 1
        try:
            count = 0
            while True:
                while count < len(self.lines):
                    yield self.lines[count]
                    count += 1
                if self.failure is not None:
                    raise self.failure
                if self.ended:
                    return
                await anyio.sleep(0.1)
        finally:
            self.followers -= 1


def pod(phase: JobType, state: str, run_id: RunID = RUN, owner: str = "") -> Json:
    """Return the pod of a Job of Workspace ``default/a``; ``owner`` is another Job that controls it."""
    job = owner or job_name("default", "a", run_id, phase)
    controller = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": "1", "controller": True}
    return {
        "metadata": {
            "name": f"a-{phase}-{state.lower()}",
            "namespace": "default",
            "labels": {WORKSPACE: "a", RUN_ID: run_id, JOB_TYPE: str(phase)},
            "ownerReferences": [controller],
        },
        "spec": {"containers": [{"name": "job", "image": "x"}]},
        "status": {"phase": state},
    }
