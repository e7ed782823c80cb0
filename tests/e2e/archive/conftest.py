"""One S3 server for all tests of the archive, with an identity that may only read one bucket."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import anyio.from_thread
import pytest

from magos.history.s3 import S3Archive
from magos.history.s3settings import S3Settings
from magos.local.servers.objectstore import Identity, ObjectStore, object_store

READER = Identity(name="reader", access_key="reader", secret_key="reader-secret", actions=("Read:logs", "List:logs"))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """A running server, whose process belongs to the thread of a loop of its own."""
    folder = tmp_path_factory.mktemp("objects")
    with (
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(object_store(folder, identities=[READER])) as running,
    ):
        yield running


def settings_of(store: ObjectStore, bucket: str, **changes: Any) -> S3Settings:
    values = {"endpoint": store.endpoint, "access_key": store.access_key, "secret_key": store.secret_key}
    return S3Settings(bucket=bucket, **{**values, **changes})


@asynccontextmanager
async def archive_of(store: ObjectStore, bucket: str, **changes: Any) -> AsyncIterator[S3Archive]:
    archive = S3Archive(settings_of(store, bucket, **changes))
    try:
        yield archive
    finally:
        await archive.aclose()
