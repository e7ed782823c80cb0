"""Runs one tool at a time as PID 1 should (spec §7.1, §7.6).

The tool gets no input, a session of its own and one pipe for both its outputs, which passes through redaction to the
journal, or a second pipe for its standard output. It never holds a file of ours that is not sealed: who got hold of
that could rewrite what is there already. When it has ended, everything it left running is ended too. On a stop request
the tool's own process gets one SIGINT and up to ``stop_timeout`` seconds; then everything is killed.
"""

import math
import os
import select
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import Final

import msgspec

from magos.runner.descendants import adopt_orphans, alone, end_all, reap
from magos.runner.journal import Journal
from magos.runner.shield import exposure
from magos.runner.termination import Termination

_CHUNK: Final = 64 * 1024


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """What to run.

    ``stop_timeout``: seconds from a stop request to the kill. ``limit``: seconds from the start to the kill, if any.
    ``stdout``: the descriptor of a file that its standard output is copied to, else the log. ``observed``: find out
    whether other processes of this user can reach into it. ``inherited``: descriptors it gets, of sealed files only.
    """

    arguments: Sequence[str]
    directory: Path
    environment: Mapping[str, str]
    stop_timeout: float
    limit: float = math.inf
    stdout: int | None = None
    observed: bool = False
    inherited: tuple[int, ...] = ()


class Finished(msgspec.Struct, frozen=True):
    """How it ended: exit code (minus the signal's number if killed) and the redacted end of its output.

    ``exposure`` says, if that was to be observed, why it is not known to be out of reach; nothing if it is.
    """

    code: int
    tail: bytes
    exposure: str = ""


class _Pipe:
    """A pipe from a child to ``sink``; reading never blocks."""

    def __init__(self, sink: Callable[[bytes], None]) -> None:
        self._sink = sink
        self.read_end, self.write_end = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self.read_end, False)

    def pass_on(self) -> bool:
        """Pass on one chunk, if there is any; False at the end of the output."""
        try:
            chunk = os.read(self.read_end, _CHUNK)
        except BlockingIOError:
            return True
        self._sink(chunk)
        return bool(chunk)

    def drain(self) -> None:
        """Pass on what is still in the pipe; every writer has ended."""
        while select.select([self.read_end], [], [], 0)[0] and self.pass_on():
            pass


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
            pipes = [_Pipe(self._journal.pass_on)]
            if command.stdout is not None:
                target = command.stdout
                pipes.append(_Pipe(lambda chunk: _write_all(target, chunk)))
            try:
                self._journal.begin_output()
                code, exposed = self._supervise(command, pipes)
                for pipe in pipes:
                    pipe.drain()
                return Finished(code, self._journal.end_output(), exposed)
            finally:
                for pipe in pipes:
                    os.close(pipe.read_end)

    @property
    def alone(self) -> bool:
        """True if no process is left below this one."""
        return alone()

    def end_all(self) -> None:
        """End whatever still runs below this process."""
        self._end_leftovers(polite=2.0)

    def _supervise(self, command: Command, pipes: Sequence[_Pipe]) -> tuple[int, str]:
        try:
            process = subprocess.Popen(
                command.arguments,
                stdin=subprocess.DEVNULL,
                stdout=pipes[-1].write_end,
                stderr=pipes[0].write_end,
                cwd=command.directory,
                env=command.environment,
                start_new_session=True,
                pass_fds=command.inherited,
            )
        finally:
            for pipe in pipes:
                os.close(pipe.write_end)
        exposed = exposure(process.pid, command.arguments[0], self._pause) if command.observed else ""
        code = self._wait(process.pid, command, pipes)
        process.returncode = code  # it has been reaped here, together with the orphans
        self._end_leftovers(polite=2.0)
        return code, exposed

    def _wait(self, pid: int, command: Command, pipes: Sequence[_Pipe]) -> int:
        """Pass output on until the process ``pid`` has ended; return its exit code."""
        asked = False
        deadline = monotonic() + command.limit
        sources = {pipe.read_end: pipe for pipe in pipes}
        while True:
            ended = reap()
            if pid in ended:
                return ended[pid]
            requested = self._termination.requested_at
            if requested is not None:
                deadline = min(deadline, requested + command.stop_timeout)
            remaining = deadline - monotonic()
            if requested is not None and not asked:
                self._journal.say("stop requested: asking the tool to finish (SIGINT)")
                os.kill(pid, signal.SIGINT)
                asked = True
            if remaining <= 0:
                self._journal.say("the tool did not finish in time: killing it")
                os.kill(pid, signal.SIGKILL)
                remaining = 1.0
            timeout = None if remaining == math.inf else remaining
            ready, _, _ = select.select([*sources, self._termination.wakeup], [], [], timeout)
            self._clear_wakeup()
            for pipe in [sources[descriptor] for descriptor in ready if descriptor in sources]:
                if not pipe.pass_on():
                    del sources[pipe.read_end]

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


def _write_all(descriptor: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
