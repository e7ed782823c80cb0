"""Unpack a verified zip archive without leaving the destination (spec §7.3)."""

import os
import shutil
import stat
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from magos.toolchain.errors import ToolError, ToolReason

__all__ = ["entry_problem", "unpack"]

_LARGEST = 2 * 1024**3
_MOST_ENTRIES = 1_000


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
        with zipfile.ZipFile(archive) as opened:
            entries = opened.infolist()
            _judge(archive, entries, binary)
            for entry in entries:
                _extract(opened, entry, destination)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError) as error:
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


def _extract(opened: zipfile.ZipFile, entry: zipfile.ZipInfo, destination: Path) -> None:
    target = destination.joinpath(*PurePosixPath(entry.filename).parts)
    if entry.is_dir():
        target.mkdir(parents=True, exist_ok=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    with opened.open(entry) as source, os.fdopen(descriptor, "wb") as sink:
        shutil.copyfileobj(source, sink, 1 << 20)


def _refused(archive: Path, problem: str) -> ToolError:
    return ToolError(ToolReason.TOOL_DOWNLOAD_FAILED, f"archive {archive.name} {problem}; check the mirror")
