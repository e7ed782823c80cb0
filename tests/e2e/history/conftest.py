"""One PostgreSQL server for all tests of the run history; each test has a database of its own."""

from collections.abc import AsyncIterator, Iterator

import pytest
from anyio.from_thread import start_blocking_portal

from magos.history.postgres import PostgresHistory
from magos.history.settings import PostgresSettings
from magos.local.servers.postgres import postgres_server
from tests.e2e.history.server import Postgres


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """A running server. Tests end with SIGKILL what they started, so nothing has to reach a disk."""
    folder = tmp_path_factory.mktemp("postgres")
    with start_blocking_portal() as portal:
        serving = portal.wrap_async_context_manager(postgres_server(folder, settings={"fsync": "off"}))
        with serving as server:
            yield Postgres(server, portal)


@pytest.fixture
async def settings(postgres: Postgres) -> PostgresSettings:
    """Where this test's own, empty database is."""
    return await postgres.fresh_database()


@pytest.fixture
async def history(settings: PostgresSettings) -> AsyncIterator[PostgresHistory]:
    """A history in this test's own database."""
    history = PostgresHistory(settings)
    yield history
    await history.aclose()
