"""What a time that stands in an object is believed to say: the one rule for every stored time that is read back.

A clock that was set back, a restored backup or another hand leaves times in status and metadata that lie in the future.
No such time may put anything off for longer than the interval that it begins, plus ``SKEW`` for clocks that differ:

1. What is put off from a stored time on (``due_at``) is due at once where the time lies further ahead than that.
2. A tick of a schedule that lies further ahead is no tick; its schedule keeps the anchor (``inputs/schedule.py``).
3. An age that begins in the future is zero, and it begins anew at a time that is written down once
   (``begun_at``, ``mark_seen``).
"""

from datetime import UTC, datetime, timedelta

from magos.api.annotations import SEEN_AT
from magos.api.kube import JOBS, Job
from magos.api.timestamps import format_time, parse_time
from magos.runtime.decision import Effect, PatchAnnotations

SKEW = timedelta(minutes=1)
"""By so much the clocks of replicas, API server and whoever else writes times may differ unnoticed."""

_PAST = datetime(1970, 1, 1, tzinfo=UTC)


def believed(when: datetime, now: datetime, within: timedelta = timedelta(0)) -> bool:
    """Tell whether a stored time may count: it lies at most ``within`` and ``SKEW`` ahead of ``now``."""
    return when - now <= within + SKEW


def due_at(stored: str | None, interval: timedelta, now: datetime) -> datetime:
    """Return when what has to wait for ``interval`` from the ``stored`` time on is due.

    It is at most ``interval`` and ``SKEW`` after ``now``: a stored time that is not believed makes it due at once. One
    that cannot be read counts as long ago.
    """
    begun = read_time(stored)
    if begun is None:
        return _PAST
    return begun + interval if believed(begun, now) else now


def read_time(stored: str | None) -> datetime | None:
    """Return the stored time, None if there is none or it cannot be read."""
    try:
        return parse_time(stored or "")
    except ValueError:
        return None


def begun_at(job: Job, now: datetime, created_at: str = "") -> datetime | None:
    """Return when the age of a Job begins: at its mark, else at its creation; None if neither can be believed.

    The API server and the creating controller, whose time is ``created_at``, may disagree about the creation. The later
    time counts, so that no start is given up because one of their clocks is slow.
    """
    meta = job.metadata
    marked = read_time(meta.annotations.get(SEEN_AT))
    if marked is not None and believed(marked, now):
        return marked
    created = (read_time(each) for each in (meta.creation_timestamp, created_at))
    return max((each for each in created if each is not None and believed(each, now)), default=None)


def mark_seen(job: Job, now: datetime) -> Effect:
    """Return the write that says on the Job when it was seen."""
    meta, seen = job.metadata, {SEEN_AT: format_time(now)}
    return PatchAnnotations(kind=JOBS, namespace=meta.namespace, name=meta.name, uid=meta.uid, annotations=seen)
