"""An OpenSSH client that other processes of this user cannot look into or take over.

The kernel keeps a process out of their reach if its program is a file that they may not read (fs/exec.c,
``would_dump``). So the program is executed from a sealed copy in memory that no process may read, unless the installed
one is unreadable already.
"""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_EXECUTE_ONLY: Final = 0o111


class SSHProgram:
    """The ``ssh`` of this machine, ready to be started; ``close`` when no more is to be."""

    def __init__(self) -> None:
        # Only fetching over SSH needs it, so ``start`` reports its absence.
        self._path = shutil.which("ssh", path=os.defpath + ":/usr/local/bin") or "/usr/bin/ssh"
        self._copy = _unreadable_copy(Path(self._path))

    def start(self, arguments: Sequence[str], streams: Sequence[int], directory: Path) -> subprocess.Popen[bytes]:
        """Start it with the descriptors ``streams`` as its input, output and errors; ``OSError`` if it cannot be."""
        passed = () if self._copy is None else (self._copy,)
        executable = self._path if self._copy is None else f"/proc/self/fd/{self._copy}"
        return subprocess.Popen(
            arguments,
            executable=executable,
            pass_fds=passed,
            stdin=streams[0],
            stdout=streams[1],
            stderr=streams[2],
            cwd=directory,
            env={"PATH": os.defpath},
            start_new_session=True,
        )

    def close(self) -> None:
        """Release the copy; running clients keep theirs."""
        if self._copy is not None:
            os.close(self._copy)
            self._copy = None


def _unreadable_copy(program: Path) -> int | None:
    """Return the descriptor of a copy in memory, None if the program cannot be read or memory not be executed."""
    try:
        content = program.read_bytes()
        descriptor = os.memfd_create("ssh", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    except OSError:
        return None
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(content)
    os.fchmod(descriptor, _EXECUTE_ONLY)
    seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    return descriptor
