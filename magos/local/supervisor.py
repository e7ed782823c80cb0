"""Keeps programs running, as Deployments do on a cluster: it starts a program again, after a pause, when it ends."""

import anyio
import anyio.abc
import structlog

from magos.local.processes import ChildProcess, ProcessSpec, start

_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 15.0
"""Pauses double from the first to the longest: a program that fails at once must not keep the processor busy."""

_STEADY_SECONDS = 30.0
"""A program that ran this long has started well; its next pause is the first one again."""

_log = structlog.get_logger("magos.local.supervisor")


class Supervised:
    """A program to keep running; all its starts append to one log file. ``stop_grace`` is in seconds."""

    def __init__(self, spec: ProcessSpec, *, stop_grace: float = 15.0) -> None:
        self.spec = spec
        self._stop_grace = stop_grace
        self._child: ChildProcess | None = None
        self._starts = 0

    @property
    def name(self) -> str:
        """The program's name in messages."""
        return self.spec.name

    @property
    def pid(self) -> int | None:
        """The process ID while the program runs, else None."""
        child = self._child
        return child.pid if child is not None and child.returncode is None else None

    @property
    def starts(self) -> int:
        """How many times the program was started."""
        return self._starts

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Keep the program running until cancelled, then end it (SIGTERM, SIGKILL after the grace). Call it once."""
        pause = _FIRST_PAUSE_SECONDS
        while True:
            self._child = await start(self.spec)
            self._starts += 1
            if self._starts == 1:
                task_status.started()
            begun = anyio.current_time()
            try:
                code = await self._child.wait()
            finally:
                await self._child.stop(self._stop_grace)
            if anyio.current_time() - begun > _STEADY_SECONDS:
                pause = _FIRST_PAUSE_SECONDS
            _log.warning(
                "a program ended by itself, starting it again", program=self.name, exit_code=code, pause_seconds=pause
            )
            await anyio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
