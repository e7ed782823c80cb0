"""Reading and writing files in folders that configuration code may have written to.

Such a folder may hold a link, a named pipe or a gigabyte where a small file is expected. Nothing here follows a link in
the last component, waits for a pipe's other end, or reads more than it was told to.
"""

import io
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["NotRegular", "open_regular", "read_limited", "remove", "write_private"]


class NotRegular(OSError):
    """Something other than a regular file lies at the path."""


@contextmanager
def open_regular(path: Path) -> Iterator[io.BufferedReader]:
    """Open ``path`` for reading if it is a regular file and no link; else ``FileNotFoundError`` or ``OSError``."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotRegular(f"{path} is not a regular file")
        yield stream


def read_limited(path: Path, limit: int) -> bytes:
    """Return the content of ``path``; ``ValueError`` if it has more than ``limit`` bytes."""
    with open_regular(path) as stream:
        content = stream.read(limit + 1)
    if len(content) > limit:
        raise ValueError(f"{path} has more than {limit} bytes")
    return content


def write_private(path: Path, content: bytes) -> None:
    """Put a file with ``content`` and mode 0600 at ``path`` in one step, in place of whatever lies there."""
    import tempfile

    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    fresh = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
        if path.is_dir() and not path.is_symlink():
            remove(path)
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


def remove(path: Path) -> None:
    """Remove whatever lies at ``path``, if anything; a link itself, never what it points to."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
