"""The tables come to be once, completely or not at all, whoever starts first."""

from typing import Any

import anyio
import msgspec
import pytest
import structlog.testing

from magos.history import database
from magos.history.postgres import PostgresHistory
from magos.history.schema import Migration, load_migrations
from magos.history.settings import PostgresSettings
from magos.history.store import HistoryUnavailable
from tests.e2e.history.server import Postgres, ended, run_id, started, workspace

pytestmark = pytest.mark.anyio

_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1"


async def tables(postgres: Postgres, settings: PostgresSettings) -> list[str]:
    return [row[0] for row in await postgres.ask(_TABLES, database=settings.database)]


async def test_many_processes_that_start_at_once_make_the_tables_once(
    postgres: Postgres, settings: PostgresSettings
) -> None:
    processes = [PostgresHistory(settings) for _ in range(6)]
    async with anyio.create_task_group() as group:
        for number, process in enumerate(processes):
            group.start_soon(process.record_run, workspace(), started(number))
    assert len((await processes[0].runs("team", "app")).items) == 6
    versions = await postgres.ask("SELECT version FROM magos_migrations", database=settings.database)
    assert [row[0] for row in versions] == [each.version for each in load_migrations()]
    for process in processes:
        await process.aclose()


async def test_a_migration_that_fails_leaves_nothing_and_is_made_again(
    postgres: Postgres, settings: PostgresSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = load_migrations()
    broken = (*good, Migration(len(good) + 1, "broken", "CREATE TABLE half (); SELECT 1 / 0"))
    history = PostgresHistory(settings)
    with monkeypatch.context() as patch:
        patch.setattr(database, "load_migrations", lambda: broken)
        for _ in range(2):
            with pytest.raises(HistoryUnavailable, match="division by zero"):
                await history.record_run(workspace(), started(1))
        assert await tables(postgres, settings) == []
    await history.aclose()
    history = PostgresHistory(settings)
    await history.record_run(workspace(), started(1))
    await history.aclose()
    assert await tables(postgres, settings) == ["magos_migrations", "run_phases", "runs", "workspaces"]


async def test_a_later_schema_is_used_with_a_warning_and_stays(
    settings: PostgresSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = load_migrations()
    later = Migration(len(good) + 1, "later", "ALTER TABLE runs ADD COLUMN cost text DEFAULT 'none'")
    with monkeypatch.context() as patch:
        patch.setattr(database, "load_migrations", lambda: (*good, later))
        newer = PostgresHistory(settings)
        await newer.record_run(workspace(), started(1))
        await newer.aclose()
    history = PostgresHistory(settings)
    with structlog.testing.capture_logs() as logs:
        await history.record_run(workspace(), ended(1))
        await history.record_run(workspace(), ended(2))
    assert [run.run_id for run in (await history.runs("team", "app")).items] == [run_id(2), run_id(1)]
    await history.aclose()
    warnings: list[Any] = [line for line in logs if line["log_level"] == "warning"]
    assert [(line["version"], line["known"]) for line in warnings] == [(later.version, len(good))]


async def test_tables_come_back_after_the_database_was_replaced_by_an_empty_one(
    history: PostgresHistory, postgres: Postgres, settings: PostgresSettings
) -> None:
    await history.record_run(workspace(), started(1))
    await postgres.ask(
        "DROP TABLE runs, run_phases, workspaces, magos_migrations", "SELECT 1", database=settings.database
    )
    await history.record_run(workspace(), started(2))
    assert [run.run_id for run in (await history.runs("team", "app")).items] == [run_id(2)]


async def test_a_role_that_may_only_read_reads_what_another_one_wrote(
    history: PostgresHistory, postgres: Postgres, settings: PostgresSettings
) -> None:
    await history.record_run(workspace(), started(1))
    await postgres.ask(
        f"CREATE ROLE reader_{settings.database} LOGIN PASSWORD 'reading'",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader_{settings.database}",
        "SELECT 1",
        database=settings.database,
    )
    reader = PostgresHistory(
        msgspec.structs.replace(settings, username=f"reader_{settings.database}", password="reading")
    )
    assert len((await reader.runs("team", "app")).items) == 1
    with pytest.raises(HistoryUnavailable, match="permission denied"):
        await reader.record_run(workspace(), started(2))
    await reader.aclose()
