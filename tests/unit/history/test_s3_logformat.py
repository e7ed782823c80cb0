"""What is stored of a log: its bytes, its cut, and that nothing of how it arrived shows."""

import gzip
import random
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magos.history.archive import LIMIT, TRUNCATED
from magos.history.logformat import PART_BYTES, READ_LIMIT, Cut, Packer, Unpacker

MIB = 1 << 20


def cut(content: bytes, limit: int, size: int) -> tuple[bytes, Cut]:
    cutter = Cut(limit)
    passed = b"".join(cutter.feed(content[at : at + size]) for at in range(0, len(content), size))
    return passed + cutter.finish(), cutter


@given(st.lists(st.binary(max_size=9), max_size=20), st.integers(1, 60), st.integers(1, 30))
def test_a_log_is_cut_at_the_last_line_that_ends_within_the_limit(lines: list[bytes], limit: int, size: int) -> None:
    content = b"\n".join(lines)
    result, cutter = cut(content, limit, size)
    assert cutter.size == len(result)
    assert cutter.truncated == (len(content) > limit)
    if not cutter.truncated:
        assert result == content
        return
    kept = content[: content.rfind(b"\n", 0, limit) + 1]
    assert result == kept + TRUNCATED


def test_the_limit_itself_still_fits() -> None:
    content = b"x" * (MIB - 1) + b"\n"
    for length, truncated in ((50 * MIB, False), (50 * MIB + 1, True)):
        cutter = Cut()
        size = 0
        for at in range(0, length, MIB):
            size += len(cutter.feed(content[: length - at]))
        size += len(cutter.finish())
        assert (cutter.truncated, cutter.size) == (truncated, size)
        assert size == LIMIT + (len(TRUNCATED) if truncated else 0)


def test_a_line_longer_than_the_limit_is_cut_and_the_notice_stands_on_a_line_of_its_own() -> None:
    cutter = Cut()
    last = b""
    for _ in range(60):
        last = cutter.feed(b"x" * MIB) or last
    assert last.endswith(b"x")
    assert cutter.finish().endswith(b"\n" + TRUNCATED)
    assert cutter.truncated


def packed(content: bytes, sizes: list[int]) -> list[bytes]:
    packer, parts, at = Packer(), [], 0
    for size in sizes:
        parts += packer.feed(content[at : at + size])
        at += size
    parts += packer.feed(content[at:])
    return parts + packer.finish()


NOISE = random.Random(1).randbytes(11 * MIB)


def test_parts_have_one_size_but_the_last_and_no_time_is_in_them() -> None:
    parts = packed(NOISE, [])
    assert [len(part) for part in parts[:-1]] == [PART_BYTES] * 2
    assert gzip.decompress(b"".join(parts)) == NOISE
    assert parts[0][4:8] == bytes(4)


@given(st.lists(st.integers(0, 700_000), max_size=6))
def test_how_a_log_arrives_does_not_show_in_what_is_stored(sizes: list[int]) -> None:
    content = NOISE[:300_000] + b"terraform says hello\n" * 40_000
    assert packed(content, sizes) == packed(content, [])


def test_how_a_log_arrives_does_not_show_where_it_is_cut_within_a_long_line() -> None:
    begins = LIMIT - MIB - 100_000
    content = (b"x" * 999 + b"\n") * (begins // 1000) + b"y" * (2 * MIB)
    whole = packed(content, [])
    assert TRUNCATED in gzip.decompress(b"".join(whole))[-200:]
    assert packed(content, [100_000]) == whole


def test_an_empty_log_is_one_part() -> None:
    [part] = packed(b"", [])
    assert gzip.decompress(part) == b""


def unpacked(content: bytes, size: int) -> bytes:
    unpacker, found = Unpacker(), bytearray()
    for at in range(0, len(content), size):
        unpacker.feed(content[at : at + size])
        while block := unpacker.block():
            found += block
        if unpacker.full:
            break
    unpacker.finish()
    return bytes(found)


@pytest.mark.parametrize("length", [0, 1, 256 << 10, (256 << 10) + 1, 3 << 20])
@pytest.mark.parametrize("size", [1000, 65_536, 1 << 24])
def test_what_is_stored_is_read_again(length: int, size: int) -> None:
    for content in (NOISE[:length], bytes(length)):
        assert unpacked(b"".join(packed(content, [])), size) == content


@pytest.mark.parametrize(
    "broken", [b"", b"no gzip", gzip.compress(NOISE[:90_000], mtime=0)[:-9], gzip.compress(b"x", mtime=0)[:5]]
)
def test_what_is_no_whole_gzip_stream_is_an_error(broken: bytes) -> None:
    with pytest.raises(ValueError, match="gzip stream"):
        unpacked(broken, 1000)


def test_a_gzip_bomb_is_not_read_to_its_end() -> None:
    bomb = zlib.compressobj(9, zlib.DEFLATED, 31)
    content = b"".join(bomb.compress(bytes(MIB)) for _ in range(200)) + bomb.flush()
    unpacker, size = Unpacker(), 0
    unpacker.feed(content)
    tracemalloc.start()
    while block := unpacker.block():
        size += len(block)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert READ_LIMIT < size < READ_LIMIT + MIB
    assert peak < 2 * MIB
    unpacker.finish()
