"""A file's content as it was at one moment, in memory that the kernel protects from all changes.

A program of the configuration may have written the file and may write to it again. So it is copied once into a memory
file that is then sealed (memfd_create(2), fcntl(2) F_ADD_SEALS): not even this process can change it any more. What is
digested, shown, verified and handed to the tool as ``/proc/self/fd/N`` is that copy. It counts against the memory of
the container.
"""

import errno
import fcntl
import hashlib
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Final

from magos.ids import Digest

LARGEST: Final = 1024**3
"""Bytes a file may have to be copied into memory."""

_SEALS: Final = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
_NEVER_EXECUTABLE: Final = 0x8  # MFD_NOEXEC_SEAL, which some nodes demand; kernels before 6.3 do not know it
_CHUNK: Final = 1 << 20


class Sealed:
    """The sealed copy. ``digest`` is that of its content, ``descriptor`` a child inherits to read ``path``."""

    def __init__(self, descriptor: int, digest: Digest) -> None:
        self.descriptor = descriptor
        self.digest = digest

    @property
    def path(self) -> str:
        """Where a process that inherited the descriptor finds the content."""
        return f"/proc/self/fd/{self.descriptor}"

    @contextmanager
    def opened(self) -> Iterator[io.BufferedReader]:
        """Open it for reading, from the beginning."""
        with open(self.path, "rb") as stream:  # noqa: PTH123 - not a place in the file system
            yield stream


@contextmanager
def sealed(source: IO[bytes], name: str) -> Iterator[Sealed]:
    """Copy what is left of ``source``; ``OSError`` if it has more than ``LARGEST`` bytes or memory is short."""
    writing = _memory_file(name)
    try:
        digest = _copy(source, writing)
        os.fchmod(writing, 0o400)
        fcntl.fcntl(writing, fcntl.F_ADD_SEALS, _SEALS)
        descriptor = os.open(f"/proc/self/fd/{writing}", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(writing)
    try:
        yield Sealed(descriptor, digest)
    finally:
        os.close(descriptor)


def _memory_file(name: str) -> int:
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        return os.memfd_create(name, flags | _NEVER_EXECUTABLE)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return os.memfd_create(name, flags)


def _copy(source: IO[bytes], target: int) -> Digest:
    digest, size = hashlib.sha256(), 0
    while chunk := source.read(_CHUNK):
        size += len(chunk)
        if size > LARGEST:
            raise OSError(errno.EFBIG, f"more than {LARGEST} bytes")
        digest.update(chunk)
        rest = memoryview(chunk)
        while rest:
            rest = rest[os.write(target, rest) :]
    return Digest("sha256:" + digest.hexdigest())
