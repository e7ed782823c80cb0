"""The archive of logs against a real S3 server: the same bytes again, over every interruption."""

import gzip
import hashlib
import random
import subprocess
import sys
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from magos.api.names import JobType
from magos.history.archive import LIMIT, TRUNCATED, ArchiveUnavailable, LogNotFound, log_key
from magos.history.s3 import S3Archive
from magos.local.ports import free_ports
from magos.local.servers.objectstore import ObjectStore, object_store
from tests.e2e.archive.conftest import READER, archive_of

pytestmark = pytest.mark.anyio

MIB = 1 << 20
BLOCK = random.Random(7).randbytes(MIB - 1).replace(b"\n", b"_") + b"\n"
"""A megabyte that does not get smaller, and ends a line."""


def key(run: str) -> str:
    return log_key("shop", "web", run, JobType.PLAN)


async def log_of(size: int, chunk: int = 100_000) -> AsyncIterator[bytes]:
    """A log of ``size`` bytes; every megabyte of it is the same."""
    for start in range(0, size, MIB):
        block = BLOCK[: size - start]
        for at in range(0, len(block), chunk):
            yield block[at : at + chunk]


async def read(archive: S3Archive, name: str) -> tuple[int, str]:
    """Return length and digest of a stored log."""
    digest, size = hashlib.sha256(), 0
    async with archive.open(name) as chunks:
        async for chunk in chunks:
            digest.update(chunk)
            size += len(chunk)
    return size, digest.hexdigest()


async def expected(size: int, *, truncated: bool = False) -> tuple[int, str]:
    digest = hashlib.sha256()
    async for chunk in log_of(size, MIB):
        digest.update(chunk)
    if truncated:
        digest.update(TRUNCATED)
    return size + (len(TRUNCATED) if truncated else 0), digest.hexdigest()


async def raw(archive: S3Archive, name: str) -> tuple[bytes, str, str]:
    """Return the object as it lies in the bucket: its bytes and both content headers."""
    answer = await archive.call("read", "get_object", {"Key": name})
    async with answer["Body"] as body:
        return await body.read(), answer["ContentType"], answer["ContentEncoding"]


async def uploads(archive: S3Archive) -> list[str]:
    found = await archive.call("list", "list_multipart_uploads", {}, absent=("NoSuchBucket",))
    return [upload["Key"] for upload in found.get("Uploads") or ()]


@pytest.mark.parametrize("size", [0, 2000, 30 * MIB, LIMIT])
async def test_a_log_comes_back_as_it_was_stored(store: ObjectStore, size: int) -> None:
    async with archive_of(store, "sizes") as archive:
        stored = await archive.store(key("r1"), log_of(size))
        assert (stored.size, stored.truncated) == (size, False)
        assert await read(archive, key("r1")) == await expected(size)
        assert await uploads(archive) == []


async def test_a_log_over_the_limit_ends_with_the_line_that_says_so(store: ObjectStore) -> None:
    async with archive_of(store, "over") as archive:
        stored = await archive.store(key("r1"), log_of(LIMIT + 1))
        assert (stored.size, stored.truncated) == (LIMIT + len(TRUNCATED), True)
        assert await read(archive, key("r1")) == await expected(LIMIT, truncated=True)


async def test_storing_a_log_again_gives_the_same_object_however_it_arrives(store: ObjectStore) -> None:
    async with archive_of(store, "again") as archive:
        for size in (3000, 12 * MIB):
            await archive.store(key("r1"), log_of(size, 1000))
            first = await raw(archive, key("r1"))
            await archive.store(key("r1"), log_of(size, 77_777))
            assert await raw(archive, key("r1")) == first
            assert first[1:] == ("text/plain", "gzip")
            assert len(gzip.decompress(first[0])) == size


async def test_memory_does_not_grow_with_the_log(store: ObjectStore) -> None:
    async with archive_of(store, "memory") as archive:
        await archive.store(key("r0"), log_of(MIB))  # loads the library
        tracemalloc.start()
        try:
            await archive.store(key("r1"), log_of(45 * MIB))
            _, storing = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            await read(archive, key("r1"))
            _, reading = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert storing < 40 * MIB, "a log is held as a whole"
        assert reading < 15 * MIB


async def test_an_error_of_the_source_comes_out_and_leaves_nothing(store: ObjectStore) -> None:
    async def breaks(after: int) -> AsyncIterator[bytes]:
        async for chunk in log_of(after):
            yield chunk
        raise ConnectionResetError("the pod is gone")

    async with archive_of(store, "broken") as archive:
        for size in (1000, 12 * MIB):
            with pytest.raises(ConnectionResetError, match="the pod is gone"):
                await archive.store(key("r1"), breaks(size))
            assert await uploads(archive) == []
            with pytest.raises(LogNotFound, match="has no log"):
                await read(archive, key("r1"))


