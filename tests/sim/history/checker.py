"""Judges a history by the invariants of the specification (§3). It knows none of the product's decisions.

I14 is judged by comparing outcomes (``outcome.py``); invariants about text, network and storage (I10 to I13, I18 to
I20) have tests of their own.
"""

from dataclasses import dataclass

from tests.sim.history.calm import Calm
from tests.sim.history.orchestration import check_orchestration
from tests.sim.history.records import History
from tests.sim.history.runs import check_runs
from tests.sim.history.state import State
from tests.sim.history.statuses import check_statuses

__all__ = ["SLACK", "Violation", "violations"]

SLACK = 2.0
"""Seconds by which a giver of permission may lag behind what is true: a live read and a write, faults included."""


@dataclass(frozen=True)
class Violation:
    """One breach: which invariant, when, and what is wrong."""

    invariant: str
    at: float
    text: str

    def __str__(self) -> str:
        return f"{self.invariant} at {self.at:.3f} s: {self.text}"


def violations(history: History, *, slack: float = SLACK, fast: float = 0.0, slow: float = 0.0) -> list[Violation]:
    """Return every breach in the order in which they happened.

    The clocks of controllers are up to ``fast`` seconds ahead of true time, and up to ``slow`` behind.
    """
    state, calm = State(slack), Calm(fast, slow)
    found: list[Violation] = []
    for record in history:
        wrong = [
            *check_runs(record, state),
            *check_orchestration(record, state),
            *calm.check(record, state),
            *check_statuses(record),
        ]
        found += [Violation(invariant, record.at, text) for invariant, text in wrong]
        state.take(record)
    return found
