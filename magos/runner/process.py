"""Runs one tool at a time as PID 1 should (spec §7.1, §7.6).

The tool gets no input, a session of its own and one pipe for both its outputs, which passes through redaction to the
journal. When it has ended, everything it left running is ended too. On a stop request the tool's own process gets one
SIGINT and up to ``patience`` seconds; then everything is killed.
"""

import math
import os
import select
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import Final

import msgspec

from magos.runner.descendants import adopt_orphans, end_all, reap
from magos.runner.journal import Journal
from magos.runner.termination import Termination

__all__ = ["Command", "Finished", "Supervisor"]

_CHUNK: Final = 64 * 1024


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """What to run.

    ``patience``: seconds from a stop request to the kill. ``limit``: seconds from the start to the kill, if any.
    ``stdout``: a descriptor, else the log.
    """

    arguments: Sequence[str]
    directory: Path
    environment: Mapping[str, str]
    patience: float
    limit: float = math.inf
    stdout: int | None = None


class Finished(msgspec.Struct, frozen=True):
    """How it ended: exit code (minus the signal's number if killed) and the redacted end of its output."""

    code: int
    tail: bytes


class Supervisor:
    """Runs commands one after the other; one per process."""

    def __init__(self, journal: Journal, termination: Termination) -> None:
        self._journal = journal
        self._termination = termination
        adopt_orphans()

    def run(self, command: Command) -> Finished:
        """Run ``command`` to its end.

        Raises ``Terminated`` after the command has ended if a stop was requested meanwhile, and ``OSError`` if the
        program cannot be started.
        """
        with self._termination.deferred():
            read_end, write_end = os.pipe2(os.O_CLOEXEC)
            os.set_blocking(read_end, False)
            try:
                self._journal.begin_output()
                code = self._supervise(command, read_end, write_end)
                self._drain(read_end)
                return Finished(code, self._journal.end_output())
            finally:
                os.close(read_end)

    def end_all(self) -> None:
        """End whatever still runs below this process."""
        self._end_leftovers(polite=2.0)

    def _supervise(self, command: Command, read_end: int, write_end: int) -> int:
        try:
            process = subprocess.Popen(
                command.arguments,
                stdin=subprocess.DEVNULL,
                stdout=write_end if command.stdout is None else command.stdout,
                stderr=write_end,
                cwd=command.directory,
                env=command.environment,
                start_new_session=True,
            )
        finally:
            os.close(write_end)
        code = self._wait(process.pid, command, read_end)
        process.returncode = code  # it has been reaped here, together with the orphans
        self._end_leftovers(polite=2.0)
        return code

    def _wait(self, pid: int, command: Command, output: int) -> int:
        """Pass output on until the process ``pid`` has ended; return its exit code."""
        asked = False
        deadline = monotonic() + command.limit
        sources = [output, self._termination.wakeup]
        while True:
            ended = reap()
            if pid in ended:
                return ended[pid]
            requested = self._termination.requested_at
            if requested is not None:
                deadline = min(deadline, requested + command.patience)
            remaining = deadline - monotonic()
            if requested is not None and not asked:
                self._journal.say("stop requested: asking the tool to finish (SIGINT)")
                os.kill(pid, signal.SIGINT)
                asked = True
            if remaining <= 0:
                self._journal.say("the tool did not finish in time: killing it")
                os.kill(pid, signal.SIGKILL)
                remaining = 1.0
            ready, _, _ = select.select(sources, [], [], None if remaining == math.inf else remaining)
            self._clear_wakeup()
            if output in ready and not self._pass_on(output):
                sources = [self._termination.wakeup]

    def _end_leftovers(self, polite: float) -> None:
        ended = end_all(self._pause, polite)
        if ended:
            self._journal.say(f"ended {len(ended)} process(es) left running by the tool")

    def _pause(self, seconds: float) -> None:
        select.select([self._termination.wakeup], [], [], seconds)
        self._clear_wakeup()

    def _clear_wakeup(self) -> None:
        try:
            while os.read(self._termination.wakeup, 512):
                pass
        except BlockingIOError:
            return

    def _pass_on(self, output: int) -> bool:
        """Pass on one chunk; False at the end of the output."""
        try:
            chunk = os.read(output, _CHUNK)
        except BlockingIOError:
            return True
        self._journal.pass_on(chunk)
        return bool(chunk)

    def _drain(self, output: int) -> None:
        """Pass on what is still in the pipe; every writer has ended."""
        while True:
            try:
                chunk = os.read(output, _CHUNK)
            except BlockingIOError:
                return
            if not chunk:
                return
            self._journal.pass_on(chunk)
