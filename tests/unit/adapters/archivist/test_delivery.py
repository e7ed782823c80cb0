"""One try: what is stored of an ended Job, and when what cannot be stored is given up."""

import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from magos.adapters.archivist.delivery import Delivery
from magos.adapters.archivist.ledger import Entry
from magos.adapters.archivist.stores import Stores
from magos.api.annotations import RECORD, RESULT
from magos.api.kube import NAMESPACES, ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodStatus
from magos.api.names import JobType
from magos.history.model import PhaseResult
from magos.history.store import HistoryUnavailable
from magos.reconcilers.archive.jobs import Due, JobTask
from magos.reconcilers.archive.keeping import Keeping, Loss
from magos.reconcilers.workspace.pod.record import JobRecord, encode_record
from magos.runtime.client.client import ApiClient
from magos.runtime.controller.source import WakeUp
from magos.runtime.controller.workqueue import Key
from tests.sim.apiserver import SimApiServer
from tests.sim.fleet.evidence import Bucket, Database
from tests.sim.virtualtime import VirtualClock, run_virtual
from tests.unit.reconcilers.archive.test_jobs import RUN, job, pod

RECORDED = encode_record(
    JobRecord(
        run_id=RUN,
        job_type=JobType.PLAN,
        trigger="revision",
        project="platform",
        target_revision="main",
        source_key="b" * 16,
        spec_hash="sha256:x",
        revision="a" * 40,
    )
)
RESULTED = (
    f'{{"v":1,"runID":"{RUN}","phase":"plan","result":"Succeeded","exitCode":0,"revision":"{"a" * 40}",'
    f'"planDigest":"sha256:{"e" * 64}","hasChanges":true,"changes":{{"add":2}},"terraformVersion":"1.9.8"}}'
)


def worked() -> Pod:
    done = ContainerStatus(name="job", state=ContainerState(terminated=ContainerStateTerminated(exit_code=0)))
    return replace(pod("Succeeded"), status=PodStatus(phase="Succeeded", container_statuses=(done,)))


class Place:
    """Stores in memory, a cache of pods, and a Job that has ended."""

    def __init__(self, *pods: Pod) -> None:
        self.clock = VirtualClock()
        self.server = SimApiServer(self.clock, random.Random(1))
        self.database, self.bucket = Database(random.Random(1)), Bucket(random.Random(2))
        client: ApiClient = self.server.client("workspace")
        stores = Stores(self.database, self.bucket, self.read)
        keeping = Keeping(records=True, logs=True, give_up_after=timedelta(hours=1))
        self.delivery = Delivery(stores, keeping, client, self.clock, lambda *_: pods)
        meta = replace(
            job(annotations={RECORD: RECORDED, RESULT: RESULTED}).metadata, deletion_timestamp=self.at(timedelta(0))
        )
        self.task = JobTask(
            job=replace(job(), metadata=meta),
            job_type=JobType.PLAN,
            run_id=RUN,
            uid="ws",
            workspace="network",
            due=Due.ALL,
        )
        caller = (WakeUp(), Key("team-a", "network"))
        self.entry = Entry(task=self.task, owner="ws", since=datetime(2026, 1, 1, tzinfo=UTC), added=0.0, caller=caller)

    def at(self, ago: timedelta) -> str:
        return f"{self.clock.now() - ago:%Y-%m-%dT%H:%M:%SZ}"

    async def read(self, found: Pod, _job_type: JobType) -> AsyncGenerator[bytes, None]:
        yield f"log of {found.metadata.name}".encode()


