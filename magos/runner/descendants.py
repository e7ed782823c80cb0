"""Duties of PID 1: adopt orphans, reap them, and let no process outlive the stage.

Whatever a tool started is a descendant of this process, because orphans are handed to it: as PID 1 of a container, or
as a subreaper (prctl(2), PR_SET_CHILD_SUBREAPER) elsewhere. Process groups are no boundary: a daemon leaves its group.
So this process has a child as long as there is any descendant. Looking for them in ``/proc`` is no proof: who forks
faster than we look is not seen, and only the kernel can end all at once.
"""

import os
import signal
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Final

_PR_SET_CHILD_SUBREAPER: Final = 36
_PROC: Final = Path("/proc")
_POLITE_SECONDS: Final = 2.0
_LONGEST_ENDING: Final = 5.0


def adopt_orphans() -> None:
    """Make orphaned descendants children of this process, which PID 1 needs not ask for."""
    if os.getpid() == 1 or not _PROC.is_dir():
        return
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def reap() -> dict[int, int]:
    """Collect every child that has ended; return exit codes by PID, minus the signal's number if killed."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended[pid] = os.waitstatus_to_exitcode(status)


def alone() -> bool:
    """True if no process is left below this one; reaps those that have ended."""
    reap()
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def descendants() -> list[int]:
    """Return the PIDs of all living processes below this one."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    for entry in _PROC.iterdir() if _PROC.is_dir() else ():
        if entry.name.isdigit():
            parent = _living_child_of(entry)
            if parent is not None:
                children[parent].append(int(entry.name))
    found: list[int] = []
    queue = [os.getpid()]
    while queue:
        below = children[queue.pop()]
        found += below
        queue += below
    return found


def _living_child_of(entry: Path) -> int | None:
    try:
        # The name in parentheses may itself hold parentheses and blanks; state and parent follow the last one.
        state, parent = (entry / "stat").read_bytes().rpartition(b")")[2].split()[:2]
    except (OSError, ValueError):
        return None  # it has just ended
    return None if state in {b"Z", b"X"} else int(parent)


def end_all(pause: Callable[[float], None], polite: float = _POLITE_SECONDS) -> list[int]:
    """End every descendant: SIGTERM, after ``polite`` seconds SIGKILL; return the PIDs that had to be ended.

    ``pause(seconds)`` waits for the next child to end, at most that long. Gives up after five seconds; ask ``alone``.
    """
    started = monotonic()
    asked: list[int] = []
    while not alone() and monotonic() - started < _LONGEST_ENDING:
        insist = monotonic() - started >= polite
        alive = descendants()
        for pid in alive:
            if insist or pid not in asked:
                _signal(pid, signal.SIGKILL if insist else signal.SIGTERM)
        if insist and os.getpid() == 1:
            _signal(-1, signal.SIGKILL)  # everything else in the container, in one step that no fork can outrun
        asked += [pid for pid in alive if pid not in asked]
        pause(0.05)
    return asked


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return  # ended by itself meanwhile
