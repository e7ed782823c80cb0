"""The cache folder of built and downloaded programs.

An entry appears whole or not at all: it is made in a temporary folder beside its place and renamed. Each entry has a
lock file, so a second process waits for the first instead of repeating its work. The lock belongs to the open file
(``flock``), so the kernel releases it when a process is killed.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from magos.local.programs.progress import Progress


def program_path(cache: Path, key: str, name: str) -> Path:
    """Return the place of the program with that key, whether or not it is there yet."""
    return cache / "programs" / key / name


@contextmanager
def locked(cache: Path, key: str, progress: Progress) -> Iterator[None]:
    """Hold the lock of one cache entry; reports once if another process has it, then waits without limit."""
    folder = cache / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / f"{key}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.say(f"{key}: another process is making it, waiting for that process")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def place_program(cache: Path, key: str, name: str) -> Iterator[Path]:
    """Yield a path to write the program to; if the block succeeds it is made executable and moved to its place."""
    final = program_path(cache, key, name)
    final.parent.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{key}.", dir=final.parent.parent))
    try:
        yield fresh / name
        (fresh / name).chmod(0o755)
        fresh.chmod(0o755)
        shutil.rmtree(final.parent, ignore_errors=True)  # the caller found no program in it: a remnant
        fresh.rename(final.parent)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
