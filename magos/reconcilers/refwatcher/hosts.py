"""How many listings may be under way at one server, so that what is slow delays nothing else.

Slowness is the repository's first. One that was answered in good time the last time is *prompt*, one that was not is
*slow*, one that was never asked is *new*; each kind waits for itself.

1. A server has half of the workers at most. New and slow repositories leave one of them to prompt ones, and slow ones
   take one.
2. A server is slow itself if most of the repositories that it answered for last were slow. Then its prompt ones share
   one worker: enough if it is them that are well, and little if it is the server that is ill.
3. All that is not prompt on a server that is not slow has half of the workers together, all servers counted.

A repository without a slot waits here, not in the queue: what is in the queue can be worked on as soon as any worker
is free.
"""

from collections import OrderedDict, deque
from collections.abc import Hashable
from enum import IntEnum
from typing import Generic, TypeVar

G = TypeVar("G", bound=Hashable)

_RECENT = 8
"""Repositories whose last answers tell whether their server is slow."""


class Lane(IntEnum):
    """What is known about a repository; the first has precedence."""

    PROMPT = 0
    NEW = 1
    SLOW = 2


class _Host(Generic[G]):
    __slots__ = ("busy", "parked", "recent", "users")

    def __init__(self) -> None:
        self.users = 0
        self.busy = dict.fromkeys(Lane, 0)
        self.parked: dict[Lane, deque[G]] = {lane: deque() for lane in Lane}
        self.recent: OrderedDict[G, bool] = OrderedDict()  # whether the answer was slow

    @property
    def slow(self) -> bool:
        return 2 * sum(self.recent.values()) > len(self.recent)

    def answered(self, item: G, *, slow: bool) -> None:
        self.recent[item] = slow
        self.recent.move_to_end(item)
        if len(self.recent) > _RECENT:
            self.recent.popitem(last=False)


class Hosts(Generic[G]):
    """The slots of all servers; ``G`` is what takes them: a repository with its credentials."""

    def __init__(self, workers: int) -> None:
        self._half = max(1, workers // 2)
        self._hosts: dict[str, _Host[G]] = {}
        self._lanes: dict[G, Lane] = {}
        self._held: dict[G, tuple[Lane, bool]] = {}  # the lane, and whether it counts among the suspects
        self._suspects = 0
        self._parking: dict[str, None] = {}  # servers that a user is parked for

    def enter(self, item: G, host: str) -> None:
        """Remember the server, and what is known about its user, for as long as they are used."""
        self._hosts.setdefault(host, _Host()).users += 1
        self._lanes[item] = Lane.NEW

    def leave(self, item: G, host: str) -> None:
        """One user less; the last one takes what is known about the server with it."""
        known = self._hosts[host]
        known.users -= 1
        known.recent.pop(item, None)
        del self._lanes[item]
        if known.users == 0:
            del self._hosts[host]

    def take(self, item: G, host: str) -> bool:
        """Take a slot for a user of the server, or be parked until ``next_parked`` returns it."""
        known, lane = self._hosts[host], self._lanes[item]
        if not known.parked[lane] and self._fits(known, lane):
            self._occupy(known, item, lane)
            return True
        known.parked[lane].append(item)
        self._parking[host] = None
        return False

    def next_parked(self) -> G | None:
        """Give a slot to a parked user and return it, None if there is no slot for any.

        Who is probably well comes first: prompt before new before slow ones, and new ones of servers that are not slow
        before others.
        """
        best: tuple[tuple[Lane, bool], str] | None = None
        for host in self._parking:
            known = self._hosts[host]
            for lane in Lane:
                rank = (lane, known.slow)
                if known.parked[lane] and (best is None or rank < best[0]) and self._fits(known, lane):
                    best = (rank, host)
        if best is None:
            return None
        (lane, _), host = best
        known = self._hosts[host]
        item = known.parked[lane].popleft()
        self._tidy(host)
        self._occupy(known, item, lane)
        return item

    def withdraw(self, item: G, host: str) -> None:
        """Park no more."""
        self._hosts[host].parked[self._lanes[item]].remove(item)
        self._tidy(host)

    def release(self, item: G, host: str, *, prompt: bool | None) -> None:
        """Give a slot back; ``prompt`` tells whether the server answered in good time, None if it was not asked."""
        known = self._hosts[host]
        lane, suspect = self._held.pop(item)
        known.busy[lane] -= 1
        self._suspects -= suspect
        if prompt is not None:
            self._lanes[item] = Lane.PROMPT if prompt else Lane.SLOW
            known.answered(item, slow=not prompt)

    def _fits(self, host: _Host[G], lane: Lane) -> bool:
        if sum(host.busy.values()) >= self._half or (self._is_suspect(host, lane) and self._suspects >= self._half):
            return False
        if lane is Lane.PROMPT:
            return not host.slow or host.busy[lane] == 0
        if host.busy[Lane.NEW] + host.busy[Lane.SLOW] >= max(1, self._half - 1):
            return False
        return lane is Lane.NEW or host.busy[lane] == 0

    def _is_suspect(self, host: _Host[G], lane: Lane) -> bool:
        return lane is not Lane.PROMPT or host.slow

    def _occupy(self, host: _Host[G], item: G, lane: Lane) -> None:
        suspect = self._is_suspect(host, lane)
        host.busy[lane] += 1
        self._held[item] = (lane, suspect)
        self._suspects += suspect

    def _tidy(self, host: str) -> None:
        if not any(self._hosts[host].parked.values()):
            del self._parking[host]
