"""The database is down, slow, read-only or full: calls end in time, say why, and later work again."""

import os
import signal
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
import asyncpg
import msgspec
import pytest

from magos.history.postgres import PostgresHistory
from magos.history.settings import PostgresSettings, SSLMode
from magos.history.store import HistoryUnavailable
from tests.e2e.history.server import Postgres, ended, run_id, started, workspace

if TYPE_CHECKING:
    from magos.history.database import Session

pytestmark = pytest.mark.anyio


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of a server that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


async def known(history: PostgresHistory) -> set[str]:
    return {run.run_id for run in (await history.runs("team", "app", limit=100)).items}


async def write_until_refused(history: PostgresHistory) -> None:
    """A setting takes a moment to reach the server's processes."""
    while True:
        await history.record_run(workspace(), started(2))


async def hold_all(held: "list[asyncpg.Connection[asyncpg.Record]]", postgres: Postgres, database: str) -> None:
    while True:
        held.append(await postgres.connect(database))


async def test_nothing_that_was_confirmed_is_lost_when_the_server_is_killed_during_writes(
    history: PostgresHistory, postgres: Postgres
) -> None:
    confirmed: set[str] = set()
    refused = 0
    over = False

    async def write(first: int) -> None:
        nonlocal refused
        number = first
        while not over and number < 1440:
            try:
                await history.record_run(workspace(), ended(number))
            except HistoryUnavailable:
                refused += 1
                continue  # the same write once more, as the queue does
            confirmed.add(run_id(number))
            number += 3

    async def enough(goal: int) -> None:
        while len(confirmed) < goal:
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        for first in range(3):
            group.start_soon(write, first)
        for _ in range(4):
            await enough(len(confirmed) + 15)
            await anyio.to_thread.run_sync(postgres.kill)
            await anyio.to_thread.run_sync(postgres.start)
        over = True
    stored: set[str] = set()
    cursor = ""
    while True:
        page = await history.runs("team", "app", limit=100, cursor=cursor)
        stored |= {run.run_id for run in page.items}
        cursor = page.next_cursor
        if not cursor:
            break
    assert confirmed <= stored
    assert len(confirmed) >= 60


async def test_a_server_that_is_down_is_named_with_the_cause_and_is_used_again_when_it_is_back(
    history: PostgresHistory, settings: PostgresSettings, postgres: Postgres
) -> None:
    await history.record_run(workspace(), started(1))
    postgres.stop()
    try:
        for _ in range(2):
            with pytest.raises(HistoryUnavailable) as caught:
                await history.runs("team", "app")
            said = str(caught.value)
            assert f"PostgreSQL at 127.0.0.1:{settings.port}, database {settings.database}: " in said
            assert "refused" in said or "Connect call failed" in said
    finally:
        postgres.start()
    assert await known(history) == {run_id(1)}


async def test_connections_that_the_server_closed_are_replaced_without_an_error(
    history: PostgresHistory, settings: PostgresSettings, postgres: Postgres
) -> None:
    async with anyio.create_task_group() as group:  # several connections
        for number in range(8):
            group.start_soon(history.record_run, workspace(), started(number))
    assert await postgres.close_connections(settings.database) > 1
    async with anyio.create_task_group() as group:
        for number in range(8, 16):
            group.start_soon(history.record_run, workspace(), started(number))
    assert len(await known(history)) == 16


async def use_at_once(history: PostgresHistory, calls: int) -> list[str]:
    """Return what as many connections as ``calls`` say about whether they are read-only by default."""
    answers: list[str] = []
    everyone = anyio.Event()

    async def work(session: "Session") -> None:
        answers.append(await session.fetchval("SHOW default_transaction_read_only"))
        if len(answers) == calls:
            everyone.set()
        await everyone.wait()

    async with anyio.create_task_group() as group:
        for _ in range(calls):
            group.start_soon(history._database.read, work)
    return answers


