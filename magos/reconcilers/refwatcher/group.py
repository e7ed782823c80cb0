"""All entries that one listing answers, and when it is due: a closed form of what has happened and what is in force."""

from collections import Counter
from enum import StrEnum

from magos.reconcilers.refwatcher.watch import ListingKey, Watch

Name = tuple[str, str]
"""Namespace and name of a Workspace."""

LONGEST_RETRY = 30.0
"""Seconds after which an error is looked at again at the latest."""


class State(StrEnum):
    WAITING = "waiting"
    PARKED = "parked"
    QUEUED = "queued"
    RUNNING = "running"


class Group:
    """All entries of one listing. It is next made when ``share`` of an interval has passed since ``begun``."""

    __slots__ = (
        "begun",
        "due",
        "host",
        "intervals",
        "key",
        "members",
        "not_before",
        "serial",
        "share",
        "state",
        "troubled",
        "wanted",
    )

    def __init__(self, key: ListingKey, host: str, begun: float, share: float) -> None:
        self.key = key
        self.host = host
        self.members: dict[Name, Watch] = {}
        self.intervals: Counter[float] = Counter()
        self.begun = begun
        self.share = share
        self.due = begun
        self.troubled = False
        self.not_before = 0.0
        self.wanted: float | None = None  # asked for besides, until the next listing is made
        self.state = State.WAITING
        self.serial = 0

    def put(self, name: Name, watch: Watch) -> None:
        self.remove(name)
        self.members[name] = watch
        self.intervals[watch.interval] += 1

    def remove(self, name: Name) -> None:
        former = self.members.pop(name, None)
        if former is not None:
            self.intervals[former.interval] -= 1
            if not self.intervals[former.interval]:
                del self.intervals[former.interval]

    def reckon(self) -> float:
        """Return when the next listing is due."""
        interval = min(self.intervals)
        pause = min(interval, LONGEST_RETRY) if self.troubled else interval
        due = self.begun + self.share * pause
        return max(due if self.wanted is None else min(due, self.wanted), self.not_before)
