"""Database and bucket of the one-machine mode: nothing waits for them, and none that fails stops anything."""

import importlib.util
from pathlib import Path

import anyio
import pytest

from magos.local.processes import ProcessFailed
from magos.local.stores import Stores, _kept

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class _Said:
    def __init__(self) -> None:
        self.texts: list[str] = []

    def say(self, text: str) -> None:
        self.texts.append(text)

    def tick(self, text: str) -> None:
        self.texts.append(text)


class _Server:
    def __init__(self, refusal: Exception | None = None) -> None:
        self.done: list[str] = []
        self._refusal = refusal

    async def start(self) -> None:
        self.done.append("started")
        if self._refusal is not None:
            raise self._refusal

    async def stop(self) -> None:
        self.done.append("stopped")


def test_where_the_stores_are_is_known_before_they_run(tmp_path: Path) -> None:
    stores = Stores(tmp_path)
    assert stores.postgres is not None
    assert stores.objects is not None
    environment = stores.environment()
    assert environment["MAGOS_POSTGRES_PASSWORD"] == stores.postgres.login.password
    assert environment["MAGOS_LOGS_S3_ENDPOINT"] == stores.objects.endpoint
    assert environment["MAGOS_LOGS_S3_SECRET_ACCESS_KEY"] == stores.objects.secret_key
    assert environment["MAGOS_LOGS_ENABLED"] == "true"
    assert all(environment.values())


def test_a_store_whose_package_is_missing_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    monkeypatch.setattr("magos.local.stores.sys.executable", str(tmp_path / "python"))
    stores = Stores(tmp_path)
    assert (stores.postgres, stores.objects, stores.environment()) == (None, None, {})


async def test_a_store_that_does_not_start_is_said_and_stops_nothing() -> None:
    server, said = _Server(ProcessFailed("port 1 is taken")), _Said()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_kept, "PostgreSQL", server, None, said)
    assert said.texts == ["PostgreSQL does not run, so history stays incomplete: port 1 is taken"]


async def test_a_store_that_cannot_be_prepared_is_not_started() -> None:
    server, said = _Server(), _Said()

    async def prepare() -> None:
        raise ProcessFailed("initdb did not prepare it")

    await _kept("PostgreSQL", server, prepare, said)
    assert server.done == []
    assert "initdb did not prepare it" in said.texts[0]


async def test_a_store_ends_with_its_task() -> None:
    server = _Server()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_kept, "PostgreSQL", server, None, _Said())
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert server.done == ["started", "stopped"]