async def test_connections_to_a_server_that_became_read_only_are_replaced_all_at_once(
    history: PostgresHistory, settings: PostgresSettings, postgres: Postgres
) -> None:
    await history.record_run(workspace(), started(1))
    # What is connected now is read-only; a new connection reaches the new primary.
    switch = f"ALTER DATABASE {settings.database} SET default_transaction_read_only = "
    await postgres.ask(switch + "on", "SELECT 1")
    await history.aclose()
    assert await use_at_once(history, 3) == ["on"] * 3
    await postgres.ask(switch + "off", "SELECT 1")
    await history.record_run(workspace(), started(2))
    # Reads would not have failed on the old server: they would have shown what it last knew.
    assert await use_at_once(history, 3) == ["off"] * 3
    assert await known(history) == {run_id(1), run_id(2)}


async def test_a_server_that_freezes_during_a_call_ends_it_in_time(
    settings: PostgresSettings, postgres: Postgres
) -> None:
    history = PostgresHistory(settings, timeout=0.5)
    await history.record_run(workspace(), started(1))
    found = await postgres.ask(f"SELECT pid FROM pg_stat_activity WHERE datname = '{settings.database}'")  # noqa: S608
    for row in found:
        os.kill(row[0], signal.SIGSTOP)
    try:
        with anyio.fail_after(5), pytest.raises(HistoryUnavailable, match=r"no answer within 0\.5 s"):
            await history.runs("team", "app")
    finally:
        for row in found:
            os.kill(row[0], signal.SIGCONT)
    assert await known(history) == {run_id(1)}
    await history.aclose()


async def test_a_server_that_stays_read_only_refuses_writes_and_still_answers_reads(
    history: PostgresHistory, postgres: Postgres
) -> None:
    await history.record_run(workspace(), started(1))
    switch = "ALTER SYSTEM SET default_transaction_read_only = "
    await postgres.ask(switch + "on", "SELECT pg_reload_conf()")
    try:
        with pytest.raises(HistoryUnavailable, match="read-only transaction"):
            await write_until_refused(history)
        assert run_id(1) in await known(history)
    finally:
        await postgres.ask("SET default_transaction_read_only = off", switch + "off", "SELECT pg_reload_conf()")
    await history.aclose()
    await history.record_run(workspace(), started(3))
    assert {run_id(1), run_id(3)} <= await known(history)


async def test_a_lock_that_is_held_ends_the_call_in_time_and_leaves_nothing_waiting(
    settings: PostgresSettings, postgres: Postgres
) -> None:
    history = PostgresHistory(settings, timeout=0.5)
    await history.record_run(workspace(), started(1))
    other = await postgres.connect(settings.database)
    async with other.transaction():
        await other.execute("LOCK TABLE runs IN ACCESS EXCLUSIVE MODE")
        begun = anyio.current_time()
        with pytest.raises(HistoryUnavailable, match=r"no answer within 0\.5 s|timeout"):
            await history.record_run(workspace(), started(2))
        with pytest.raises(HistoryUnavailable, match=r"no answer within 0\.5 s|timeout"):
            await history.runs("team", "app")
        assert anyio.current_time() - begun < 5
    await other.close()
    await history.record_run(workspace(), started(3))
    assert await known(history) == {run_id(1), run_id(3)}
    await history.aclose()


async def test_a_server_that_never_answers_ends_the_call_in_time(silent: int, settings: PostgresSettings) -> None:
    for mode in (SSLMode.DISABLE, SSLMode.PREFER, SSLMode.REQUIRE):
        history = PostgresHistory(msgspec.structs.replace(settings, port=silent, sslmode=mode), timeout=0.3)
        with pytest.raises(HistoryUnavailable, match=r"no answer within 0\.3 s"):
            await history.runs("team", "app")
        await history.aclose()


