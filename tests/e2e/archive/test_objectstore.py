"""The S3 server of the one-machine mode: it keeps its data over a crash, and leaves nothing behind."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiobotocore.config import AioConfig
from aiobotocore.session import get_session
from botocore.exceptions import ClientError

from magos.local.servers.objectstore import ObjectStore, object_store

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def _client(store: ObjectStore, *, secret_key: str = "") -> AsyncIterator[Any]:
    config = AioConfig(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1})
    async with get_session().create_client(
        "s3",
        endpoint_url=store.endpoint,
        region_name="us-east-1",
        aws_access_key_id=store.access_key,
        aws_secret_access_key=secret_key or store.secret_key,
        config=config,
    ) as client:
        yield client


async def _content(store: ObjectStore) -> bytes:
    async with _client(store) as client:
        answer = await client.get_object(Bucket="kept", Key="a/b")
        content: bytes = await answer["Body"].read()
        return content


async def test_objects_survive_a_crash_and_a_start_on_other_ports(tmp_path: Path) -> None:
    content = os.urandom(100_000)
    async with object_store(tmp_path) as store:
        async with _client(store) as client:
            await client.create_bucket(Bucket="kept")
            await client.put_object(Bucket="kept", Key="a/b", Body=content)
        await store.kill()
        await store.start()
        assert await _content(store) == content
    async with object_store(tmp_path) as later:
        assert (later.access_key, later.secret_key) == (store.access_key, store.secret_key)
        assert await _content(later) == content


async def test_a_wrong_key_and_an_unknown_bucket_are_refused(tmp_path: Path) -> None:
    async with object_store(tmp_path) as store:
        async with _client(store, secret_key="wrong") as stranger:
            with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
                await stranger.list_buckets()
        async with _client(store) as client:
            with pytest.raises(ClientError, match="NoSuchBucket"):
                await client.put_object(Bucket="absent", Key="a", Body=b"")
