"""The archive of logs in an S3-compatible bucket (spec §8.3). It stands for ``archive.LogArchive``.

1. A log is stored in constant memory: cut, compressed in a thread, and sent in parts. A small one is one request.
2. Storing a log again gives an object of the same bytes. Until an upload is complete, nobody sees any of it.
3. An upload that fails is aborted. One that a crash left behind is aborted when its log is stored again.
4. Every call is bounded in time and attempts, and ends as ``ArchiveUnavailable`` if the bucket cannot be used.

The library for S3 is loaded with the first call, in a thread.
"""

import asyncio
import importlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager
from typing import Any, Final, TypeVar

import anyio
import structlog

from magos.history.archive import ArchiveUnavailable, LogNotFound, StoredLog
from magos.history.logformat import Packer, Unpacker
from magos.history.s3settings import DEFAULT_REGION, S3Settings
from magos.history.s3trouble import NO_BUCKET, code_of, translated, unusable

_T = TypeVar("_T")

CONNECT_SECONDS: Final = 5.0
READ_SECONDS: Final = 30.0
CALL_SECONDS: Final = 120.0
"""Bounds one call with all its attempts: a server may also take what it is sent too slowly."""

ATTEMPTS: Final = 3
_ABORT_SECONDS: Final = 15.0
_BATCH: Final = 1000
"""Keys that one request may delete."""

_READ_BYTES: Final = 64 << 10
_PACK_BYTES: Final = 256 << 10
"""Bytes that are compressed at once: enough for the change of threads not to count."""

_THREADS: Final = 2
_LACKING: Final = ("NotImplemented", "MethodNotAllowed", "501", "405")
"""How a server says that it does not have a call."""

_log = structlog.get_logger("magos.history.s3")