async def test_many_calls_to_a_server_that_never_answers_do_not_wait_for_each_other(
    silent: int, settings: PostgresSettings
) -> None:
    history = PostgresHistory(msgspec.structs.replace(settings, port=silent), timeout=0.5)

    async def refused() -> None:
        with pytest.raises(HistoryUnavailable, match=r"no answer within 0\.5 s"):
            await history.runs("team", "app")

    with anyio.fail_after(4):
        async with anyio.create_task_group() as group:
            for _ in range(12):
                group.start_soon(refused)
    await history.aclose()


async def test_a_full_disk_refuses_writes_and_later_takes_them(
    history: PostgresHistory, settings: PostgresSettings, postgres: Postgres
) -> None:
    await history.record_run(workspace(), started(1))
    await postgres.ask(
        "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$"
        " BEGIN RAISE disk_full USING MESSAGE = 'could not extend file: No space left on device'; END $$",
        "CREATE TRIGGER full_disk BEFORE INSERT ON runs FOR EACH ROW EXECUTE FUNCTION full_disk()",
        "SELECT 1",
        database=settings.database,
    )
    with pytest.raises(HistoryUnavailable, match="No space left on device"):
        await history.record_run(workspace(), started(2))
    await postgres.ask("DROP TRIGGER full_disk ON runs", "SELECT 1", database=settings.database)
    await history.record_run(workspace(), started(3))
    assert await known(history) == {run_id(1), run_id(3)}


@pytest.mark.parametrize(
    ("wrong", "cause"),
    [
        ({"password": "Sup3r,secret"}, "password authentication failed"),
        ({"database": "nowhere"}, "does not exist"),
        ({"username": "nobody"}, "password authentication failed"),
        ({"host": "no-such-host.invalid"}, "."),
        ({"host": "a" * 70}, "."),
        ({"port": 1}, "."),
        ({"sslmode": SSLMode.REQUIRE}, "SSL"),
        ({"sslmode": SSLMode.VERIFY_FULL, "sslrootcert": "/nowhere/ca.pem"}, "MAGOS_POSTGRES_SSLROOTCERT: /nowhere"),
    ],
)
async def test_what_is_wrong_is_said_without_the_password(
    settings: PostgresSettings, wrong: dict[str, str | int], cause: str
) -> None:
    given = msgspec.structs.replace(settings, **wrong)
    history = PostgresHistory(given, timeout=5)
    with pytest.raises(HistoryUnavailable, match=cause) as caught:
        await history.record_run(workspace(), started(1))
    said = str(caught.value) + repr(given) + repr(caught.value.__cause__)
    assert given.password not in said
    assert f"{given.host}:{given.port}" in str(caught.value)
    assert "\n" not in str(caught.value)
    await history.aclose()


async def test_a_call_that_is_cancelled_leaves_no_transaction_open(
    history: PostgresHistory, settings: PostgresSettings, postgres: Postgres
) -> None:
    await history.record_run(workspace(), started(1))
    other = await postgres.connect(settings.database)
    async with other.transaction():
        await other.execute("LOCK TABLE runs IN ACCESS EXCLUSIVE MODE")
        with anyio.move_on_after(0.2):
            await history.record_run(workspace(), started(2))
    await other.close()
    for number in range(3, 9):
        await history.record_run(workspace(), started(number))
    assert run_id(8) in await known(history)


async def test_too_many_connections_are_an_error_like_any_other(settings: PostgresSettings, postgres: Postgres) -> None:
    held: list[asyncpg.Connection[asyncpg.Record]] = []
    history = PostgresHistory(settings)
    try:
        with pytest.raises(asyncpg.TooManyConnectionsError):
            await hold_all(held, postgres, settings.database)
        with pytest.raises(HistoryUnavailable, match="connection"):
            await history.record_run(workspace(), started(1))
    finally:
        for each in held:
            await each.close()
    await history.record_run(workspace(), started(1))
    await history.aclose()
