"""Whether infrastructure ended a plan or an apply, and when a plan is repeated for it (spec §6.2.9).

A drain, an eviction, a preemption, a shutdown, a node that is gone, and a Job or pod that somebody removed look alike
from here: what worked was taken away. A deadline, exhausted memory and whatever the runner itself says went wrong are
no interruptions.
"""

from datetime import datetime, timedelta

from magos.api.reasons import Reason
from magos.api.result import Outcome
from magos.api.timestamps import parse_time
from magos.reconcilers.workspace.evidence.podproblems import end_cause
from magos.reconcilers.workspace.evidence.results import Evidence
from magos.reconcilers.workspace.evidence.situations import JobEnded, JobMissing
from magos.reconcilers.workspace.observation import Observation

MOST_REPETITIONS = 3
"""So often in a row a plan is repeated by itself."""

_FIRST_PAUSE = timedelta(seconds=30)
_BY_PODS = frozenset({"", "BackoffLimitExceeded"})
"""Reasons of the Job controller that only repeat that the pod failed."""


def interrupted(found: JobEnded | JobMissing, evidence: Evidence) -> bool:
    """Tell whether infrastructure ended this half of a run; ``evidence`` has been looked for on live reads."""
    job, result = found.job if isinstance(found, JobEnded) else None, evidence.result
    if job is not None and job.failed is not None and job.failed.reason not in _BY_PODS:
        return False
    if result is not None and result.result is Outcome.FAILED:
        return result.reason == Reason.INTERRUPTED
    if result is not None and (job is None or job.failed is None):
        return False
    if job is not None and job.complete:
        return not found.pods
    cause = end_cause(job, found.pods)
    return not found.pods if cause is None else cause.interrupted


def pause_before(repetition: int) -> timedelta:
    """Return how long the first, second, ... repetition in a row waits: each twice as long as the one before."""
    doubled: int = 2 ** (repetition - 1)
    return _FIRST_PAUSE * doubled


def paused_until(seen: Observation) -> datetime | None:
    """Return when a repetition that still pauses may begin, None if nothing keeps the run.

    A time further away than any pause is none of ours, or the clock was set back: it is not waited for.
    """
    try:
        begins = parse_time(seen.run.not_before or "")
    except ValueError:
        return None
    longest = pause_before(MOST_REPETITIONS) + timedelta(seconds=1)
    return begins if timedelta() < begins - seen.now <= longest else None
