"""Unpacking: what was packed comes out to the byte, and an archive that lies about itself is refused."""

import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magos.toolchain.archive import unpack
from magos.toolchain.errors import ToolError

_HEAD, _CENTRAL = b"PK\3\4", b"PK\1\2"
_CRC, _FILE_SIZE = 16, 24
"""Where a record of the directory keeps them (APPNOTE.TXT 4.3.12)."""
_LEAST = 3 << 20

contents = st.binary(max_size=1 << 12).flatmap(
    lambda data: st.sampled_from([data, data * 1000, os.urandom(64) * 40_000 + data])
)


def packed(path: Path, content: bytes, method: int = zipfile.ZIP_DEFLATED, level: int = 6, extra: bytes = b"") -> Path:
    with zipfile.ZipFile(path, "w", method, compresslevel=level) as archive:
        entry = zipfile.ZipInfo("tofu")
        entry.compress_type, entry.extra = method, extra
        archive.writestr(entry, content)
        archive.writestr("docs/README.md", b"about", method, level)
    return path


@given(content=contents, method=st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]), level=st.integers(0, 9))
def test_what_was_packed_comes_out_to_the_byte(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, method: int, level: int
) -> None:
    folder = tmp_path_factory.mktemp("packed")
    archive = packed(folder / "a.zip", content, method, level, extra=b"\xfe\xca\x04\x00abcd")
    tool = unpack(archive, "tofu", folder / "out")
    assert tool.read_bytes() == content
    assert (folder / "out" / "docs" / "README.md").read_bytes() == b"about"
    assert os.access(tool, os.X_OK)


def _field(at: int, value: int) -> Callable[[bytes], bytes]:
    """Return what writes ``value`` into the first record of the directory."""

    def change(archive: bytes) -> bytes:
        place = archive.index(_CENTRAL) + at
        return archive[:place] + value.to_bytes(4, "little") + archive[place + 4 :]

    return change


def _flip_data(archive: bytes) -> bytes:
    middle = archive.index(_CENTRAL) // 2
    return archive[:middle] + bytes([archive[middle] ^ 0xFF]) + archive[middle + 1 :]


def _encrypted(archive: bytes) -> bytes:
    place = archive.index(_CENTRAL) + 8
    return archive[:place] + bytes([archive[place] | 1]) + archive[place + 1 :]


def _unknown_method(archive: bytes) -> bytes:
    place = archive.index(_CENTRAL) + 10
    return archive[:place] + (14).to_bytes(2, "little") + archive[place + 2 :]


def _not_utf8(archive: bytes) -> bytes:
    place = archive.index(_CENTRAL)
    flags = int.from_bytes(archive[place + 8 : place + 10], "little") | 0x800
    named = archive[: place + 8] + flags.to_bytes(2, "little") + archive[place + 10 :]
    return named[: place + 46] + b"\xff" + named[place + 47 :]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(_field(_CRC, 1), id="another checksum"),
        pytest.param(_field(_FILE_SIZE, _LEAST - 1), id="one byte less"),
        pytest.param(_field(_FILE_SIZE, _LEAST + 1), id="one byte more"),
        pytest.param(_flip_data, id="damaged data"),
        pytest.param(_encrypted, id="encrypted"),
        pytest.param(_unknown_method, id="packed by LZMA"),
        pytest.param(lambda archive: archive.replace(_HEAD, b"PK\3\5"), id="no entry where the directory says"),
        pytest.param(lambda archive: archive[:-40], id="cut"),
        pytest.param(_field(6, 0xFFFF), id="of a later version"),
        pytest.param(_not_utf8, id="a name that is no text"),
    ],
)
def test_an_archive_that_lies_about_itself_is_refused(tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
    archive = packed(tmp_path / "a.zip", os.urandom(_LEAST))
    archive.write_bytes(change(archive.read_bytes()))
    with pytest.raises(ToolError, match=r"archive a\.zip .*check the mirror"):
        unpack(archive, "tofu", tmp_path / "out")


def test_an_entry_is_never_inflated_beyond_what_it_declares(tmp_path: Path) -> None:
    archive = packed(tmp_path / "a.zip", bytes(200 << 20), level=9)
    archive.write_bytes(_field(_FILE_SIZE, 10)(archive.read_bytes()))
    with pytest.raises(ToolError, match="not what the directory"):
        unpack(archive, "tofu", tmp_path / "out")
    assert (tmp_path / "out" / "tofu").stat().st_size <= 10
