"""I15, I16 and I21: nothing runs hot, a commit causes one run at once, and only ticks move the schedule."""

from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from datetime import timedelta

from magos.api.annotations import DETECTED_REVISION, MINIMUM_RECONCILE_INTERVAL
from magos.api.names import JobType
from magos.api.timestamps import parse_time
from magos.api.triggers import Trigger
from magos.durations import parse_duration
from magos.reconcilers.storedtimes import SKEW
from tests.sim.history.records import CONTROLLERS, JobCreated, Owner, Record, WorkspaceWritten
from tests.sim.history.state import State, owner_of
from tests.sim.virtualtime import EPOCH

__all__ = ["Calm"]

Found = Iterator[tuple[str, str]]
MOST_WRITES = 90
"""Writes that one controller may make to one object in one minute; a whole run takes fewer than 20.

One that writes without end is slowed down and comes to 120 in its first minute. Other requests: ``pace.py``."""

_TICKING = (Trigger.SCHEDULED, Trigger.RETRY)


class Calm:
    """Keeps the counts of one history; clocks of controllers may be ``fast`` ahead and ``slow`` behind, in seconds."""

    def __init__(self, fast: float = 0.0, slow: float = 0.0) -> None:
        self._fast, self._slow = fast, slow
        self._writes: defaultdict[tuple[str, Owner], deque[float]] = defaultdict(deque)
        self._told: Counter[tuple[Owner, str]] = Counter()
        self._runs: Counter[tuple[Owner, str]] = Counter()
        self._ticks: defaultdict[Owner, deque[float]] = defaultdict(deque)

    def check(self, record: Record, state: State) -> Found:
        """Yield (invariant, what is wrong) for one record that is about to become true."""
        match record:
            case WorkspaceWritten():
                self._note_commit(record)
                yield from self._pace(record)
                yield from _schedule(record, self._fast, self._slow)
            case JobCreated() if record.job_type is JobType.PLAN:
                yield from self._plan(record, state)

    def _pace(self, record: WorkspaceWritten) -> Found:
        if record.actor not in CONTROLLERS:
            return
        recent = self._writes[record.actor, owner_of(record)]
        recent.append(record.at)
        while recent[0] < record.at - 60:
            recent.popleft()
        if len(recent) == MOST_WRITES + 1:
            yield "I15", f"{record.actor} wrote {owner_of(record)} {len(recent)} times within a minute"

    def _note_commit(self, record: WorkspaceWritten) -> None:
        new = record.new.metadata.annotations.get(DETECTED_REVISION, "") if record.new is not None else ""
        old = record.old.metadata.annotations.get(DETECTED_REVISION, "") if record.old is not None else ""
        if new and new != old:
            self._told[owner_of(record), new] += 1

    def _plan(self, record: JobCreated, state: State) -> Found:
        live = state.workspaces.get(record.workspace)
        if live is None:
            return
        trigger = live.status.current_run_trigger
        run = live.status.current_run
        repeated = run is not None and run.interruptions > 0  # bounded, and after a pause
        if trigger is Trigger.REVISION and not repeated:
            key = (record.workspace, record.revision)
            self._runs[key] += 1
            if self._runs[key] > self._told[key]:
                yield "I15", f"commit {record.revision} caused run {self._runs[key]} of {record.workspace} at once"
        if trigger in _TICKING:
            recent = self._ticks[record.workspace]
            recent.append(record.at)
            while recent[0] < record.at - 60:
                recent.popleft()
            # A start may come late, so that two are close together; ticks themselves are never.
            if len(recent) > 60 / MINIMUM_RECONCILE_INTERVAL.total_seconds() + 1:
                yield "I21", f"{record.workspace} was started by {len(recent)} ticks within a minute"


def _schedule(record: WorkspaceWritten, fast: float, slow: float) -> Found:
    old, new = record.old, record.new
    if old is None or new is None or record.actor != "workspace":
        return
    before, after = old.status.next_reconcile_time, new.status.next_reconcile_time
    same = old.status.observed_reconcile_interval == new.status.observed_reconcile_interval
    if not before or not after or before == after or not same:
        return
    tick, interval = parse_time(before), parse_duration(old.status.observed_reconcile_interval)
    # A clock that is slow by more than a minute does not believe the tick, and moves it along its cadence.
    unbelievable = tick > EPOCH + timedelta(seconds=record.at - slow) + interval + SKEW
    if unbelievable and not (tick - parse_time(after)) % interval:
        return
    if tick > EPOCH + timedelta(seconds=record.at + fast + 1):
        yield "I16", f"the next tick of {owner_of(record)} moved from {before} to {after} before it was due"
