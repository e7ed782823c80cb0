"""Which listing is made next, and when: registry, heap by due time and bounded queue as one pure state machine.

Callers pass the time in seconds of any monotonic clock and the random draws; it sets no timer and does no I/O.

1. A new listing is first due uniformly within its interval; then an interval after each answer, the smallest among its
   entries. After an error it is due after 30 s at the latest, but never before the server wants to be asked again.
2. An entry whose URL or target changed has forgotten everything and is due at once. A changed interval counts from the
   last answer, or from the beginning of a new listing, and acts at once.
3. Each entry is polled again and again for as long as it exists: a full queue or a slow server delays, nothing drops.
4. An answer reaches all entries that were asked for and still ask the same.
5. It is remembered for a while which failures were told, so that those that take turns are not told each time.
"""

import heapq
from collections import deque
from collections.abc import Mapping

from msgspec import Struct, field

from magos.reconcilers.refwatcher.group import Group, Name, State
from magos.reconcilers.refwatcher.hosts import Hosts
from magos.reconcilers.refwatcher.machine import Failure, PollAnswer
from magos.reconcilers.refwatcher.watch import Access, ListingKey, Watch

LONGEST_PENALTY = 3600.0
"""Seconds for which a server can ask not to be asked."""

SLOW = 5.0
"""Seconds from which on an answer is not one in good time."""


TOLD_FOR = 600.0
"""Seconds for which a failure that was told is not told again because its text, or what failed in between, differs."""


class PollLimits(Struct, frozen=True, kw_only=True):
    """Listings at a time, and how many more may be queued for them."""

    workers: int = 20
    queue: int = 200


class Poll(Struct, frozen=True, kw_only=True):
    """One listing to be made; ``namespace`` is where the access' Secret is."""

    key: ListingKey
    namespace: str
    access: Access
    members: Mapping[Name, Watch]

    @property
    def targets(self) -> tuple[str, ...]:
        """What the listing is to answer, each once."""
        return tuple(sorted({watch.target for watch in self.members.values()}))


class Listing(Struct, frozen=True, kw_only=True):
    """The answer: a commit or a failure for each target, nothing at all if the server was not asked.

    ``seconds`` is how long the server took, None if it was not asked; ``retry_after`` how long it
    wants to be left alone.
    """

    results: Mapping[str, str | Failure] = field(default_factory=dict)
    seconds: float | None = None
    retry_after: float = 0.0


class _Entry:
    """One Workspace; ``pending`` is the poll answer that is not dealt with yet.

    ``told`` says until when the reasons of failures are not told again.
    """

    __slots__ = ("errors", "pending", "told", "watch")

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.pending: PollAnswer | None = None
        self.errors = 0
        self.told: dict[str, float] = {}


