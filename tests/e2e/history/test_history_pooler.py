"""History works behind a pooler in transaction mode, and verifies certificates as it was told to."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import msgspec
import pytest
import trustme

from magos.history.postgres import PostgresHistory
from magos.history.settings import PostgresSettings, SSLMode
from magos.history.store import HistoryUnavailable
from tests.e2e.history.pooler import pooler
from tests.e2e.history.server import Postgres, ended, phase, started, workspace

pytestmark = pytest.mark.anyio

AUTHORITY = trustme.CA()


@pytest.fixture
async def pooled(settings: PostgresSettings, postgres: Postgres, tmp_path: Path) -> AsyncIterator[PostgresSettings]:
    """The way to this test's database through a pooler with two connections."""
    async with pooler(tmp_path, postgres.login, AUTHORITY) as port:
        yield msgspec.structs.replace(settings, port=port)


async def test_many_clients_share_two_connections_without_meeting_each_others_statements(
    pooled: PostgresSettings, postgres: Postgres
) -> None:
    clients = [PostgresHistory(pooled) for _ in range(4)]

    async def use(client: PostgresHistory, first: int) -> None:
        for number in range(first, 60, 12):
            await client.record_run(workspace(), started(number))
            await client.record_phase(workspace(), phase(number))
            await client.record_run(workspace(), ended(number))
            assert (await client.runs("team", "app", limit=5)).items

    async with anyio.create_task_group() as group:
        for first in range(12):
            group.start_soon(use, clients[first % 4], first)
    page = await clients[0].runs("team", "app", limit=100)
    assert len(page.items) == 60
    assert all(run.plan is not None for run in page.items)
    # Nobody's statement limit stayed behind on a connection that another client gets.
    limits = await postgres.ask("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'", database=pooled.database)
    assert limits[0][0] == 0
    for client in clients:
        await client.aclose()


async def test_connections_behind_the_pooler_that_end_are_replaced(
    pooled: PostgresSettings, postgres: Postgres
) -> None:
    history = PostgresHistory(pooled)
    await history.record_run(workspace(), started(1))
    assert await postgres.close_connections(pooled.database) > 0
    await history.record_run(workspace(), started(2))
    assert len((await history.runs("team", "app")).items) == 2
    await history.aclose()


async def test_certificates_are_verified_as_the_mode_says(pooled: PostgresSettings, tmp_path: Path) -> None:
    AUTHORITY.cert_pem.write_to_path(str(tmp_path / "ours.pem"))
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "theirs.pem"))

    async def refused(host: str, mode: SSLMode, root: str) -> bool:
        path = str(tmp_path / f"{root}.pem") if root else ""
        history = PostgresHistory(msgspec.structs.replace(pooled, host=host, sslmode=mode, sslrootcert=path))
        try:
            await history.record_run(workspace(), started(1))
        except HistoryUnavailable as error:
            assert "certificate" in str(error)  # noqa: PT017  # whether it is refused is what is asked
            return True
        finally:
            await history.aclose()
        return False

    ip, name = "127.0.0.1", "localhost"  # the certificate is for the address alone
    for mode in (SSLMode.ALLOW, SSLMode.PREFER, SSLMode.REQUIRE):
        assert not await refused(name, mode, "")
    assert await refused(ip, SSLMode.REQUIRE, "theirs")
    assert not await refused(name, SSLMode.REQUIRE, "ours")
    assert not await refused(name, SSLMode.VERIFY_CA, "ours")
    assert await refused(ip, SSLMode.VERIFY_CA, "")
    assert await refused(ip, SSLMode.VERIFY_CA, "theirs")
    assert not await refused(ip, SSLMode.VERIFY_FULL, "ours")
    assert await refused(name, SSLMode.VERIFY_FULL, "ours")
