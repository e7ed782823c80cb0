"""A pass of retention deletes logs before rows, ends, and leaves rows whose logs stay."""

from collections.abc import AsyncIterator, Collection
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta

import pytest

from magos.api.workspace import RunRecord
from magos.history.archive import ArchiveUnavailable, StoredLog
from magos.history.model import PhaseRecord, WorkspaceKey
from magos.history.retention import BATCH, Swept, sweep
from magos.history.runs import Prunable

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 6, 1, tzinfo=UTC)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Both:
    """Rows and logs at once; notes what was asked, in order."""

    def __init__(self, runs: int, *, down: bool = False) -> None:
        self.left = [
            Prunable(workspace_uid="u", run_id=f"{number:05}", log_keys=(f"log-{number}",)) for number in range(runs)
        ]
        self.logs = {key for run in self.left for key in run.log_keys}
        self.asked: list[str] = []
        self.deleted_before: datetime | None = None
        self.down = down

    async def mark_deleted(self, existing: Collection[str], now: datetime) -> None:
        self.asked.append(f"mark {sorted(existing)} {now:%d}")

    async def prunable(self, keep: int, deleted_before: datetime, limit: int) -> tuple[Prunable, ...]:
        assert keep == 30
        self.deleted_before = deleted_before
        return tuple(self.left[:limit])

    async def delete(self, keys: Collection[str]) -> None:
        self.asked.append("logs")
        if self.down:
            raise ArchiveUnavailable("down")
        self.logs -= set(keys)

    async def prune(self, runs: Collection[Prunable]) -> None:
        self.asked.append("rows")
        assert not {key for run in runs for key in run.log_keys} & self.logs
        self.left = [run for run in self.left if run not in runs]

    async def record_run(self, workspace: WorkspaceKey, record: RunRecord) -> None:
        raise NotImplementedError

    async def record_phase(self, workspace: WorkspaceKey, record: PhaseRecord) -> None:
        raise NotImplementedError

    async def store(self, key: str, chunks: AsyncIterator[bytes]) -> StoredLog:
        raise NotImplementedError

    def open(self, key: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        raise NotImplementedError


async def swept(both: Both, ttl: timedelta = timedelta(hours=1)) -> Swept:
    return await sweep(both, both, keep=30, ttl=ttl, existing=["b", "a"], now=NOW)


async def test_deletions_are_noted_then_logs_go_and_then_their_rows() -> None:
    both = Both(3)
    assert await swept(both) == Swept(runs=3, logs=3)
    assert both.asked == ["mark ['a', 'b'] 01", "logs", "rows"]
    assert both.deleted_before == NOW - timedelta(hours=1)
    assert await swept(both) == Swept()


async def test_rows_stay_while_the_bucket_refuses() -> None:
    both = Both(3, down=True)
    with pytest.raises(ArchiveUnavailable):
        await swept(both)
    assert len(both.left) == 3
    assert "rows" not in both.asked
    both.down = False
    assert (await swept(both)).runs == 3


async def test_a_pass_ends_and_says_that_there_is_more() -> None:
    both = Both(BATCH * 50 + 1)
    first = await swept(both)
    assert (first.runs, first.more) == (BATCH * 50, True)
    assert await swept(both) == Swept(runs=1, logs=1)


async def test_without_a_bucket_rows_go_alone() -> None:
    both = Both(2)
    both.logs.clear()
    assert await sweep(both, None, keep=30, ttl=timedelta(1), existing=[], now=NOW) == Swept(runs=2)
    assert "logs" not in both.asked


@pytest.mark.parametrize("ttl", [timedelta.max, NOW - datetime(1, 1, 1, tzinfo=UTC)])
async def test_a_time_to_live_longer_than_all_time_deletes_nothing_for_its_age(ttl: timedelta) -> None:
    both = Both(0)
    await swept(both, ttl)
    assert both.deleted_before == datetime(1, 1, 1, tzinfo=UTC)