class PollScheduler:
    """See the module."""

    def __init__(self, limits: PollLimits) -> None:
        self._limits = limits
        self._entries: dict[Name, _Entry] = {}
        self._groups: dict[ListingKey, Group] = {}
        self._heap: list[tuple[float, int, Group]] = []
        self._queue: deque[Group] = deque()
        self._hosts: Hosts[Group] = Hosts(limits.workers)
        self._running = 0
        self._serial = 0

    # --- the registry ---------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Return the number of Workspaces that are polled."""
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def names(self) -> tuple[Name, ...]:
        """Return the Workspaces that are polled."""
        return tuple(self._entries)

    @property
    def depth(self) -> int:
        """Listings that are queued for a worker."""
        return len(self._queue)

    @property
    def running(self) -> int:
        """Listings under way."""
        return self._running

    def track(self, name: Name, watch: Watch, now: float, draw: float) -> None:
        """Poll a Workspace as ``watch`` says; ``draw`` in [0, 1) decides when a new listing is first due."""
        entry = self._entries.get(name)
        if entry is not None and entry.watch.uid != watch.uid:
            self.drop(name)
            entry = None
        if entry is None:
            self._entries[name] = _Entry(watch)
            self._join(name, watch, now, draw)
            return
        before, entry.watch = entry.watch, watch
        if not watch.same_question(before):
            entry.pending, entry.errors = None, 0
            entry.told.clear()
        if watch.key == before.key:
            group = self._groups[watch.key]
            group.put(name, watch)
            if watch.target != before.target:
                self._want(group, now)
            self._reckon(group)
            return
        self._leave(name, before)
        self._join(name, watch, now, 0.0)

    def drop(self, name: Name) -> None:
        """Poll a Workspace no more; it need not be known."""
        entry = self._entries.pop(name, None)
        if entry is not None:
            self._leave(name, entry.watch)

    def watch(self, name: Name) -> Watch | None:
        """Return how a Workspace is polled."""
        entry = self._entries.get(name)
        return None if entry is None else entry.watch

    def answer(self, name: Name) -> PollAnswer | None:
        """Return the poll answer for a Workspace that is not dealt with yet."""
        entry = self._entries.get(name)
        return None if entry is None else entry.pending

    def done(self, name: Name, told: str, now: float) -> None:
        """Note that the poll answer is dealt with, and the reason of a failure that the Workspace tells by now."""
        entry = self._entries.get(name)
        if entry is not None:
            entry.pending = None
            if told and told not in self.told(name, now):
                entry.told[told] = now + TOLD_FOR

    def told(self, name: Name, now: float) -> frozenset[str]:
        """Return the reasons of failures that were told within ``TOLD_FOR``."""
        entry = self._entries.get(name)
        return frozenset() if entry is None else frozenset(each for each, until in entry.told.items() if now < until)

    # --- polling --------------------------------------------------------------------------------------------------

    def next_due(self) -> float | None:
        """Return when ``take`` may return something that it does not return now; None: not before another call."""
        if len(self._queue) >= self._limits.queue:
            return None
        while self._heap and not _is_live(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def take(self, now: float) -> Poll | None:
        """Return a listing that is to be made now, None if there is none or every worker has one."""
        self._admit(now)
        while self._queue and self._running < self._limits.workers:
            group = self._queue.popleft()
            if not group.members:  # the last member left while it was queued
                self._hosts.release(group, group.host, prompt=None)
                self._retire(group)
                self._admit(now)
                continue
            group.state, group.wanted = State.RUNNING, None
            self._running += 1
            first = min(group.members)
            return Poll(
                key=group.key,
                namespace=first[0],
                access=group.members[first].access,
                members=dict(group.members),
            )
        return None

    def finish(self, poll: Poll, listing: Listing, now: float) -> tuple[Name, ...]:
        """Take the answer to a listing; return the Workspaces that have a poll answer."""
        group = self._groups[poll.key]
        self._running -= 1
        prompt = None if listing.seconds is None else listing.seconds < SLOW
        self._hosts.release(group, group.host, prompt=prompt)
        answered = [name for name, watch in poll.members.items() if self._take_answer(name, watch, listing)]
        troubled = not listing.results or any(isinstance(each, Failure) for each in listing.results.values())
        if group.members:
            group.begun, group.share, group.troubled = now, 1.0, troubled
            group.not_before = now + min(max(listing.retry_after, 0.0), LONGEST_PENALTY)
            self._wait(group, group.reckon())
        else:
            self._retire(group)
        return tuple(answered)

    # --- inside ---------------------------------------------------------------------------------------------------

    def _take_answer(self, name: Name, asked: Watch, listing: Listing) -> bool:
        entry = self._entries.get(name)
        result = listing.results.get(asked.target)
        if entry is None or result is None or not entry.watch.same_question(asked):
            return False
        if isinstance(result, Failure):
            entry.errors += 1
            entry.pending = PollAnswer(failure=result, errors=entry.errors)
        else:
            entry.errors = 0
            entry.pending = PollAnswer(sha=result)
        return True

    def _join(self, name: Name, watch: Watch, now: float, share: float) -> None:
        """Take part in a listing; a new one is made when ``share`` of the interval has passed."""
        group = self._groups.get(watch.key)
        if group is None:
            group = Group(watch.key, watch.host, now, share)
            group.put(name, watch)
            self._groups[watch.key] = group
            self._hosts.enter(group, group.host)
            self._wait(group, group.reckon())
            return
        group.put(name, watch)
        if share == 0.0:
            self._want(group, now)
        self._reckon(group)

    def _leave(self, name: Name, watch: Watch) -> None:
        group = self._groups[watch.key]
        group.remove(name)
        if group.members or group.state in (State.QUEUED, State.RUNNING):
            self._reckon(group)
            return
        if group.state is State.PARKED:
            self._hosts.withdraw(group, group.host)
        self._retire(group)

    def _retire(self, group: Group) -> None:
        del self._groups[group.key]
        self._hosts.leave(group, group.host)
        group.serial = 0

    def _want(self, group: Group, when: float) -> None:
        group.wanted = when if group.wanted is None else min(when, group.wanted)

    def _reckon(self, group: Group) -> None:
        """Move the due time of a listing that nobody makes yet to where it belongs by now."""
        if group.state is State.WAITING and (due := group.reckon()) != group.due:
            self._wait(group, due)

    def _wait(self, group: Group, due: float) -> None:
        self._serial += 1
        group.state, group.due, group.serial = State.WAITING, due, self._serial
        heapq.heappush(self._heap, (due, group.serial, group))

    def _admit(self, now: float) -> None:
        """Let what is due into the queue, as far as there is room and its server has a slot."""
        while len(self._queue) < self._limits.queue and (parked := self._hosts.next_parked()) is not None:
            self._enqueue(parked)
        while (due := self.next_due()) is not None and due <= now:
            group = heapq.heappop(self._heap)[2]
            group.serial = 0
            if self._hosts.take(group, group.host):
                self._enqueue(group)
            else:
                group.state = State.PARKED

    def _enqueue(self, group: Group) -> None:
        group.state = State.QUEUED
        self._queue.append(group)


def _is_live(item: tuple[float, int, Group]) -> bool:
    return item[2].serial == item[1]
