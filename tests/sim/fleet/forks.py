"""Every crash point of a scene for the price of its rest: the run forks at each step, and the children die there.

A scene is played once. Right before each step the process forks once per moment; in the child that step is the crash
point, and the child plays on to the end and reports. Everything is deterministic, so a point that fails is played again
alone with ``CrashPlan(number=…, moment=…)`` and the same seed.
"""

import asyncio
import gc
import os
import pickle
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.sim.fleet.cluster import Fleet, play
from tests.sim.fleet.crash import CrashPlan, Moment
from tests.sim.history.outcome import Outcome, differences

__all__ = ["Exploration", "explore"]

_AT_ONCE = max(1, os.cpu_count() or 1)
Scene = Callable[[Fleet], Any]


@dataclass(frozen=True)
class _Report:
    number: int
    moment: str
    struck: str
    problems: tuple[str, ...]
    outcome: Outcome | None


@dataclass
class Exploration:
    """What became of all crash points of one scene."""

    points: int = 0
    problems: list[str] = field(default_factory=list)


class _ForkingPlan(CrashPlan):
    """Forks at each step; in a child it is an ordinary plan for that step."""

    def __init__(self, *, election: bool, every: bool) -> None:
        super().__init__(dies_of_lost_answers=election)
        self._every = every
        self.pipe: int | None = None
        self.reports: list[_Report] = []
        self._children: deque[tuple[int, int]] = deque()

    @property
    def is_child(self) -> bool:
        """True in a process that has its crash point."""
        return self.pipe is not None

    def strikes(self) -> bool:
        """Fork, and strike in the children."""
        self.seen += 1
        if self.is_child:
            return False
        moments = tuple(Moment)
        for moment in moments if self._every else (moments[self.seen % len(moments)],):
            while len(self._children) >= _AT_ONCE:
                self.await_child()
            reader, writer = os.pipe()
            loop = asyncio.get_running_loop()
            child = os.fork()
            if child == 0:
                asyncio._set_running_loop(loop)  # asyncio takes the loop of a forked process for somebody else's
                os.close(reader)
                gc.disable()  # it lives for a second, and shares its memory as long as nobody walks through it
                self.pipe, self.number, self.moment = writer, self.seen - 1, moment
                return True
            os.close(writer)
            self._children.append((child, reader))
        return False

    def await_child(self) -> None:
        """Take the report of the oldest child."""
        child, reader = self._children.popleft()
        with os.fdopen(reader, "rb") as pipe:
            text = pipe.read()
        os.waitpid(child, 0)
        lost = _Report(-1, "?", "?", ("a child died without a report",), None)
        self.reports.append(pickle.loads(text) if text else lost)  # noqa: S301 - our own child wrote it

    def await_all(self) -> None:
        """Take all reports."""
        while self._children:
            self.await_child()


def explore(scene: Scene, *, seed: int, programs: Sequence[str], election: bool, every: bool = True) -> Exploration:
    """Play the scene with a crash at every step, in every moment; with ``election`` each is a change of leader.

    Without ``every`` each step crashes in one moment, in the next step another.
    """
    plan = _ForkingPlan(election=election, every=every)
    outcome: Outcome | None = None
    problems: list[str] = []
    try:
        fleet = play(lambda: Fleet(seed, programs=programs, election=election, crash=plan), scene, seed=seed)
        outcome = fleet.outcome()
        problems += map(str, fleet.violations())
    except BaseException as error:  # noqa: BLE001 - whatever it is, a child must report it and end here
        problems.append(f"{type(error).__name__}: {error}")
    if plan.pipe is not None:
        report = _Report(plan.number, str(plan.moment), plan.struck, tuple(problems), outcome)
        with os.fdopen(plan.pipe, "wb") as pipe:
            pipe.write(pickle.dumps(report))
        os._exit(0)
    plan.await_all()
    found = Exploration(points=len(plan.reports), problems=[f"without a crash: {each}" for each in problems])
    for report in plan.reports:
        wrong = [*report.problems]
        if report.outcome is not None and outcome is not None:
            wrong += differences(outcome, report.outcome)
        point = f"seed {seed}, election {election}, point {report.number} {report.moment!r} ({report.struck})"
        found.problems += [f"{point}: {each}" for each in wrong]
    return found
