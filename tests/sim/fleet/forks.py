"""Every crash point of a scene for the price of its rest: the run forks at each step, and the children die there.

A scene is played once. Right before each step the process forks once per moment; in the child that step is the crash
point, and the child plays on to the end and reports. Everything is deterministic, so a point that fails can be played
again alone with ``CrashPlan(number=…, moment=…)`` and the same seed; for the first one this is done at once, so that
the failure comes with its history.
"""

import asyncio
import gc
import os
import pickle
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NoReturn

from magos.reconcilers.archive.keeping import Keeping
from tests.sim.fleet.cluster import NOTHING_KEPT, Fleet, play
from tests.sim.fleet.crash import CrashPlan, Moment
from tests.sim.history.outcome import Outcome, differences
from tests.sim.history.story import story

__all__ = ["Exploration", "explore"]

_WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT") or 1)
_AT_ONCE = max(2, (os.cpu_count() or 1) // _WORKERS)
Scene = Callable[[Fleet], Any]


@dataclass(frozen=True)
class _Report:
    number: int
    moment: Moment
    struck: str
    problems: tuple[str, ...]
    outcome: Outcome | None


@dataclass
class Exploration:
    """What became of all crash points of one scene; ``story`` is the history of the first one that fails."""

    points: int = 0
    problems: list[str] = field(default_factory=list)
    story: list[str] = field(default_factory=list)


class _ForkingPlan(CrashPlan):
    """Forks at each step until ``is_over``; in a child it is an ordinary plan for that step."""

    def __init__(self, *, election: bool, is_over: Callable[[], bool]) -> None:
        super().__init__(dies_of_lost_answers=election)
        self._is_over = is_over
        self.pipe: int | None = None
        self.reports: list[_Report] = []
        self._children: deque[tuple[int, int, int, Moment]] = deque()

    @property
    def is_child(self) -> bool:
        """True in a process that has its crash point."""
        return self.pipe is not None

    def strikes(self) -> bool:
        """Fork, and strike in the children."""
        self.seen += 1
        if self.is_child or self._is_over():
            return False
        return any(self._fork(self.seen - 1, moment) for moment in Moment)

    def _fork(self, number: int, moment: Moment) -> bool:
        """Return True in the child."""
        while len(self._children) >= _AT_ONCE:
            self.await_child()
        reader, writer = os.pipe()
        loop = asyncio.get_running_loop()
        with warnings.catch_warnings():
            # A worker of the test runner has a second thread. It waits for a message and holds no lock a child needs.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            asyncio._set_running_loop(loop)  # asyncio takes the loop of a forked process for somebody else's
            os.close(reader)
            gc.disable()  # it lives for a second, and shares its memory as long as nobody walks through it
            self.pipe, self.number, self.moment = writer, number, moment
            return True
        os.close(writer)
        self._children.append((child, reader, number, moment))
        return False

    def await_child(self) -> None:
        """Take the report of the oldest child."""
        child, reader, number, moment = self._children.popleft()
        with os.fdopen(reader, "rb") as pipe:
            text = pipe.read()
        os.waitpid(child, 0)
        lost = _Report(number, moment, "?", ("the process died without a report",), None)
        self.reports.append(pickle.loads(text) if text else lost)  # noqa: S301 - our own child wrote it

    def await_all(self) -> None:
        """Take all reports."""
        while self._children:
            self.await_child()


@dataclass(frozen=True)
class _Performance:
    """One scene with all that decides how it goes, but for the crash."""

    scene: Scene
    seed: int
    programs: Sequence[str]
    election: bool
    keeping: Keeping = NOTHING_KEPT

    def play(self, crash: CrashPlan) -> Fleet:
        return play(lambda: self._fleet(crash), self.scene, seed=self.seed)

    def story(self, crash: CrashPlan) -> list[str]:
        """Play it for its history, however it ends."""
        made: list[Fleet] = []

        def fleet() -> Fleet:
            made.append(self._fleet(crash))
            return made[0]

        with suppress(Exception):
            play(fleet, self.scene, seed=self.seed)
        return story(made[0].history.records)

    def _fleet(self, crash: CrashPlan) -> Fleet:
        return Fleet(self.seed, programs=self.programs, election=self.election, crash=crash, keeping=self.keeping)


def explore(
    scene: Scene,
    *,
    seed: int,
    programs: Sequence[str],
    election: bool,
    is_over: Callable[[], bool] = lambda: False,
    keeping: Keeping = NOTHING_KEPT,
) -> Exploration:
    """Play the scene with a crash at every step, in every moment; with ``election`` each is a change of leader.

    Once ``is_over`` says so, no further point is tried, and what was found so far is returned.
    """
    performance = _Performance(scene, seed, programs, election, keeping)
    plan = _ForkingPlan(election=election, is_over=is_over)
    outcome: Outcome | None = None
    problems: list[str] = []
    with _still_memory():
        try:
            fleet = performance.play(plan)
            outcome = fleet.outcome()
            problems += map(str, fleet.violations())
        except BaseException as error:
            if plan.pipe is None and not isinstance(error, Exception):
                raise  # somebody stops the tests
            problems.append(f"{type(error).__name__}: {error}")
        if plan.pipe is not None:
            _tell(plan.pipe, _Report(plan.number, plan.moment, plan.struck, tuple(problems), outcome))
        plan.await_all()
    found = Exploration(points=len(plan.reports), problems=[f"without a crash: {each}" for each in problems])
    if problems:
        found.story = performance.story(CrashPlan())
    for report in plan.reports:
        wrong = [*report.problems]
        if report.outcome is not None and outcome is not None:
            wrong += differences(outcome, report.outcome)
        point = f"seed {seed}, election {election}, point {report.number} {report.moment!r} ({report.struck})"
        found.problems += [f"{point}: {each}" for each in wrong]
        if wrong and not found.story:
            found.story = performance.story(CrashPlan(report.number, report.moment, dies_of_lost_answers=election))
    return found


def _tell(pipe: int, report: _Report) -> NoReturn:
    """Report to the parent and end; whatever happens, a child never goes on as if it were the test runner."""
    try:
        with os.fdopen(pipe, "wb") as stream:
            stream.write(pickle.dumps(report))
    finally:
        os._exit(0)


@contextmanager
def _still_memory() -> Iterator[None]:
    """Keep the garbage collector from writing into what is there already: children share it until then."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