def in_place(scene: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await scene()

    run_virtual(main, seed=1)


def test_the_rows_and_the_log_of_an_ended_job_are_stored() -> None:
    async def scene() -> None:
        place = Place(worked())
        archived = await place.delivery.store(place.entry, place.task)
        assert archived is not None
        assert archived.loss is None
        run = place.database.runs["ws", RUN]
        assert (run.revision, run.trigger, run.result) == ("a" * 40, "revision", None)
        row = place.database.phases["ws", RUN, JobType.PLAN]
        assert (row.result, row.exit_code, row.pod, row.plan_digest[:7]) == (PhaseResult.SUCCEEDED, 0, "pod", "sha256:")
        assert row.changes is not None
        assert row.changes.add == 2
        assert place.bucket.logs == {f"run-logs/team-a/network/{RUN}/plan.log.gz": b"log of pod"}
        assert (row.log_key, row.log_bytes, row.log_error) == (next(iter(place.bucket.logs)), 10, "")

    in_place(scene)


@pytest.mark.parametrize(
    ("pods", "loss", "error"),
    [((), Loss.POD_GONE, "the pod is gone"), ((pod("Failed"),), Loss.NEVER_STARTED, "no container has ever started")],
)
def test_a_log_that_never_will_be_there_is_given_up_and_the_row_says_why(
    pods: tuple[Pod, ...], loss: Loss, error: str
) -> None:
    async def scene() -> None:
        place = Place(*pods)
        archived = await place.delivery.store(place.entry, place.task)
        assert archived is not None
        assert archived.loss is loss
        assert place.database.phases["ws", RUN, JobType.PLAN].log_error == error

    in_place(scene)


def test_a_log_is_not_uploaded_again_because_the_database_does_not_answer() -> None:
    async def scene() -> None:
        place = Place(worked())
        place.database.weather.down = True
        with pytest.raises(HistoryUnavailable):
            await place.delivery.store(place.entry, place.task)
        place.database.weather.down = False
        await place.delivery.store(place.entry, place.task)
        assert place.bucket.weather.calls == 1
        assert place.database.phases["ws", RUN, JobType.PLAN].log_key

    in_place(scene)


def test_what_cannot_be_stored_is_given_up_when_its_time_is_over() -> None:
    async def scene() -> None:
        place = Place(worked())
        place.bucket.weather.down = True
        late = replace(
            place.task, job=replace(place.task.job, metadata=replace(place.task.job.metadata, deletion_timestamp=None))
        )
        ended = replace(late.job.status, completion_time=place.at(timedelta(minutes=59)))
        with pytest.raises(Exception, match="connection refused"):
            await place.delivery.store(place.entry, replace(late, job=replace(late.job, status=ended)))
        place.entry.error = "connection refused"
        over = replace(late.job.status, completion_time=place.at(timedelta(minutes=61)))
        archived = await place.delivery.store(place.entry, replace(late, job=replace(late.job, status=over)))
        assert archived is not None
        assert archived.loss is Loss.TIMED_OUT
        row = place.database.phases["ws", RUN, JobType.PLAN]
        assert row.log_error == "it could not be stored within 1 h: connection refused"

    in_place(scene)


@pytest.mark.parametrize(
    ("seconds", "namespace", "waits"),
    [(59, "deleted", True), (61, "deleted", False), (61, "gone", False), (600, "there", True)],
)
def test_only_a_namespace_that_is_being_deleted_ends_the_wait_after_a_minute(
    seconds: int, namespace: str, *, waits: bool
) -> None:
    async def scene() -> None:
        place = Place(worked())
        place.database.weather.down = place.bucket.weather.down = True
        namespaces = place.server.resource(NAMESPACES)
        if namespace != "gone":
            place.server.create(namespaces, {"metadata": {"name": "team-a"}})
        if namespace == "deleted":
            place.server.writer.delete(namespaces, ("", "team-a"), {}, place.clock.now())
        meta = replace(place.task.job.metadata, deletion_timestamp=place.at(timedelta(seconds=seconds)))
        task = replace(place.task, job=replace(place.task.job, metadata=meta))
        if waits:
            with pytest.raises(Exception, match="connection refused"):
                await place.delivery.store(place.entry, task)
            return
        archived = await place.delivery.store(place.entry, task)
        assert archived is not None
        assert archived.loss is Loss.NAMESPACE_DELETED

    in_place(scene)


def test_a_deleted_job_is_looked_at_again_when_the_minute_of_its_namespace_is_over() -> None:
    async def scene() -> None:
        place = Place(worked())
        assert 59 <= place.delivery.next_look(place.task) <= 61

    in_place(scene)
