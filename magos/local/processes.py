"""Child processes of the one-machine mode.

What this module promises:

1. A child never outlives this process. It asks the kernel for a signal at its parent's death (``PR_SET_PDEATHSIG``)
   before it becomes the program, so even SIGKILL of the parent leaves nothing running. The kernel ties that to the
   *thread* that started the child: start children from the thread of the event loop, never from a worker thread.
2. A child is ended by its own process ID only: SIGTERM, then SIGKILL after the grace, and it is always reaped.
3. All its output goes to its log file without passing through this process; an error about the child carries the end
   of that file.
4. It leads a session of its own: Ctrl-C at the terminal reaches only this process, which then ends its children in
   order.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import anyio.abc
import msgspec

from magos.errors import MagosError

# Runs in the child before the program. A preexec_fn would run Python between fork and exec of a process with threads,
# which may deadlock; a second exec cannot, and costs about 20 ms.
_TRAMPOLINE = """
import ctypes, os, sys
death_signal, parent, *argv = sys.argv[1:]
ctypes.CDLL(None).prctl(1, int(death_signal), 0, 0, 0)
if os.getppid() != int(parent):
    sys.exit(143)
os.execv(argv[0], argv[1:])
"""

_TAIL_BYTES = 16 * 1024
"""Enough for the last lines of any log; a log itself may have gigabytes."""

_POLL_SECONDS = 0.05
"""Between two probes of a starting server: starts take seconds, and a probe of a server on loopback is cheap."""


class ProcessFailed(MagosError):
    """A child cannot be started, ended too early or did not become ready in time."""


class ProcessSpec(msgspec.Struct, frozen=True, kw_only=True):
    """How to start one child.

    ``argv[0]`` is a path or a name on the PATH of ``env``; with ``env`` None the child gets this process's environment.
    The child appends to the log file, whose folder is created.
    """

    name: str
    argv: Sequence[str]
    log_file: Path
    env: Mapping[str, str] | None = None
    cwd: Path | None = None
    death_signal: signal.Signals = signal.SIGKILL


class ChildProcess:
    """A running or ended child, made by :func:`start`."""

    def __init__(self, spec: ProcessSpec, process: anyio.abc.Process) -> None:
        self.spec = spec
        self._process = process

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit status (negative: ended by that signal), None while the child runs."""
        return self._process.returncode

    def send_signal(self, number: signal.Signals) -> None:
        """Send the child a signal; does nothing if it has ended."""
        if self._process.returncode is None:
            # Not by the library's call: that one looks first whether the child has ended, and if it has just done so,
            # takes its exit status away from the loop, which then reports 255 and an unknown child.
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, number)

    async def wait(self) -> int:
        return await self._process.wait()

    async def wait_until_ready(self, probe: Callable[[], Awaitable[bool]], within: float) -> None:
        """Wait until ``probe`` returns true, at most ``within`` seconds.

        Raises ``ProcessFailed`` with the end of the log if the child ends first or the time is over.
        """
        with anyio.move_on_after(within):
            while self.returncode is None:
                if await probe():
                    return
                await anyio.sleep(_POLL_SECONDS)
        if self.returncode is None:
            cause = f"did not become ready within {within:g} s"
        else:
            cause = f"ended with status {self.returncode} before it was ready"
        raise ProcessFailed(f"{self.name} {cause}; the end of its log {self.spec.log_file}:\n{await self.tail()}")

    async def stop(self, grace: float = 10.0) -> int:
        """End the child (SIGTERM, then SIGKILL after ``grace`` seconds) and return its exit status.

        Completes even if the caller is cancelled, so that no process stays behind.
        """
        with anyio.CancelScope(shield=True):
            self.send_signal(signal.SIGTERM)
            with anyio.move_on_after(grace) as patience:
                await self.wait()
            if patience.cancelled_caught:
                self.send_signal(signal.SIGKILL)
            await self.wait()
        return await self.wait()

    async def tail(self, lines: int = 15) -> str:
        """Return the last lines of the log file."""
        return await anyio.to_thread.run_sync(read_tail, self.spec.log_file, lines)


def read_tail(path: Path, lines: int = 15) -> str:
    """Return the last ``lines`` lines of a file (of its last 16 KiB), nothing if the file does not exist."""
    try:
        with path.open("rb") as stream:
            stream.seek(0, os.SEEK_END)
            stream.seek(max(0, stream.tell() - _TAIL_BYTES))
            text = stream.read().decode("utf-8", errors="replace")
    except FileNotFoundError:
        return ""
    return "\n".join(text.splitlines()[-lines:])


def _resolve(spec: ProcessSpec) -> str:
    search = None if spec.env is None else spec.env.get("PATH")
    program = shutil.which(spec.argv[0], path=search)
    if program is None:
        raise ProcessFailed(
            f"{spec.name} cannot be started: {spec.argv[0]} is not an executable file and not on PATH; "
            "install it or give its full path"
        )
    return str(Path(program).absolute())


def _open_log(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def dying_with_parent(argv: Sequence[str], death_signal: signal.Signals) -> list[str]:
    """Return the command that runs ``argv`` as a child which gets the signal at its parent's death (promise 1).

    ``argv[0]`` is a full path. The program runs under the child's own process ID.
    """
    trampoline = [sys.executable, "-I", "-S", "-c", _TRAMPOLINE, str(int(death_signal)), str(os.getpid())]
    return [*trampoline, argv[0], *argv]


async def start(spec: ProcessSpec) -> ChildProcess:
    """Start a child and return at once; raises ``ProcessFailed`` if the program does not exist.

    The caller must call :meth:`ChildProcess.stop`; :func:`running` does that by itself.
    """
    program = await anyio.to_thread.run_sync(_resolve, spec)
    log = await anyio.to_thread.run_sync(_open_log, spec.log_file)
    try:
        process = await anyio.open_process(
            dying_with_parent([program, *spec.argv[1:]], spec.death_signal),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=spec.env,
            cwd=spec.cwd,
            start_new_session=True,
        )
    except OSError as error:
        raise ProcessFailed(f"{spec.name} cannot be started: {error}") from error
    finally:
        os.close(log)
    return ChildProcess(spec, process)


@asynccontextmanager
async def running(spec: ProcessSpec, grace: float = 10.0) -> AsyncIterator[ChildProcess]:
    """Run a child for the length of a block; when the block is left, for whatever reason, it is ended and reaped."""
    child = await start(spec)
    try:
        yield child
    finally:
        await child.stop(grace)
