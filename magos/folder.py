"""A folder that is held open: everything in it is reached from its descriptor, and no link is ever followed.

Who else may write to a volume can rename folders and put links, pipes or gigabytes in their place at any moment, and a
path is resolved anew each time it is used, below ``/proc`` even differently by each process. So a folder is opened
once. A name in it is a path below it whose every component must be what it seems: a link, also one that stays inside,
and ``..`` are refused (openat(2) with O_NOFOLLOW, component by component; the same as RESOLVE_BENEATH and
RESOLVE_NO_SYMLINKS of openat2(2), which not every kernel and sandbox has).
"""

import errno
import io
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_ATTEMPTS: Final = 8
_CHUNK: Final = 1 << 20
_BLOCK: Final = 512
_DEEPEST: Final = 64
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class NotRegular(OSError):
    """Something other than a regular file has the name."""


class NotFolder(OSError):
    """Something other than a folder, for instance a link to one, has a name on the way."""


def is_full(error: BaseException) -> bool:
    """True if the system refused a write for want of space, or of a quota."""
    return isinstance(error, OSError) and error.errno in _FULL


class Folder:
    """The folder behind a descriptor, whatever becomes of its name. A context manager that closes the descriptor.

    Whatever is looked up may raise ``FileNotFoundError``, ``NotFolder``, ``NotRegular`` or another ``OSError``;
    ``ValueError`` for a name that is no path below the folder.
    """

    def __init__(self, descriptor: int, shown: str) -> None:
        self._descriptor = descriptor
        self._shown = shown

    @classmethod
    def at(cls, path: Path) -> "Folder":
        """Hold the folder at ``path``, links followed: for a mount point, whose name nobody in the pod can change."""
        return cls(os.open(path, _FOLDER), str(path))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __str__(self) -> str:
        return self._shown

    def close(self) -> None:
        """Let go of the folder."""
        os.close(self._descriptor)

    def folder(self, name: str) -> "Folder":
        """Hold the folder ``name``."""
        return self._descend(_parts(name), make=False)

    def made(self, name: str) -> "Folder":
        """Hold the folder ``name``, made with what is missing on the way."""
        return self._descend(_parts(name), make=True)

    def names(self) -> list[str]:
        """Return the names of the entries, sorted."""
        return sorted(os.listdir(self._descriptor))  # noqa: PTH208 - a descriptor, not a path

    @contextmanager
    def opened(self, name: str) -> Iterator[io.BufferedReader]:
        """Open the regular file ``name`` for reading; never waits for the other end of a pipe."""
        with self._parent(name) as (parent, last):
            descriptor = os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)
        with os.fdopen(descriptor, "rb") as stream:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise NotRegular(errno.EINVAL, "not a regular file", f"{self._shown}/{name}")
            yield stream

    def read(self, name: str, limit: int) -> bytes:
        """Return the content of the regular file ``name``; ``ValueError`` if it has more than ``limit`` bytes."""
        with self.opened(name) as stream:
            content = stream.read(limit + 1)
        if len(content) > limit:
            raise ValueError(f"{self._shown}/{name} has more than {limit} bytes")
        return content

    @contextmanager
    def created(self, name: str) -> Iterator[io.BufferedWriter]:
        """Create the file ``name``, readable by its owner alone, and make it durable; ``FileExistsError`` if it exists.

        The entry itself is durable too: a crash of the node does not lose it.
        """
        with self._parent(name) as (parent, last):
            with os.fdopen(os.open(last, _NEW, 0o600, dir_fd=parent), "wb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            os.fsync(parent)

    def replace(self, name: str, content: IO[bytes]) -> None:
        """Put a file with ``content``, readable by its owner alone, in place of whatever is there, in one step."""
        with self._parent(name) as (parent, last):
            fresh = f".{last}.{os.urandom(8).hex()}"
            try:
                with os.fdopen(os.open(fresh, _NEW, 0o600, dir_fd=parent), "wb") as stream:
                    shutil.copyfileobj(content, stream, _CHUNK)
                _clear_folder(last, parent)
                os.rename(fresh, last, src_dir_fd=parent, dst_dir_fd=parent)
            except BaseException:
                _remove(fresh, parent)
                raise

    def remove(self, name: str) -> bool:
        """Remove whatever has the name, a link itself and never what it points to; True if there was anything."""
        try:
            with self._parent(name) as (parent, last):
                return _remove(last, parent)
        except FileNotFoundError:
            return False

    def used_at(self, name: str) -> float:
        """Return when what has the name was last changed or marked as used, in seconds since the epoch."""
        with self._parent(name) as (parent, last):
            return os.stat(last, dir_fd=parent, follow_symlinks=False).st_mtime

    def mark_used(self, name: str, moment: float) -> None:
        """Let ``used_at`` say ``moment``, in seconds since the epoch; a link itself, never what it points to."""
        with self._parent(name) as (parent, last):
            os.utime(last, (moment, moment), dir_fd=parent, follow_symlinks=False)

    def usage(self, name: str) -> int:
        """Return how many bytes of the file system what has the name takes, with what lies in it.

        What cannot be read or is gone meanwhile counts for nothing, nor does what lies deeper than 64 levels.
        """
        try:
            with self._parent(name) as (parent, last):
                return _usage(last, parent, _DEEPEST)
        except OSError:
            return 0

    def space(self) -> os.statvfs_result:
        """Return what the file system of the folder has and what is left of it."""
        return os.fstatvfs(self._descriptor)

    def _descend(self, parts: list[str], *, make: bool) -> "Folder":
        shown, descriptor = self._shown, os.dup(self._descriptor)
        for part in parts:
            shown = f"{shown}/{part}"
            try:
                inner = _enter(part, descriptor, shown, make=make)
            finally:
                os.close(descriptor)
            descriptor = inner
        return Folder(descriptor, shown)

    @contextmanager
    def _parent(self, name: str) -> Iterator[tuple[int, str]]:
        *above, last = _parts(name)
        with self._descend(above, make=False) as parent:
            yield parent._descriptor, last  # noqa: SLF001 - of the same class


def _parts(name: str) -> list[str]:
    parts = name.split("/")
    if any(part in {"", ".", ".."} or "\0" in part for part in parts):
        raise ValueError(f"{name!r} is no path below a folder")
    return parts


def _enter(name: str, parent: int, shown: str, *, make: bool) -> int:
    if make:
        with suppress(FileExistsError):
            os.mkdir(name, 0o777, dir_fd=parent)
    try:
        return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=parent)
    except OSError as error:
        if error.errno in {errno.ENOTDIR, errno.ELOOP}:
            raise NotFolder(errno.ENOTDIR, "a link, or not a folder", shown) from None
        raise OSError(error.errno, os.strerror(error.errno or 0), shown) from None


def _is_folder(name: str, parent: int) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)


def _usage(name: str, parent: int, deepest: int) -> int:
    found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    total = found.st_blocks * _BLOCK
    if not stat.S_ISDIR(found.st_mode) or deepest == 0:
        return total
    descriptor = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=parent)
    try:
        for inner in os.listdir(descriptor):  # noqa: PTH208 - a descriptor, not a path
            with suppress(OSError):  # gone meanwhile, or not ours to read
                total += _usage(inner, descriptor, deepest - 1)
    finally:
        os.close(descriptor)
    return total


def _clear_folder(name: str, parent: int) -> None:
    """Make way for a file: a folder is not replaced by renaming one."""
    try:
        if _is_folder(name, parent):
            _remove(name, parent)
    except FileNotFoundError:
        return


def _remove(name: str, parent: int) -> bool:
    for _ in range(_ATTEMPTS):  # what has the name may become something else between the look and the deed
        try:
            if _is_folder(name, parent):
                shutil.rmtree(name, dir_fd=parent)
            else:
                os.unlink(name, dir_fd=parent)
        except FileNotFoundError:
            return False
        except (IsADirectoryError, NotADirectoryError):
            continue
        return True
    raise OSError(errno.EBUSY, "changes while it is removed", name)
