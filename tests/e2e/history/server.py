"""What tests do to the PostgreSQL server, and the records they write."""

import itertools
from typing import Any

import asyncpg
from anyio.from_thread import BlockingPortal

from magos.api.names import JobType
from magos.api.triggers import Trigger
from magos.api.workspace import RunRecord, RunResult
from magos.history.model import PhaseRecord, PhaseResult, WorkspaceKey
from magos.history.settings import PostgresSettings, SSLMode
from magos.local.servers.postgres import SUPERUSER, PostgresServer

__all__ = ["Postgres", "ended", "phase", "run_id", "started", "workspace"]

_numbers = itertools.count(1)


class Postgres:
    """A running server, from the outside; what starts and ends it blocks."""

    def __init__(self, server: PostgresServer, portal: BlockingPortal) -> None:
        self.login = server.login
        self._server = server
        self._portal = portal

    def start(self) -> None:
        self._portal.call(self._server.start)

    def stop(self) -> None:
        self._portal.call(self._server.stop)

    def kill(self) -> None:
        self._portal.call(self._server.kill)

    async def fresh_database(self) -> PostgresSettings:
        name = f"history{next(_numbers)}"
        await self.ask(f"CREATE DATABASE {name} OWNER {self.login.username}")
        return PostgresSettings(
            host=self.login.host,
            port=self.login.port,
            database=name,
            password=self.login.password,
            sslmode=SSLMode.DISABLE,
        )

    async def ask(self, *statements: str, database: str = "postgres") -> list[Any]:
        """Carry out statements as the superuser and return the rows of the last one."""
        connection = await self.connect(database, SUPERUSER)
        try:
            for statement in statements[:-1]:
                await connection.execute(statement)
            return await connection.fetch(statements[-1])
        finally:
            await connection.close()

    async def close_connections(self, database: str) -> int:
        """End all connections to a database, as a server does that shuts down; return how many there were."""
        ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = "
        return len(await self.ask(f"{ended}'{database}'"))

    async def connect(self, database: str, user: str = "") -> "asyncpg.Connection[asyncpg.Record]":
        to = self.login
        return await asyncpg.connect(
            host=to.host, port=to.port, user=user or to.username, password=to.password, database=database
        )


def workspace(uid: str = "uid-1", name: str = "app", namespace: str = "team") -> WorkspaceKey:
    return WorkspaceKey(uid=uid, namespace=namespace, name=name, project="shop")


def run_id(number: int) -> str:
    """Return the ID of the run in that minute of a day."""
    return f"20260102T{number // 60:02d}{number % 60:02d}00-{number:08x}"


def started(number: int, **other: Any) -> RunRecord:
    """Return the record of a run as it starts."""
    at = f"2026-01-02T{number // 60:02d}:{number % 60:02d}:01Z"
    words: dict[str, Any] = {"run_id": run_id(number), "trigger": Trigger.REVISION, "started_at": at, **other}
    return RunRecord(**words)


def ended(number: int, result: RunResult = RunResult.APPLIED, **other: Any) -> RunRecord:
    """Return the record of a run that has ended."""
    at = f"2026-01-02T{number // 60:02d}:{number % 60:02d}:31Z"
    return started(number, result=result, finished_at=at, **other)


def phase(number: int, kind: JobType = JobType.PLAN, **other: Any) -> PhaseRecord:
    """Return the record of a phase that has succeeded."""
    words: dict[str, Any] = {"result": PhaseResult.SUCCEEDED, "exit_code": 0, **other}
    return PhaseRecord(run_id=run_id(number), phase=kind, job=f"app-{kind}-{number}", **words)
