"""Unpack a verified zip archive without leaving the destination (spec §7.3)."""

import os
import stat
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast

from isal import isal_zlib

from magos.toolchain.errors import ToolError, ToolReason

_LARGEST = 2 * 1024**3
_MOST_ENTRIES = 1_000
_LOCAL_HEADER = struct.Struct("<4s22xHH")
"""APPNOTE.TXT 4.3.7: the signature, and at the end how long name and extra field are that stand before the data."""
_BLOCK = 1 << 20
_DAMAGED = cast("type[Exception]", isal_zlib.error)  # its stub declares an instance


def entry_problem(name: str, mode: int) -> str | None:
    """Return why an archive entry must not be unpacked, or ``None``; ``mode`` is its Unix mode, 0 if unknown."""
    path = PurePosixPath(name)
    if not name or "\0" in name or "\\" in name or path.is_absolute() or (len(name) > 1 and name[1] == ":"):
        return "has an absolute or unusable name"
    if ".." in path.parts:
        return "leaves the archive with '..'"
    kind = stat.S_IFMT(mode)
    if kind not in {0, stat.S_IFREG, stat.S_IFDIR}:
        return "is a link or a special file"
    return None


def unpack(archive: Path, binary: str, destination: Path) -> Path:
    """Unpack ``archive`` into ``destination`` and return the path of ``binary``, which is made executable.

    Every entry is judged before the first is written. Raises ``ToolError`` (ToolDownloadFailed).
    """
    destination.mkdir(parents=True, exist_ok=True)
    try:
        with archive.open("rb") as content, zipfile.ZipFile(content) as opened:
            entries = opened.infolist()
            _judge(archive, entries, binary)
            for entry in entries:
                _extract(content, entry, destination)
    except (zipfile.BadZipFile, _DAMAGED, struct.error, NotImplementedError, ValueError) as error:
        raise _refused(archive, f"cannot be unpacked ({error})") from error
    except OSError as error:
        raise _refused(archive, f"cannot be unpacked into {destination} ({error.strerror})") from error
    tool = destination / binary
    tool.chmod(0o755)
    return tool


def _judge(archive: Path, entries: list[zipfile.ZipInfo], binary: str) -> None:
    names = [entry.filename for entry in entries]
    if len(entries) > _MOST_ENTRIES or sum(entry.file_size for entry in entries) > _LARGEST:
        raise _refused(archive, "is too large for a tool")
    if len(set(names)) != len(names):
        raise _refused(archive, "holds a name twice")
    for entry in entries:
        if problem := entry_problem(entry.filename, entry.external_attr >> 16):
            raise _refused(archive, f"holds the entry {entry.filename!r}, which {problem}")
    if binary not in names:
        raise _refused(archive, f"does not hold the file {binary!r}")


def _extract(archive: BinaryIO, entry: zipfile.ZipInfo, destination: Path) -> None:
    target = destination.joinpath(*PurePosixPath(entry.filename).parts)
    if entry.is_dir():
        target.mkdir(parents=True, exist_ok=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    with os.fdopen(descriptor, "wb") as sink:
        size, checksum = 0, 0
        for block in _blocks(archive, entry):
            size, checksum = size + len(block), isal_zlib.crc32(block, checksum)
            if size > entry.file_size:
                break
            sink.write(block)
    if (size, checksum) != (entry.file_size, entry.CRC):
        raise zipfile.BadZipFile(f"the entry {entry.filename!r} is not what the directory of the archive says")


def _blocks(archive: BinaryIO, entry: zipfile.ZipInfo) -> Iterator[bytes]:
    """Yield the content of an entry in blocks of bounded size.

    ``zipfile`` reads with zlib, which takes twice as long: and a tool is unpacked in every run, before all else.
    """
    archive.seek(entry.header_offset)
    signature, name_length, extra_length = _LOCAL_HEADER.unpack(archive.read(_LOCAL_HEADER.size))
    if (
        signature != b"PK\3\4"
        or entry.flag_bits & 1
        or entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
    ):
        raise zipfile.BadZipFile(f"the entry {entry.filename!r} is encrypted, or packed in a way that is not supported")
    archive.seek(name_length + extra_length, os.SEEK_CUR)
    packed = _packed(archive, entry.compress_size)
    if entry.compress_type == zipfile.ZIP_STORED:
        yield from packed
        return
    inflater = isal_zlib.decompressobj(-15)  # raw deflate
    for block in packed:
        data = block
        while data and not inflater.eof:
            yield inflater.decompress(data, _BLOCK)
            data = inflater.unconsumed_tail
    yield inflater.flush()


def _packed(archive: BinaryIO, left: int) -> Iterator[bytes]:
    while left and (block := archive.read(min(left, _BLOCK))):
        left -= len(block)
        yield block


def _refused(archive: Path, problem: str) -> ToolError:
    return ToolError(ToolReason.TOOL_DOWNLOAD_FAILED, f"archive {archive.name} {problem}; check the mirror")
