"""What retention no longer keeps goes, logs before rows, and nothing else does."""

from collections.abc import AsyncIterator, Collection
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta

import pytest

from magos.api.names import JobType
from magos.history.archive import ArchiveUnavailable, StoredLog, log_key
from magos.history.postgres import PostgresHistory
from magos.history.retention import Swept, sweep
from magos.history.settings import PostgresSettings
from tests.e2e.history.server import Postgres, ended, phase, run_id, started, workspace

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 6, 1, tzinfo=UTC)
TTL = timedelta(hours=2160)


class Bucket:
    """Takes deletions, or refuses them."""

    def __init__(self) -> None:
        self.deleted: set[str] = set()
        self.down = False

    async def store(self, key: str, chunks: AsyncIterator[bytes]) -> StoredLog:
        raise NotImplementedError

    def open(self, key: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        raise NotImplementedError

    async def delete(self, keys: Collection[str]) -> None:
        if self.down:
            raise ArchiveUnavailable("the bucket is down")
        self.deleted |= set(keys)


async def swept(
    history: PostgresHistory,
    bucket: Bucket | None,
    *existing: str,
    keep: int = 2,
    now: datetime = NOW,
    ttl: timedelta = TTL,
) -> Swept:
    return await sweep(history, bucket, keep=keep, ttl=ttl, existing=existing, now=now)


async def ids(history: PostgresHistory, uid: str = "uid-1") -> list[str]:
    return [run.run_id for run in (await history.runs("team", "app", uid=uid, limit=100)).items]


def usual_keys(number: int) -> set[str]:
    return {log_key("team", "app", run_id(number), kind) for kind in JobType}


async def test_the_newest_finished_runs_of_each_workspace_stay_and_unfinished_ones_too(
    history: PostgresHistory,
) -> None:
    for number in range(1, 8):
        record = started(number) if number in {1, 4, 7} else ended(number)
        await history.record_run(workspace(), record)
        await history.record_phase(workspace(), phase(number, log_key=f"log-{number}"))
    await history.record_run(workspace("uid-2"), ended(1))
    bucket = Bucket()
    done = await swept(history, bucket, "uid-1", "uid-2")
    # Finished: 2, 3, 5, 6. Unfinished runs neither go nor take the place of a finished one.
    assert await ids(history) == [run_id(number) for number in (7, 6, 5, 4, 1)]
    assert await ids(history, "uid-2") == [run_id(1)]
    assert bucket.deleted == {"log-2", "log-3"} | usual_keys(2) | usual_keys(3)
    assert (done.runs, done.more) == (2, False)
    assert (await swept(history, bucket, "uid-1", "uid-2")).runs == 0


async def test_rows_stay_while_the_bucket_is_down_and_go_later(history: PostgresHistory) -> None:
    for number in range(5):
        await history.record_run(workspace(), ended(number))
        await history.record_phase(workspace(), phase(number, log_key=f"log-{number}"))
    bucket = Bucket()
    bucket.down = True
    for _ in range(2):
        with pytest.raises(ArchiveUnavailable):
            await swept(history, bucket, "uid-1")
        assert len(await ids(history)) == 5
    bucket.down = False
    assert (await swept(history, bucket, "uid-1")).runs == 3
    assert {"log-0", "log-1", "log-2"} < bucket.deleted
    assert await ids(history) == [run_id(4), run_id(3)]


async def test_the_history_of_a_deleted_workspace_goes_after_its_time_and_leaves_nothing(
    history: PostgresHistory, postgres: Postgres, settings: PostgresSettings
) -> None:
    await history.record_run(workspace(), started(1))
    await history.record_run(workspace(), ended(2))
    await history.record_phase(workspace(), phase(3, log_key="lone"))
    await history.record_run(workspace("uid-2"), ended(1))
    bucket = Bucket()
    await swept(history, bucket, "uid-2")
    await swept(history, bucket, "uid-2", now=NOW + TTL)
    assert len(await ids(history)) == 2
    assert not bucket.deleted
    done = await swept(history, bucket, "uid-2", now=NOW + TTL + timedelta(seconds=1))
    assert done.runs == 3
    assert bucket.deleted == {"lone"} | usual_keys(1) | usual_keys(2) | usual_keys(3)
    assert await ids(history, "uid-2") == [run_id(1)]
    left = await postgres.ask(
        "SELECT ws_uid FROM workspaces UNION ALL SELECT ws_uid FROM run_phases", database=settings.database
    )
    assert [row[0] for row in left] == ["uid-2"]


async def test_a_workspace_that_exists_after_all_is_not_counted_as_deleted(history: PostgresHistory) -> None:
    await history.record_run(workspace(), ended(1))
    await swept(history, None)
    await swept(history, None, "uid-1", now=NOW + TTL)
    await swept(history, None, now=NOW + TTL + timedelta(seconds=1))
    assert await ids(history) == [run_id(1)]
    await swept(history, None, now=NOW + 3 * TTL)
    assert await ids(history) == []


async def test_phases_whose_run_was_never_stored_go_like_their_run(history: PostgresHistory) -> None:
    await history.record_phase(workspace(), phase(1, log_key="lone-1"))
    await history.record_run(workspace(), ended(2))
    await history.record_run(workspace(), ended(3))
    await history.record_phase(workspace(), phase(4, log_key="lone-4"))
    bucket = Bucket()
    await swept(history, bucket, "uid-1", keep=3)
    assert not bucket.deleted
    await swept(history, bucket, "uid-1")
    assert bucket.deleted == {"lone-1"} | usual_keys(1)
    await history.record_run(workspace(), ended(4))
    run = await history.run("team", "app", run_id(4))
    assert run is not None
    assert run.plan is not None
    assert run.plan.log_key == "lone-4"


async def test_a_record_that_comes_after_the_pass_goes_with_the_next_one(history: PostgresHistory) -> None:
    for number in range(4):
        await history.record_run(workspace(), ended(number))
    await swept(history, None, "uid-1")
    await history.record_run(workspace(), ended(0))
    await history.record_phase(workspace(), phase(1))
    assert (await swept(history, None, "uid-1")).runs == 2
    assert await ids(history) == [run_id(3), run_id(2)]


async def test_many_runs_go_in_batches_oldest_first(history: PostgresHistory) -> None:
    for number in range(30):
        await history.record_run(workspace(), ended(number))
    batch = await history.prunable(5, NOW - TTL, 10)
    assert [run.run_id for run in batch] == [run_id(number) for number in range(10)]
    assert all(run.workspace_uid == "uid-1" for run in batch)
    assert (await swept(history, None, "uid-1", keep=5)).runs == 25


async def test_a_time_to_live_without_end_keeps_everything(history: PostgresHistory) -> None:
    await history.record_run(workspace(), ended(1))
    await swept(history, None, ttl=timedelta(days=999_999_999))
    await swept(history, None, ttl=timedelta(days=999_999_999), now=NOW + 5000 * timedelta(days=365))
    assert await ids(history) == [run_id(1)]
