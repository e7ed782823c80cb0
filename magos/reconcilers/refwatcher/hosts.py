"""How many listings may be under way at one server, so that a slow one delays no other.

A server that answered its last listing in good time is *proven*; it may take up half of the workers. Any other (never
asked, or slow the last time) may take up one worker, and all of those together half of the workers. A listing
without a slot waits here, not in the queue: any free worker can take what is in the queue.
"""

from collections import deque
from typing import Generic, TypeVar

__all__ = ["Hosts"]

G = TypeVar("G")


class _Host(Generic[G]):
    __slots__ = ("asked", "busy", "parked", "proven", "suspects", "users")

    def __init__(self) -> None:
        self.users = 0
        self.busy = 0
        self.suspects = 0  # how many of them took their slot while the server was not proven
        self.asked = False
        self.proven = False
        self.parked: deque[G] = deque()


class Hosts(Generic[G]):
    """The slots of all servers; ``G`` is what takes them."""

    def __init__(self, workers: int) -> None:
        self._half = max(1, workers // 2)
        self._hosts: dict[str, _Host[G]] = {}
        self._suspects = 0
        self._parking: dict[str, None] = {}  # servers that a user is parked for

    def enter(self, host: str) -> None:
        """Remember the server for as long as it has users."""
        self._hosts.setdefault(host, _Host()).users += 1

    def leave(self, host: str) -> None:
        """One user less; the last one takes what is known about the server with it."""
        known = self._hosts[host]
        known.users -= 1
        if known.users == 0:
            del self._hosts[host]

    def take(self, item: G, host: str) -> bool:
        """Take a slot for a user of the server, or be parked until ``next_parked`` returns it."""
        known = self._hosts[host]
        if not known.parked and self._fits(known):
            self._occupy(known)
            return True
        known.parked.append(item)
        self._parking[host] = None
        return False

    def next_parked(self) -> G | None:
        """Give a slot to a parked user and return it, None if there is no slot for any.

        Servers that were never asked are probably fine: they come before those that are known to be slow.
        """
        chosen = None
        for host in self._parking:
            known = self._hosts[host]
            if self._fits(known):
                chosen = host
                if known.proven or not known.asked:
                    break
        if chosen is None:
            return None
        known = self._hosts[chosen]
        item = known.parked.popleft()
        if not known.parked:
            del self._parking[chosen]
        self._occupy(known)
        return item

    def withdraw(self, item: G, host: str) -> None:
        """Park no more."""
        known = self._hosts[host]
        known.parked.remove(item)
        if not known.parked:
            del self._parking[host]

    def release(self, host: str, *, prompt: bool | None) -> None:
        """Give a slot back; ``prompt`` tells whether the server answered in good time, None if it was not asked."""
        known = self._hosts[host]
        known.busy -= 1
        if known.suspects:
            known.suspects -= 1
            self._suspects -= 1
        if prompt is not None:
            known.asked, known.proven = True, prompt

    def _fits(self, host: _Host[G]) -> bool:
        if host.proven:
            return host.busy < self._half
        return host.busy < 1 and self._suspects < self._half

    def _occupy(self, host: _Host[G]) -> None:
        host.busy += 1
        if not host.proven:
            host.suspects += 1
            self._suspects += 1
