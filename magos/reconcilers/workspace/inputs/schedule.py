"""The schedule of a Workspace (spec §6.2.2): a pure function of the stored tick, two intervals and the clock.

1. No stored tick: the next one is an interval away, nothing is due.
2. A changed interval moves the anchor to the latest former tick (or what would have been one) that is not in the
   future; the next tick is one new interval behind it. So does a tick further ahead than an interval: the clock was set
   back, or somebody else has written it.
3. A tick is due if it is not in the future; then it moves by the smallest number of intervals that puts it after now.

Everything is computed in closed form: a tick missed a year ago costs no more than one missed a second ago.
"""

from datetime import datetime, timedelta

from msgspec import Struct

from magos.api.workspace import Workspace
from magos.durations import parse_duration
from magos.reconcilers.storedtimes import believed, read_time
from magos.reconcilers.workspace.inputs.annotated import read_annotations


class Schedule(Struct, frozen=True, kw_only=True):
    """``due`` says that a tick has passed unanswered; ``next`` is the tick that follows, always after now."""

    due: bool
    next: datetime


def schedule_of(workspace: Workspace, now: datetime) -> Schedule:
    """Return the schedule of the Workspace at ``now``; a stored time that means nothing counts as none."""
    status = workspace.status
    asked = read_annotations(workspace.metadata.annotations)
    former = status.observed_reconcile_interval
    stored = read_time(status.next_reconcile_time)
    try:
        if former in ("", asked.printed):  # nearly always: then there is nothing to convert
            return advance(now, asked.interval, stored, None)
        return advance(now, asked.interval, stored, parse_duration(former))
    except (ValueError, OverflowError):
        return advance(now, asked.interval, None, None)


def advance(now: datetime, interval: timedelta, stored: datetime | None, former: timedelta | None) -> Schedule:
    """Return the schedule at ``now``.

    ``stored`` is the tick kept in status (None: never computed), ``former`` the interval it was computed with (None:
    unknown, taken as unchanged).
    """
    if stored is None:
        return Schedule(due=False, next=now + interval)
    tick = stored
    step = former or interval
    if step != interval or not believed(stored, now, interval):
        tick = _not_after(now, stored, step) + interval
    if tick > now:
        return Schedule(due=False, next=tick)
    return Schedule(due=True, next=tick + (((now - tick) // interval) + 1) * interval)


def _not_after(now: datetime, tick: datetime, step: timedelta) -> datetime:
    """The latest ``tick - k * step`` with an integer ``k >= 0`` that is not after ``now``."""
    if tick <= now:
        return tick
    return tick + ((now - tick) // step) * step