class S3Archive:
    """Keeps logs in a bucket, which is created when it is missed. Close it with ``aclose``."""

    def __init__(self, settings: S3Settings) -> None:
        self._settings = settings
        self._stack = AsyncExitStack()
        self._opening = asyncio.Lock()
        self._session: Any = None
        self._opened: Any = None
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="log archive")

    async def aclose(self) -> None:
        """Close the connections; afterwards the archive cannot be used."""
        await self._stack.aclose()
        self._threads.shutdown(wait=False)

    async def store(self, key: str, chunks: AsyncIterator[bytes]) -> StoredLog:
        """Store a log, in constant memory; see ``LogArchive``. Behind the limit ``chunks`` is not read on."""
        await self._abort_leftovers(key)
        packer, upload = Packer(), _Upload(self, key)
        try:
            async with aclosing(_batches(chunks)) as batches:
                async for batch in batches:
                    for part in await self._in_thread(packer.feed, batch):
                        await upload.send(part)
                    if packer.truncated:
                        break
            await upload.complete(await self._in_thread(packer.finish))
        except BaseException:
            await upload.abort()
            raise
        return StoredLog(size=packer.size, truncated=packer.truncated)

    def open(self, key: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a stored log; it is yielded decompressed, in chunks. Raises ``LogNotFound``."""
        return self._open(key)

    async def delete(self, keys: Collection[str]) -> None:
        """Delete logs; one that does not exist counts as deleted."""
        ordered = sorted(set(keys))
        for start in range(0, len(ordered), _BATCH):
            batch = ordered[start : start + _BATCH]
            what = f"delete {len(batch)} logs"
            request = {"Objects": [{"Key": key} for key in batch], "Quiet": True}
            answer = await self.call(what, "delete_objects", {"Delete": request}, absent=(NO_BUCKET,))
            for error in answer.get("Errors", ()):
                if error.get("Code") != "NoSuchKey":
                    from botocore.exceptions import ClientError

                    with translated(self._settings, what):
                        raise ClientError({"Error": error}, "DeleteObjects")

    async def call(
        self, what: str, name: str, arguments: dict[str, Any], *, absent: Collection[str] = (), create: bool = False
    ) -> dict[str, Any]:
        """Make one call to the bucket; an error code in ``absent`` gives an empty answer.

        With ``create`` a bucket that does not exist is created, and the call made again.
        """
        session = await self._library()
        from botocore.exceptions import ClientError

        with translated(self._settings, what):
            async with asyncio.timeout(CALL_SECONDS):
                client = await self._client(session)
                try:
                    return await self._ask(client, name, arguments)
                except ClientError as error:
                    code = code_of(error)
                    if code in absent:
                        return {}
                    if not (create and code == NO_BUCKET):
                        raise
                await self._create_bucket(client)
                return await self._ask(client, name, arguments)

    async def _ask(self, client: Any, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = await getattr(client, name)(Bucket=self._settings.bucket, **arguments)
        return answer

    async def _create_bucket(self, client: Any) -> None:
        from botocore.exceptions import ClientError

        region = self._settings.region
        elsewhere = {} if region == DEFAULT_REGION else {"CreateBucketConfiguration": {"LocationConstraint": region}}
        try:
            await self._ask(client, "create_bucket", elsewhere)
        except ClientError as error:
            if code_of(error) not in ("BucketAlreadyOwnedByYou", "BucketAlreadyExists"):
                raise
        else:
            _log.info("created the bucket of logs", bucket=self._settings.bucket, host=self._settings.host)

    async def _abort_leftovers(self, key: str) -> None:
        """Abort the uploads of this log that a crash left: nobody else would, and they take up room unseen."""
        arguments = {"Prefix": key, "MaxUploads": 100}
        found = await self.call("store a log", "list_multipart_uploads", arguments, absent=(NO_BUCKET, *_LACKING))
        for upload in found.get("Uploads") or ():
            if upload["Key"] == key:
                await self.abort(key, upload["UploadId"])

    async def abort(self, key: str, upload: str) -> None:
        """Abort an upload; one that does not exist counts as aborted."""
        arguments = {"Key": key, "UploadId": upload}
        await self.call("abort an upload", "abort_multipart_upload", arguments, absent=("NoSuchUpload", NO_BUCKET))

    @asynccontextmanager
    async def _open(self, key: str) -> AsyncIterator[AsyncIterator[bytes]]:
        answer = await self.call("read a log", "get_object", {"Key": key}, absent=("NoSuchKey", NO_BUCKET, "404"))
        if not answer:
            where = f'the bucket "{self._settings.bucket}" at {self._settings.host}'
            raise LogNotFound(f"{where} has no log {key}; it was not stored, or retention has deleted it")
        async with answer["Body"] as body:
            yield self._unpacked(key, body)

    async def _unpacked(self, key: str, body: Any) -> AsyncIterator[bytes]:
        unpacker = Unpacker()
        try:
            while not unpacker.full:
                with translated(self._settings, "read a log"):
                    async with asyncio.timeout(READ_SECONDS):
                        chunk = await body.read(_READ_BYTES)
                if not chunk:
                    break
                unpacker.feed(chunk)
                while block := await self._in_thread(unpacker.block):
                    yield block
            unpacker.finish()
        except ValueError as error:
            step = "delete the object; the log itself is lost"
            raise unusable(self._settings, f"read the log {key}", str(error), step) from error

    async def _library(self) -> Any:
        """Load the library in a thread; what is imported of it afterwards is there already."""
        async with self._opening:
            if self._session is None:
                self._session = await self._in_thread(_load)
            return self._session

    async def _client(self, session: Any) -> Any:
        async with self._opening:
            if self._opened is None:
                self._opened = await self._stack.enter_async_context(_new_client(session, self._settings))
            return self._opened

    async def _in_thread(self, function: Callable[..., _T], *arguments: Any) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)


class _Upload:
    """One object on its way into the bucket: one request if it has a single part, else a multipart upload."""

    def __init__(self, archive: S3Archive, key: str) -> None:
        self._archive = archive
        self._key = key
        self._id = ""
        self._parts: list[dict[str, Any]] = []

    async def send(self, part: bytes) -> None:
        """Send a part, of the size that all but the last one have."""
        if not self._id:
            begun = await self._call("create_multipart_upload", {"Key": self._key, **_HEADERS}, create=True)
            self._id = begun["UploadId"]
        number = len(self._parts) + 1
        arguments = {"Key": self._key, "UploadId": self._id, "PartNumber": number, "Body": part}
        answer = await self._call("upload_part", arguments)
        self._parts.append({"PartNumber": number, "ETag": answer["ETag"]})

    async def complete(self, parts: list[bytes]) -> None:
        """Send the last parts and make the object."""
        if not self._id and len(parts) == 1:
            await self._call("put_object", {"Key": self._key, "Body": parts[0], **_HEADERS}, create=True)
            return
        for part in parts:
            await self.send(part)
        arguments = {"Key": self._key, "UploadId": self._id, "MultipartUpload": {"Parts": self._parts}}
        await self._call("complete_multipart_upload", arguments)
        self._id = ""

    async def abort(self) -> None:
        """Abort what was begun, also if the caller is cancelled; if the bucket is away, the next store does it."""
        if not self._id:
            return
        cause = f"no answer within {_ABORT_SECONDS:g} s"
        with anyio.move_on_after(_ABORT_SECONDS, shield=True):
            try:
                await self._archive.abort(self._key, self._id)
            except ArchiveUnavailable as error:
                cause = str(error)
            else:
                return
        _log.warning("an upload could not be aborted; the next attempt to store its log does it", error=cause)

    async def _call(self, name: str, arguments: dict[str, Any], *, create: bool = False) -> dict[str, Any]:
        return await self._archive.call("store a log", name, arguments, create=create)


_HEADERS: Final = {"ContentType": "text/plain", "ContentEncoding": "gzip"}


async def _batches(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Gather small chunks, so that threads are not changed for each."""
    batch = bytearray()
    async for chunk in chunks:
        batch += chunk
        if len(batch) >= _PACK_BYTES:
            yield bytes(batch)
            batch.clear()
    if batch:
        yield bytes(batch)


def _load() -> Any:
    """Load the library and its description of S3, which takes some 100 ms."""
    for name in ("aiobotocore.config", "aiohttp", "botocore.exceptions"):
        importlib.import_module(name)
    from aiobotocore.session import get_session

    session = get_session()
    session.get_component("data_loader").load_service_model("s3", "service-2")
    return session


def _new_client(session: Any, settings: S3Settings) -> Any:
    from aiobotocore.config import AioConfig

    config = AioConfig(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS,
        retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
        s3={"addressing_style": "path" if settings.path_style else "virtual"},
        # Servers other than AWS often refuse the checksums that are sent by default.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    return session.create_client(
        "s3",
        endpoint_url=settings.endpoint,
        region_name=settings.region,
        aws_access_key_id=settings.access_key or None,
        aws_secret_access_key=settings.secret_key or None,
        verify=settings.ca_file or None,
        config=config,
    )
