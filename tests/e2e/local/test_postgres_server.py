"""The PostgreSQL server of the one-machine mode: what is committed survives its death, and nobody gets in without the
password."""

from pathlib import Path

import asyncpg
import pytest

from magos.local.servers.postgres import SUPERUSER, Login, PostgresServer, postgres_server

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def ask(login: Login, statement: str, user: str = "magos", password: str = "") -> object:
    connection = await asyncpg.connect(
        host=login.host, port=login.port, database=login.database, user=user, password=password or login.password
    )
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


async def test_what_is_committed_survives_a_kill_and_a_restart_on_the_same_port(tmp_path: Path) -> None:
    async with postgres_server(tmp_path) as server:
        login = server.login
        await ask(login, "CREATE TABLE kept AS SELECT 7 AS number")
        await server.kill()
        assert server.pid is None
        with pytest.raises(OSError, match=r"Connect call failed|Connection refused"):
            await ask(login, "SELECT 1")
        await server.start()
        assert await ask(login, "SELECT number FROM kept") == 7
        await server.stop()
        again = PostgresServer(tmp_path, login)
        await again.prepare()
        await again.start()
        try:
            assert await ask(login, "SELECT number FROM kept") == 7
        finally:
            await again.stop()
    assert not (tmp_path / "password").exists()


async def test_only_the_password_opens_it_and_magos_is_no_superuser(tmp_path: Path) -> None:
    async with postgres_server(tmp_path, settings={"fsync": "off"}) as server:
        with pytest.raises(asyncpg.InvalidPasswordError):
            await ask(server.login, "SELECT 1", password="wrong")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await ask(server.login, "ALTER SYSTEM SET work_mem = '8MB'")
        assert await ask(server.login, "SELECT current_setting('is_superuser')", user=SUPERUSER) == "on"
        assert server.login.password not in server.log_file.read_text()
