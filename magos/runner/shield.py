"""Keeps this process and the tool out of reach of other processes of the same UID and container.

A process that is not "dumpable" can neither be traced by them, nor can they open its memory, environment or descriptors
(ptrace(2), "Ptrace access mode checking"; proc_pid_fd(5); pidfd_getfd(2)). This process sets that for itself. The
kernel sets it for every program whose file its user may not read (fs/exec.c, ``would_dump``), so the tool is kept
execute-only. A file system that ignores modes, another kernel in a sandbox or ``fs.suid_dumpable=1`` silently undo
that, so the stage checks it on the running tool.
"""

import os
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Final

EXECUTE_ONLY: Final = 0o111
"""Mode of a program whose processes are to be out of reach, of its owner's other processes too."""

_PR_GET_DUMPABLE: Final = 3
_PR_SET_DUMPABLE: Final = 4
_PROC: Final = Path("/proc")
_WITHIN: Final = ("fd", "environ", "mem")  # descriptors, what may be read, what may be traced: checked differently
_LONGEST_START: Final = 5.0
_PAUSE: Final = 0.002


def shield_self() -> None:
    """Put this process out of reach; a program that it executes decides anew. Whether it did is ``self_exposure``."""
    _prctl(_PR_SET_DUMPABLE)


def self_exposure() -> str:
    """Return why this process is not out of reach; else nothing."""
    return "" if _prctl(_PR_GET_DUMPABLE) == 0 else "the runner could not be shielded (PR_SET_DUMPABLE)"


def exposure(pid: int, program: str, pause: Callable[[float], None]) -> str:
    """Return why the child ``pid``, which executes ``program``, is not known to be out of reach; else nothing.

    Tries what another process of this user could. Waits through ``pause(seconds)`` until the child executes the
    program, at most five seconds: before that it is a copy of this process and out of reach because this one is.
    """
    place = _PROC / str(pid)
    deadline = monotonic() + _LONGEST_START
    while not _executes(place, program):
        if _has_ended(pid) or monotonic() >= deadline:
            return "the tool could not be observed"
        pause(_PAUSE)
    open_to_others = [name for name in _WITHIN if _opens(place / name)]
    if open_to_others:
        return f"the tool's /proc/<pid>/{open_to_others[0]} can be opened"
    # Of a process that has ended nothing can be opened, whatever it was before.
    return "" if _executes(place, program) else "the tool could not be observed"


def _prctl(option: int) -> int:
    """Call prctl(2) with a second argument of zero; -1 where there is none."""
    if not _PROC.is_dir():
        return -1
    import ctypes

    return int(ctypes.CDLL(None).prctl(option, 0, 0, 0, 0))


def _executes(place: Path, program: str) -> bool:
    try:
        return os.fsencode(program) in (place / "cmdline").read_bytes().split(b"\0")
    except OSError:  # hidden from us, or gone
        return False


def _has_ended(pid: int) -> bool:
    """Tell without reaping it."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def _opens(entry: Path) -> bool:
    try:
        os.close(os.open(entry, os.O_RDONLY | os.O_CLOEXEC))
    except PermissionError:
        return False
    except OSError:
        return True  # refused for another reason, which proves nothing
    return True
