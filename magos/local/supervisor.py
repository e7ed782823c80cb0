"""Keeps programs running, as Deployments do on a cluster: a program that ends is started again after a pause."""

from collections.abc import Callable

import anyio
import anyio.abc
import structlog

from magos.local.processes import ChildProcess, ProcessSpec, start

__all__ = ["Supervised"]

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 15.0
_STEADY_SECONDS = 30.0

_log = structlog.get_logger("magos.local.supervisor")


class Supervised:
    """One program that should always run. Its log file is appended to over restarts."""

    def __init__(self, spec: ProcessSpec, *, stop_grace: float = 15.0) -> None:
        self.spec = spec
        self._stop_grace = stop_grace
        self._child: ChildProcess | None = None
        self._starts = 0

    @property
    def name(self) -> str:
        """What the program is called in messages."""
        return self.spec.name

    @property
    def pid(self) -> int | None:
        """Process ID while it runs; None before the start and between two."""
        child = self._child
        return child.pid if child is not None and child.returncode is None else None

    @property
    def starts(self) -> int:
        """How often it was started."""
        return self._starts

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Run it until cancelled; then it is ended (SIGTERM, SIGKILL after the grace) and reaped."""
        pause = _FIRST_PAUSE
        announce: Callable[[], None] | None = task_status.started
        while True:
            self._child = await start(self.spec)
            self._starts += 1
            if announce is not None:
                announce()
                announce = None
            begun = anyio.current_time()
            try:
                code = await self._child.wait()
            finally:
                await self._child.stop(self._stop_grace)
            if anyio.current_time() - begun > _STEADY_SECONDS:
                pause = _FIRST_PAUSE
            _log.warning("program ended, starting it again", program=self.name, exit_code=code, pause_seconds=pause)
            await anyio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
