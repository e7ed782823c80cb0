"""Delays: one entry an item, the earliest wins, nothing comes up before its time."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from magos.runtime.controller.scheduler import Scheduler

ITEMS = st.sampled_from("abcdef")


class SchedulerMachine(RuleBasedStateMachine):
    """Against a dictionary of times."""

    def __init__(self) -> None:
        super().__init__()
        self.scheduler: Scheduler[str] = Scheduler()
        self.model: dict[str, tuple[float, int]] = {}
        self.now = 0.0
        self.serial = 0

    @rule(item=ITEMS, delay=st.integers(-2, 10))
    def schedule(self, item: str, delay: int) -> None:
        when = self.now + delay
        taken = item not in self.model or when < self.model[item][0]
        assert self.scheduler.schedule(item, when) is taken
        if taken:
            self.serial += 1
            self.model[item] = (when, self.serial)

    @rule(item=ITEMS)
    def cancel(self, item: str) -> None:
        assert self.scheduler.cancel(item) is (self.model.pop(item, None) is not None)

    @rule(by=st.integers(0, 5))
    def advance(self, by: int) -> None:
        self.now += by
        due = sorted((entry, item) for item, entry in self.model.items() if entry[0] <= self.now)
        assert self.scheduler.pop_due(self.now) == [item for _, item in due]
        for _, item in due:
            del self.model[item]

    @rule()
    def clear(self) -> None:
        self.scheduler.clear()
        self.model.clear()

    @invariant()
    def agree(self) -> None:
        assert len(self.scheduler) == len(self.model)
        assert self.scheduler.next_due() == min((when for when, _ in self.model.values()), default=None)
        for item in "abcdef":
            assert self.scheduler.when(item) == (self.model[item][0] if item in self.model else None)
            assert (item in self.scheduler) is (item in self.model)


TestScheduler = SchedulerMachine.TestCase


@given(st.integers(1, 2000))
def test_rescheduling_for_ever_keeps_the_heap_small(times: int) -> None:
    scheduler: Scheduler[str] = Scheduler()
    for number in range(times):
        scheduler.schedule("a", 1e6 - number)
        scheduler.schedule(f"b{number}", 5)
        scheduler.cancel(f"b{number}")
    assert len(scheduler._heap) < 100
    assert scheduler.pop_due(2e6) == ["a"]


@pytest.mark.parametrize("when", [math.nan, math.inf, -math.inf])
def test_what_is_no_time_is_refused(when: float) -> None:
    with pytest.raises(ValueError, match="not a time"):
        Scheduler[str]().schedule("a", when)
