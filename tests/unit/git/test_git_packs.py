"""Packs that are small to send and large to keep: judged by what they declare, before anything is inflated."""

import hashlib
import os
import struct
import tracemalloc
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from dulwich.object_store import DiskObjectStore
from dulwich.objects import ObjectID
from hypothesis import given
from hypothesis import strategies as st

from magos.bounds import GIT_INFLATED, GIT_OBJECT
from magos.git.budget import Budget, BudgetLimits
from magos.git.deadline import Deadline
from magos.git.errors import GitError
from magos.git.packs import IncomingPack, _declared, _delta_sizes
from magos.git.stores import Stores

URL = "https://example.org/r.git"
MIB = 1024**2
BLOB, OFS_DELTA = 3, 6


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DiskObjectStore]:
    with Stores(tmp_path) as stores:
        yield stores.create()


def number(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def head(kind: int, size: int) -> bytes:
    if size < 16:
        return bytes([kind << 4 | size])
    return bytes([kind << 4 | size & 15 | 128]) + number(size >> 4)


def entry(kind: int, content: bytes, *, declared: int | None = None, base: bytes = b"") -> bytes:
    return head(kind, len(content) if declared is None else declared) + base + zlib.compress(content)


def delta(base: int, result: int, copies: int) -> bytes:
    """Return a delta that copies its base from the beginning again and again."""
    return number(base) + number(result) + b"\x80" * copies


def pack(*entries: bytes) -> bytes:
    content = struct.pack(">4sLL", b"PACK", 2, len(entries)) + b"".join(entries)
    return content + hashlib.sha1(content, usedforsecurity=False).digest()


def take(store: DiskObjectStore, content: bytes, limits: BudgetLimits, seconds: float = 60.0) -> None:
    incoming = IncomingPack(store, Budget(limits), URL, Deadline(seconds, "fetching").check)
    incoming.write(content)
    try:
        incoming.commit()
    except BaseException:
        incoming.discard()
        raise


def refused(store: DiskObjectStore, content: bytes, limits: BudgetLimits) -> str:
    """Return why the pack is refused; nothing worth mentioning is inflated before."""
    tracemalloc.start()
    try:
        with pytest.raises(GitError) as caught:
            take(store, content, limits)
        assert tracemalloc.get_traced_memory()[1] < 3 * MIB
    finally:
        tracemalloc.stop()
    assert not list(Path(store.pack_dir).iterdir())
    return caught.value.message


def test_bound_git_object(store: DiskObjectStore) -> None:
    assert BudgetLimits().object == GIT_OBJECT.limit
    zeros = entry(BLOB, bytes(8 * MIB))
    assert "an object of 8 MiB, more than 7 MiB" in refused(store, pack(zeros), BudgetLimits(object=7 * MIB))
    take(store, pack(zeros), BudgetLimits(object=8 * MIB))


def test_bound_git_inflated(store: DiskObjectStore) -> None:
    assert BudgetLimits().inflated == GIT_INFLATED.limit
    zeros = [entry(BLOB, bytes(MIB)), *(entry(BLOB, bytes(MIB) + b"%d" % each) for each in range(20))]
    assert "2 MiB, inflated, of history" in refused(store, pack(*zeros), BudgetLimits(inflated=2 * MIB))
    take(store, pack(*zeros), BudgetLimits(inflated=22 * MIB))


def test_a_pack_of_a_megabyte_is_refused_before_it_is_gigabytes(store: DiskObjectStore) -> None:
    """Nobody can make what is declared here: it would be inflated to the end only to find that out."""
    said = refused(store, pack(entry(BLOB, bytes(MIB), declared=2**31)), BudgetLimits())
    assert "an object of 2,048 MiB" in said
    assert "keep large files out" in said


def test_what_a_chain_of_deltas_makes_is_counted_before_it_is_made(store: DiskObjectStore) -> None:
    """Each delta is a few bytes and makes its base sixteen times over."""
    size, entries = 65536, [entry(BLOB, os.urandom(65536))]
    for _ in range(3):
        content = delta(size, size * 16, 16) if size == 65536 else delta(size, size * 16, size * 16 // 65536)
        place = len(entries[-1])
        back = [place & 127]
        while place := (place >> 7):
            place -= 1
            back.insert(0, place & 127 | 128)
        entries.append(entry(OFS_DELTA, content, base=bytes(back)))
        size *= 16
    assert "more than 100 MiB" in refused(store, pack(*entries), BudgetLimits(object=100 * MIB))
    assert "MiB, inflated" in refused(store, pack(*entries), BudgetLimits(inflated=10 * MIB))
    take(store, pack(*entries[:2]), BudgetLimits(object=2 * MIB))
    made = next(iter({bytes(sha) for sha in store} - {b""}))
    assert store.get_raw(ObjectID(made))[0] == BLOB


def test_a_delta_that_does_not_say_what_it_makes_is_damage(store: DiskObjectStore) -> None:
    from dulwich.errors import ApplyDeltaError

    for content in (b"", b"\x80", b"\x01", b"\x80" * 30):
        with pytest.raises(ApplyDeltaError):
            take(store, pack(entry(BLOB, b"x"), entry(OFS_DELTA, content, base=b"\x0a")), BudgetLimits())


def test_the_time_of_a_fetch_covers_what_is_done_with_the_pack(store: DiskObjectStore) -> None:
    incoming = IncomingPack(store, Budget(), URL, Deadline(0.0, "fetching").check)
    incoming.write(pack(entry(BLOB, b"x")))
    with pytest.raises(GitError, match="took longer"):
        incoming.commit()


@given(st.integers(1, 7), st.integers(0, 2**60), st.integers(0, 2**60), st.binary(max_size=5))
def test_declared_sizes_are_read_as_they_are_written(kind: int, size: int, other: int, rest: bytes) -> None:
    assert _declared((head(kind, size) + rest)[:10]) == size
    assert _delta_sizes(number(size) + number(other) + rest) == (size, other)
