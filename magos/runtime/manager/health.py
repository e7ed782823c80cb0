"""Probes as Kubernetes components answer them: ``/healthz`` is this process alive, ``/readyz`` may it be counted on.

Each is a set of named checks. ``/healthz/<check>`` asks one of them, ``?verbose`` lists them, ``?exclude=<check>``
leaves one out. Answers say which check fails and withhold why; the reason is logged when a check begins to fail and
when it recovers. Answering costs no I/O, so a probe that is not answered means that the loop is stuck.
"""

from collections.abc import Callable, Mapping

import anyio
import structlog

from magos.runtime.clock import Clock
from magos.runtime.manager.webserver import WebRequest, WebResponse

TICK = 0.5
LAG_LOGGED = 1.0
LAG_FATAL = 10.0

_log = structlog.get_logger(__name__)

Check = Callable[[], str]
"""Returns what is wrong, empty if nothing is; called on the loop, must not block."""


class Health:
    """The checks of one process, fixed at start."""

    def __init__(self, *, live: Mapping[str, Check], ready: Mapping[str, Check]) -> None:
        ping: dict[str, Check] = {"ping": lambda: ""}
        self._checks: dict[str, dict[str, Check]] = {"healthz": {**ping, **live}, "readyz": {**ping, **ready}}
        self._failing: dict[tuple[str, str], str] = {}

    async def handle(self, request: WebRequest) -> WebResponse:
        """Answer a probe."""
        probe, _, name = request.path.strip("/").partition("/")
        checks = self._checks.get(probe)
        if checks is None or (name and name not in checks):
            return WebResponse(status=404, body=b"404 page not found\n")
        excluded = {value for key, value in request.query if key == "exclude"}
        verbose = any(key == "verbose" for key, _ in request.query)
        return self._answer(probe, name, excluded, verbose=verbose)

    def _answer(self, probe: str, name: str, excluded: set[str], *, verbose: bool) -> WebResponse:
        checks = self._checks[probe]
        lines = []
        passed = True
        for each, check in checks.items():
            if name and each != name:
                continue
            if each in excluded:
                lines.append(f"[+]{each} excluded: ok")
            elif self._check(probe, each, check):
                lines.append(f"[+]{each} ok")
            else:
                lines.append(f"[-]{each} failed: reason withheld, see the log")
                passed = False
        unknown = sorted(excluded - checks.keys())
        if unknown:
            lines.append(f"warn: some checks cannot be excluded: no matches for {', '.join(unknown)}")
        what = f"{probe}/{name}" if name else probe
        lines.append(f"{what} check {'passed' if passed else 'failed'}")
        if passed and not verbose:
            return WebResponse(body=b"ok")
        return WebResponse(status=200 if passed else 500, body=("\n".join(lines) + "\n").encode())

    def _check(self, probe: str, name: str, check: Check) -> bool:
        try:
            problem = check()
        except Exception as error:  # noqa: BLE001 - a check that cannot tell has failed
            problem = f"{type(error).__name__}: {error}"
        before = self._failing.pop((probe, name), "")
        if problem:
            self._failing[probe, name] = problem
            if not before:
                _log.warning("health check fails", probe=probe, check=name, problem=problem)
        elif before:
            _log.info("health check passes again", probe=probe, check=name)
        return not problem


class LoopMonitor:
    """Measures how late the loop is: the time between "should run now" and "runs"."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = clock.monotonic()
        self.lag = 0.0

    async def run(self) -> None:
        """Measure until cancelled; a lag over a second is logged."""
        while True:
            due = self._clock.monotonic() + TICK
            await anyio.sleep(TICK)
            self._last = self._clock.monotonic()
            self.lag = max(0.0, self._last - due)
            if self.lag > LAG_LOGGED:
                _log.warning("the event loop was blocked, or the machine suspended", seconds=round(self.lag, 3))

    def problem(self) -> str:
        """Return what is wrong with the loop (a ``Check``)."""
        silent = self._clock.monotonic() - self._last
        return f"the event loop has not run its own task for {silent:.1f} s" if silent > LAG_FATAL else ""
