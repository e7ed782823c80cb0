"""Reading and removing files at paths whose folders only our own code and the container decide.

What lies at the path may still be a link, a named pipe or a gigabyte where a small file is expected. Nothing here
follows a link in the last component, waits for a pipe's other end, or reads more than its limit. Where
configuration code can reach the folders, too, ``magos.folder`` is the way.
"""

import io
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from magos.folder import Folder


@contextmanager
def open_regular(path: Path) -> Iterator[io.BufferedReader]:
    """Open ``path`` for reading if it is a regular file and no link; else ``FileNotFoundError`` or ``OSError``."""
    with Folder.at(path.parent) as folder, folder.opened(path.name) as stream:
        yield stream


def read_limited(path: Path, limit: int) -> bytes:
    """Return the content of ``path``; ``ValueError`` if it has more than ``limit`` bytes."""
    with Folder.at(path.parent) as folder:
        return folder.read(path.name, limit)


def remove(path: Path) -> None:
    """Remove whatever lies at ``path``, if anything; a link itself, never what it points to."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
