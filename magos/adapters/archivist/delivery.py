"""One try to store one thing: rows into the database, the log of an ended Job into the bucket (spec §8.2, §8.3).

What is stored stays stored: a later try of the same process does not upload a log again. A log that can never be read
is given up, and the row says why. Everything else is raised, so that the try is repeated.
"""

from contextlib import aclosing
from datetime import datetime, timedelta

import anyio

from magos.adapters.archivist.ledger import Entry, RunTask, Task
from magos.adapters.archivist.phases import LogEnd, ended_at, phase_row, run_row, time_of, workspace_key
from magos.adapters.archivist.stores import FindPods, Stores
from magos.api.kube import NAMESPACES, PODS, Pod
from magos.api.labels import JOB_TYPE, RUN_ID, WORKSPACE, workspace_label
from magos.api.meta import controller_of
from magos.history.archive import log_key
from magos.reconcilers.archive.jobs import Due, JobTask
from magos.reconcilers.archive.keeping import Archived, Keeping, Loss
from magos.reconcilers.workspace.evidence.progress import pod_started
from magos.runtime.client.client import ApiClient
from magos.runtime.client.errors import ApiError
from magos.runtime.clock import Clock

ROW_SECONDS = 30.0
LAST_SECONDS = 5.0
"""The last try to store a row."""

LOG_SECONDS = 600.0
DELETION_SECONDS = 60.0
"""How long the deletion of a namespace may wait for the archive."""

_GONE = "the pod is gone"
_CUT = "the log is larger than 50 MiB: the rest was cut off"


class Delivery:
    """See the module."""

    def __init__(self, stores: Stores, keeping: Keeping, client: ApiClient, clock: Clock, find_pods: FindPods) -> None:
        self._stores = stores
        self._keeping = keeping
        self._client = client
        self._clock = clock
        self._find_pods = find_pods

    async def store(self, entry: Entry, task: Task) -> Archived | None:
        """Store it; of a Job that has ended, return what became of it."""
        if isinstance(task, RunTask):
            if self._stores.history is not None:
                with anyio.fail_after(ROW_SECONDS):
                    await self._stores.history.record_run(task.workspace, task.record)
            return None
        if task.due is Due.BEGINNING:
            with anyio.fail_after(ROW_SECONDS):
                await self._rows(entry, task, (), LogEnd())
            return None
        loss, why = await self._loss(task)
        if loss is not None and entry.error:
            why = f"{why}: {entry.error}"
        pods = await self._pods(task)
        log, log_loss = await self._log(entry, task, pods, loss, why)
        try:
            with anyio.fail_after(LAST_SECONDS if loss is not None else ROW_SECONDS):
                await self._rows(entry, task, pods, log)
        except Exception:
            if loss is None:
                raise
            return _archived(task, loss, f"neither its record nor its log: {why}")
        return _archived(task, log_loss, log.error)

    def next_look(self, task: Task) -> float:
        """Return in how many seconds something is to be tried again at the latest."""
        if isinstance(task, RunTask):
            return float("inf")
        age = self._age(task.job.metadata.deletion_timestamp)
        return float("inf") if age is None or age > DELETION_SECONDS else DELETION_SECONDS - age

    async def _rows(self, entry: Entry, task: JobTask, pods: tuple[Pod, ...], log: LogEnd) -> None:
        history = self._stores.history
        if history is None:
            return
        owner, run = workspace_key(task), run_row(task)
        if run is not None and entry.memory.get("run") != run:
            await history.record_run(owner, run)
            entry.memory["run"] = run
        await history.record_phase(owner, phase_row(task, pods, log))

    async def _log(
        self, entry: Entry, task: JobTask, pods: tuple[Pod, ...], loss: Loss | None, why: str
    ) -> tuple[LogEnd, Loss | None]:
        archive = self._stores.archive
        if archive is None:
            return LogEnd(), None
        known = entry.memory.get("log")
        if isinstance(known, LogEnd):
            return known, None
        lost = _unreadable(pods) or ((loss, why) if loss is not None else None)
        if lost is not None:
            return LogEnd(error=lost[1]), lost[0]
        key = log_key(task.job.metadata.namespace, task.workspace, task.run_id, task.job_type)
        try:
            with anyio.fail_after(min(LOG_SECONDS, self.next_look(task))):
                async with aclosing(self._stores.read_log(pods[0], task.job_type)) as chunks:
                    stored = await archive.store(key, chunks)
        except ApiError as error:
            if error.not_found and not await self._pods(task, live=True):
                return LogEnd(error=_GONE), Loss.POD_GONE
            raise
        end = LogEnd(key=key, size=stored.size, error=_CUT if stored.truncated else "")
        entry.memory["log"] = end
        return end, None

    async def _pods(self, task: JobTask, *, live: bool = False) -> tuple[Pod, ...]:
        """Return the pods of the Job, those that have started first; that there is none is asked of the API server."""
        meta = task.job.metadata
        cached = () if live else tuple(self._find_pods(meta.namespace, meta.name, meta.uid))
        if not cached:
            wanted = {WORKSPACE: workspace_label(task.workspace), RUN_ID: task.run_id, JOB_TYPE: str(task.job_type)}
            selector = ",".join(f"{key}={value}" for key, value in wanted.items())
            page = await self._client.list_all(PODS, meta.namespace, selector=selector)
            owners = ((pod, controller_of(pod.metadata)) for pod in page.items)
            cached = tuple(pod for pod, owner in owners if owner is not None and owner.uid == meta.uid)
        return tuple(sorted(cached, key=lambda pod: (not pod_started(pod), pod.metadata.name)))

    async def _loss(self, task: JobTask) -> tuple[Loss | None, str]:
        """Return why nothing is waited for any more, None while it is."""
        age = self._age(task.job.metadata.deletion_timestamp)
        if age is not None and age >= DELETION_SECONDS:
            try:
                found = await self._client.get(NAMESPACES, "", task.job.metadata.namespace)
                terminating = found.metadata.deletion_timestamp is not None
            except ApiError as error:
                terminating = error.not_found
            if terminating:
                return Loss.NAMESPACE_DELETED, "the namespace is being deleted"
        ended = ended_at(task.job)
        if ended is not None and self._clock.now() - ended >= self._keeping.give_up_after:
            hours = self._keeping.give_up_after / timedelta(hours=1)
            return Loss.TIMED_OUT, f"it could not be stored within {hours:g} h"
        return None, ""

    def _age(self, deleted: str | None) -> float | None:
        at: datetime | None = time_of(deleted) if deleted else None
        return None if at is None else (self._clock.now() - at).total_seconds()


def _unreadable(pods: tuple[Pod, ...]) -> tuple[Loss, str] | None:
    """Return why there is no log, and never will be."""
    if not pods:
        return Loss.POD_GONE, _GONE
    return None if any(map(pod_started, pods)) else (Loss.NEVER_STARTED, "no container has ever started")


def _archived(task: JobTask, loss: Loss | None, what: str) -> Archived:
    if loss is None:
        return Archived()
    job = f"Job {task.job.metadata.name}, {task.job_type} of run {task.run_id}"
    return Archived(loss=loss, note=f"The archive of {job} is given up: {what.rstrip('.')}.")
