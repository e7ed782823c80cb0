"""The cache folder of built and downloaded programs.

An entry appears whole or not at all: it is made in a temporary folder beside its place and renamed. A lock file per
entry makes a second process wait for the first instead of doing the same work; the lock belongs to the open file
(``flock``), so a killed process releases it.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from magos.local.programs.progress import Progress

__all__ = ["locked", "place_program", "program_path"]


def program_path(cache: Path, key: str, name: str) -> Path:
    """Where the program of that key lies, whether or not it is there yet."""
    return cache / "programs" / key / name


@contextmanager
def locked(cache: Path, key: str, progress: Progress) -> Iterator[None]:
    """Hold the lock of one cache entry; says so once if another process has it, then waits without limit."""
    folder = cache / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / f"{key}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.say(f"{key}: another process is at it, waiting for that")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def place_program(cache: Path, key: str, name: str) -> Iterator[Path]:
    """A path to write the program to; it is made executable and moved to its place when the block ends well."""
    final = program_path(cache, key, name)
    final.parent.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{key}.", dir=final.parent.parent))
    try:
        yield fresh / name
        (fresh / name).chmod(0o755)
        fresh.chmod(0o755)
        shutil.rmtree(final.parent, ignore_errors=True)  # only ever a remnant: the caller found no program there
        fresh.rename(final.parent)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
