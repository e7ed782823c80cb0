"""A Job of which no container has started: how long it may take, when to look again, and what keeps it (spec §6.2.9).

A start may take ``MAGOS_JOB_START_TIMEOUT``. After that it is given up, whoever waits for it: the run, or the deletion
of the Workspace.
"""

from datetime import datetime, timedelta

from msgspec import Struct

from magos.api.kube import Job
from magos.api.timestamps import parse_time
from magos.durations import format_duration
from magos.reconcilers.workspace.observation import Observation

__all__ = ["Unstarted", "unstarted"]

_PATIENCE = timedelta(seconds=10)
"""An ordinary start takes this long; only then is a cause looked for and shown."""

_LOOK_AGAIN = timedelta(seconds=15)


class Unstarted(Struct, frozen=True, kw_only=True):
    """Where such a Job stands. ``early``: nothing is odd yet. ``expired``: the start is to be given up.

    ``again_at`` is when the next look is due, None once the start has expired.
    """

    early: bool
    expired: bool
    again_at: datetime | None
    given_up: str
    """The beginning of what is said when the start is given up."""


def unstarted(seen: Observation, job: Job) -> Unstarted:
    """Return how far the start of ``job`` is; its age counts from its creation, never from the future."""
    created, limit = _created(job, seen.now), seen.settings.start_timeout
    age, patience = seen.now - created, min(_PATIENCE, limit)
    waited = format_duration(timedelta(seconds=int(age.total_seconds())))
    early, expired = age < patience, age >= limit
    again = created + patience if early else min(created + limit, seen.now + _LOOK_AGAIN)
    return Unstarted(
        early=early,
        expired=expired,
        again_at=None if expired else again,
        given_up=f"No container of Job {job.metadata.name} started within {waited}.",
    )


def _created(job: Job, now: datetime) -> datetime:
    """The server's time of creation; never in the future, whatever the clocks say."""
    try:
        return min(parse_time(job.metadata.creation_timestamp or ""), now)
    except ValueError:
        return now
