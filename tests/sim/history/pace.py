"""I15: how often a controller asks for one thing within a minute, whatever the verb and whatever the answer.

Commits alone tell of no loop that only reads, that is refused, or that writes what is there already. The target of a
request is the object or the collection in its path; a status and its object are one target.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.sim.apiserver import Served

__all__ = ["Pace", "fastest", "paces"]

_MINUTE = 60.0
_NOT_COUNTED = ("/leases", "/events")
"""Leases have a pace of their own, and Events are told and forgotten."""


@dataclass(frozen=True, kw_only=True)
class Pace:
    """The most requests for one target within one minute."""

    requests: int
    user: str
    target: str
    at: float

    @property
    def of_workspace(self) -> bool:
        """True if the target belongs to one Workspace, false for what is about all members or for a collection."""
        return "/workspaces/" in self.target

    def __str__(self) -> str:
        return f"{self.user} asks {self.requests} times for {self.target} within the minute until {self.at:.3f} s"


def paces(served: Iterable[Served], users: Sequence[str]) -> list[Pace]:
    """Return for each of these users and each target the busiest minute."""
    most: dict[tuple[str, str], Pace] = {}
    recent: dict[tuple[str, str], deque[float]] = {}
    for each in served:
        if each.user not in users or any(part in each.path for part in _NOT_COUNTED):
            continue
        key = (each.user, each.path.removesuffix("/status"))
        times = recent.setdefault(key, deque())
        times.append(each.at)
        while times[0] < each.at - _MINUTE:
            times.popleft()
        if key not in most or len(times) > most[key].requests:
            most[key] = Pace(requests=len(times), user=key[0], target=key[1], at=each.at)
    return list(most.values())


def fastest(served: Iterable[Served], users: Sequence[str]) -> Pace:
    """Return the busiest of all; somebody must have asked for something."""
    return max(paces(served, users), key=lambda pace: pace.requests)
