"""What the archive asks of a bucket, and in which order: the bucket is written down here."""

import asyncio
import gzip
import random
from collections.abc import AsyncIterator, Collection
from typing import Any

import pytest

from magos.history.archive import ArchiveUnavailable, LogArchive
from magos.history.logformat import PART_BYTES
from magos.history.s3 import S3Archive
from magos.history.s3settings import S3Settings

NOISE = random.Random(3).randbytes(PART_BYTES * 2 + 100_000)
KEY = "run-logs/shop/web/r1/plan.log.gz"


class Bucket(S3Archive):
    """An archive whose calls end here. Calls named in ``broken`` fail."""

    def __init__(self, *broken: str) -> None:
        super().__init__(S3Settings(endpoint="http://s3.example"))
        self.broken = broken
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.objects: dict[str, bytes] = {}
        self.uploads: dict[str, tuple[str, list[bytes]]] = {}

    async def call(
        self, what: str, name: str, arguments: dict[str, Any], *, absent: Collection[str] = (), create: bool = False
    ) -> dict[str, Any]:
        self.asked.append((name, arguments))
        assert create == (name in ("put_object", "create_multipart_upload"))
        if name in self.broken:
            raise ArchiveUnavailable(f"{what}: {name} fails; absent: {absent}")
        answer: dict[str, Any] = await getattr(self, f"_{name}")(**arguments)
        return answer

    async def _list_multipart_uploads(self, Prefix: str, MaxUploads: int) -> Any:  # noqa: N803, ARG002
        found = [{"Key": key, "UploadId": upload} for upload, (key, _) in self.uploads.items()]
        return {"Uploads": [upload for upload in found if upload["Key"].startswith(Prefix)]}

    async def _create_multipart_upload(self, Key: str, **headers: str) -> Any:  # noqa: N803
        assert headers == {"ContentType": "text/plain", "ContentEncoding": "gzip"}
        self.uploads[f"u{len(self.asked)}"] = (Key, [])
        return {"UploadId": f"u{len(self.asked)}"}

    async def _upload_part(self, Key: str, UploadId: str, PartNumber: int, Body: bytes) -> Any:  # noqa: N803
        key, parts = self.uploads[UploadId]
        assert (key, len(parts) + 1) == (Key, PartNumber)
        parts.append(Body)
        return {"ETag": f"e{PartNumber}"}

    async def _complete_multipart_upload(self, Key: str, UploadId: str, MultipartUpload: Any) -> Any:  # noqa: N803
        _, parts = self.uploads.pop(UploadId)
        numbers = [{"PartNumber": number, "ETag": f"e{number}"} for number in range(1, len(parts) + 1)]
        assert MultipartUpload == {"Parts": numbers}
        self.objects[Key] = b"".join(parts)
        return {}

    async def _put_object(self, Key: str, Body: bytes, **headers: str) -> Any:  # noqa: N803
        assert headers == {"ContentType": "text/plain", "ContentEncoding": "gzip"}
        self.objects[Key] = Body
        return {}

    async def _abort_multipart_upload(self, Key: str, UploadId: str) -> Any:  # noqa: N803
        key, _ = self.uploads.pop(UploadId)
        assert key == Key
        return {}

    async def _delete_objects(self, Delete: Any) -> Any:  # noqa: N803
        for item in Delete["Objects"]:
            self.objects.pop(item["Key"], None)
        return {}


def log_of(content: bytes, fails: Exception | None = None) -> AsyncIterator[bytes]:
    async def chunks() -> AsyncIterator[bytes]:
        for at in range(0, len(content), 50_000):
            yield content[at : at + 50_000]
        if fails is not None:
            raise fails

    return chunks()


def test_a_small_log_is_one_object_in_one_request_and_a_large_one_an_upload() -> None:
    async def main() -> None:
        bucket = Bucket()
        archive: LogArchive = bucket
        for content in (b"", b"terraform\n" * 1000, NOISE):
            stored = await archive.store(KEY, log_of(content))
            assert (stored.size, stored.truncated) == (len(content), False)
            assert gzip.decompress(bucket.objects[KEY]) == content
        names = [name for name, _ in bucket.asked]
        parts = ["create_multipart_upload", *["upload_part"] * 3, "complete_multipart_upload"]
        assert names == [*["list_multipart_uploads", "put_object"] * 2, "list_multipart_uploads", *parts]
        await bucket.aclose()

    asyncio.run(main())


@pytest.mark.parametrize("content", [b"small", NOISE])
def test_an_error_of_the_source_comes_out_as_it_is_and_leaves_neither_object_nor_upload(content: bytes) -> None:
    async def main() -> None:
        bucket = Bucket()
        with pytest.raises(KeyError, match="the pod"):
            await bucket.store(KEY, log_of(content, KeyError("the pod")))
        assert (bucket.objects, bucket.uploads) == ({}, {})
        await bucket.aclose()

    asyncio.run(main())


@pytest.mark.parametrize("broken", ["create_multipart_upload", "upload_part", "complete_multipart_upload"])
def test_an_upload_that_fails_anywhere_is_aborted(broken: str) -> None:
    async def main() -> None:
        bucket = Bucket(broken)
        with pytest.raises(ArchiveUnavailable, match=f"store a log: {broken} fails"):
            await bucket.store(KEY, log_of(NOISE))
        assert (bucket.objects, bucket.uploads) == ({}, {})
        await bucket.aclose()

    asyncio.run(main())


def test_what_a_crash_left_of_a_log_is_aborted_before_it_is_stored_and_no_upload_of_another_log() -> None:
    async def main() -> None:
        bucket = Bucket("upload_part", "abort_multipart_upload")
        with pytest.raises(ArchiveUnavailable, match="upload_part fails"):
            await bucket.store(KEY, log_of(NOISE))
        assert len(bucket.uploads) == 1, "the bucket was away when the upload should have been aborted"
        bucket.broken = ()
        other = bucket.uploads["other"] = (f"{KEY}.of-another", [])
        await bucket.store(KEY, log_of(b"short"))
        assert bucket.uploads == {"other": other}
        await bucket.aclose()

    asyncio.run(main())


def test_thousands_of_logs_are_deleted_in_batches() -> None:
    async def main() -> None:
        bucket = Bucket()
        keys = [f"key-{number:04}" for number in range(2500)]
        bucket.objects = dict.fromkeys([*keys, "kept"], b"")
        await bucket.delete([*keys, "key-0001"])
        assert list(bucket.objects) == ["kept"]
        assert [len(arguments["Delete"]["Objects"]) for _, arguments in bucket.asked] == [1000, 1000, 500]
        await bucket.aclose()

    asyncio.run(main())


@pytest.mark.parametrize(("code", "fails"), [("NoSuchKey", False), ("AccessDenied", True)])
def test_a_log_that_cannot_be_deleted_is_an_error_unless_it_is_gone(
    code: str, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(Delete: Any) -> Any:  # noqa: N803, ARG001
        return {"Errors": [{"Key": KEY, "Code": code, "Message": "because"}]}

    async def main() -> None:
        bucket = Bucket()
        monkeypatch.setattr(bucket, "_delete_objects", refused)
        if fails:
            with pytest.raises(ArchiveUnavailable, match=r"cannot delete 1 logs .* it is not allowed"):
                await bucket.delete([KEY])
        else:
            await bucket.delete([KEY])
        await bucket.aclose()

    asyncio.run(main())
