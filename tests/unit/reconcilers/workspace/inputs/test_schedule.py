"""Spec §6.2.2 as properties: the closed form against a naive walk, and what follows from it."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from magos.reconcilers.storedtimes import SKEW
from magos.reconcilers.workspace.inputs.schedule import advance

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
intervals = st.integers(10, 5000).map(lambda seconds: timedelta(seconds=seconds))
offsets = st.integers(-100_000, 100_000).map(lambda seconds: timedelta(seconds=seconds))


def naive(now: datetime, interval: timedelta, stored: datetime, former: timedelta) -> tuple[bool, datetime]:
    """The definition of the specification, step by step."""
    tick = stored
    if former != interval or stored > now + interval + SKEW:
        while tick > now:
            tick -= former
        tick += interval
    due = tick <= now
    while due and tick <= now:
        tick += interval
    return due, tick


@given(intervals, intervals, offsets)
def test_the_closed_form_is_the_definition(interval: timedelta, former: timedelta, offset: timedelta) -> None:
    schedule = advance(NOW, interval, NOW + offset, former)
    assert (schedule.due, schedule.next) == naive(NOW, interval, NOW + offset, former)


@given(intervals)
def test_a_workspace_that_never_ran_is_not_due(interval: timedelta) -> None:
    schedule = advance(NOW, interval, None, None)
    assert (schedule.due, schedule.next) == (False, NOW + interval)


@given(intervals, offsets)
def test_the_next_tick_is_after_now_and_keeps_its_anchor(interval: timedelta, offset: timedelta) -> None:
    stored = NOW + offset
    schedule = advance(NOW, interval, stored, interval)
    assert schedule.next > NOW
    assert (schedule.next - stored) % interval == timedelta(0)
    if schedule.due:
        assert schedule.next - NOW <= interval


@given(intervals, offsets)
def test_looking_twice_at_one_instant_is_due_once(interval: timedelta, offset: timedelta) -> None:
    first = advance(NOW, interval, NOW + offset, interval)
    second = advance(NOW, interval, first.next, interval)
    assert (second.due, second.next) == (False, first.next)


@given(intervals, intervals, st.integers(1, 5000))
def test_a_changed_interval_starts_a_run_only_if_that_is_overdue(
    interval: timedelta, former: timedelta, ahead: int
) -> None:
    stored = NOW + min(timedelta(seconds=ahead), former)
    last = stored - former
    schedule = advance(NOW, interval, stored, former)
    if former != interval:
        assert schedule.due == (last + interval <= NOW)
        assert schedule.next <= NOW + interval


def test_a_year_of_missed_ticks_is_one_run() -> None:
    schedule = advance(NOW, timedelta(minutes=3), NOW - timedelta(days=365), timedelta(minutes=3))
    assert schedule.due
    assert NOW < schedule.next <= NOW + timedelta(minutes=3)
