"""The PostgreSQL server of the one-machine mode: what is committed survives its death, and nobody gets in without the
password."""

import os
import select
import subprocess
import sys
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


def test_the_server_does_not_survive_the_sigkill_of_its_parent(tmp_path: Path) -> None:
    script = f"""
import anyio, pathlib
from magos.local.servers.postgres import postgres_server
async def main():
    async with postgres_server(pathlib.Path({str(tmp_path)!r})) as server:
        print(server.pid, flush=True)
        await anyio.sleep_forever()
anyio.run(main)
"""
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    try:
        assert parent.stdout is not None
        with parent.stdout:
            pid = int(parent.stdout.readline())
        alive = select.poll()
        handle = os.pidfd_open(pid)
    finally:
        parent.kill()
        parent.wait()
    alive.register(handle, select.POLLIN)
    try:
        assert alive.poll(20_000), "the server still runs"
    finally:
        os.close(handle)