async def test_a_cancelled_upload_is_aborted(store: ObjectStore) -> None:
    begun = anyio.Event()

    async def stalls() -> AsyncIterator[bytes]:
        async for chunk in log_of(12 * MIB):
            yield chunk
        begun.set()
        await anyio.sleep_forever()

    async with archive_of(store, "cancelled") as archive:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(archive.store, key("r1"), stalls())
            await begun.wait()
            assert await uploads(archive) == [key("r1")]
            tasks.cancel_scope.cancel()
        assert await uploads(archive) == []


async def test_a_server_that_is_killed_during_an_upload_leaves_nothing_once_the_log_is_stored_again(
    tmp_path: Path,
) -> None:
    async with object_store(tmp_path) as own, archive_of(own, "killed") as archive:

        async def killed_within() -> AsyncIterator[bytes]:
            async for chunk in log_of(12 * MIB):
                yield chunk
            await own.kill()
            yield BLOCK * 6

        with pytest.raises(ArchiveUnavailable, match="cannot be reached"):
            await archive.store(key("r1"), killed_within())
        await own.start()
        assert await uploads(archive) == [key("r1")]
        await archive.store(key("r1"), log_of(12 * MIB))
        assert await uploads(archive) == []
        assert await read(archive, key("r1")) == await expected(12 * MIB)


async def test_deleted_logs_are_gone_and_absent_ones_count_as_deleted(store: ObjectStore) -> None:
    async with archive_of(store, "deleted") as archive:
        await archive.delete([key("absent")])  # not even the bucket is there
        for run in ("r1", "r2", "r3"):
            await archive.store(key(run), log_of(100))
        await archive.delete([key("r1"), key("r2"), *(key(f"absent-{number}") for number in range(1500))])
        await archive.delete([])
        for run in ("r1", "r2"):
            with pytest.raises(LogNotFound):
                await read(archive, key(run))
        assert await read(archive, key("r3")) == await expected(100)


async def test_an_object_that_is_no_log_is_an_error_with_the_next_step(store: ObjectStore) -> None:
    async with archive_of(store, "foreign") as archive:
        await archive.store(key("r1"), log_of(100))
        await archive.call("write", "put_object", {"Key": key("r1"), "Body": b"not gzip"})
        with pytest.raises(ArchiveUnavailable, match=r"not a gzip stream.*; delete the object"):
            await read(archive, key("r1"))


async def refusal(archive: S3Archive) -> str:
    """Return what storing is refused with; no key is in it or in what it came from."""
    with pytest.raises(ArchiveUnavailable) as caught:
        await archive.store(key("r1"), log_of(100))
    for secret in ("wrong-secret", READER.secret_key):
        assert secret not in f"{caught.value} {caught.value.__cause__}"
    return str(caught.value)


async def test_what_the_server_refuses_is_told_with_its_cause_and_the_next_step(store: ObjectStore) -> None:
    reader = {"access_key": READER.access_key, "secret_key": READER.secret_key}
    where = f'in the bucket "logs" at 127.0.0.1:{store.port}'
    async with archive_of(store, "logs") as archive:
        await archive.store(key("r0"), log_of(100))
    async with archive_of(store, "logs", secret_key="wrong-secret") as archive:
        text = await refusal(archive)
        assert f"cannot store a log {where}: the credentials are not accepted" in text
        assert "MAGOS_LOGS_S3_SECRET_ACCESS_KEY" in text
    async with archive_of(store, "logs", **reader) as archive:
        assert "it is not allowed" in await refusal(archive)
        assert await read(archive, key("r0")) == await expected(100)
    async with archive_of(store, "absent", **reader) as archive:
        assert "it is not allowed" in await refusal(archive)


async def test_a_server_that_is_down_is_an_error_within_seconds(store: ObjectStore) -> None:
    [port] = await anyio.to_thread.run_sync(free_ports, 1)
    async with archive_of(store, "logs", endpoint=f"http://127.0.0.1:{port}") as archive:
        with anyio.fail_after(30):
            text = await refusal(archive)
    assert f"127.0.0.1:{port}" in text
    assert "cannot be reached" in text


async def test_a_server_that_says_nothing_is_an_error_in_bounded_time(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("magos.history.s3.CALL_SECONDS", 1.0)

    async def silent(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await anyio.sleep_forever()

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610 - no Django
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, silent)
        async with archive_of(store, "logs", endpoint=f"http://127.0.0.1:{port}") as archive:
            assert "does not answer in time" in await refusal(archive)
        tasks.cancel_scope.cancel()


def test_the_library_is_loaded_only_when_a_log_is_stored() -> None:
    code = (
        "import sys, magos.history.s3, magos.history.s3settings as s\n"
        "magos.history.s3.S3Archive(s.S3Settings(endpoint='http://127.0.0.1:1'))\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('aiobotocore', 'botocore', 'aiohttp')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
