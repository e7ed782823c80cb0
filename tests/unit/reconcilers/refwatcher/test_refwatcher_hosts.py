"""What is slow delays nothing else: slots of servers, whose repositories are judged one by one (spec §6.7)."""

import heapq
import itertools
import random
from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from magos.reconcilers.refwatcher.hosts import Hosts
from magos.reconcilers.refwatcher.schedule import Listing, Poll, PollLimits, PollScheduler
from magos.reconcilers.refwatcher.watch import Watch

INTERVAL, TIMEOUT = 30.0, 10.0


def proven(hosts: Hosts[str], *items: str, prompt: bool = True, host: str = "h") -> None:
    for item in items:
        assert hosts.take(item, host)
        hosts.release(item, host, prompt=prompt)


def entered(workers: int, *items: str, host: str = "h") -> Hosts[str]:
    hosts: Hosts[str] = Hosts(workers)
    for item in items:
        hosts.enter(item, host)
    return hosts


def test_new_and_slow_repositories_leave_a_worker_to_those_that_are_well() -> None:
    hosts = entered(8, *"abcdw")
    proven(hosts, "w")
    assert [hosts.take(item, "h") for item in "abcd"] == [True, True, True, False]
    assert hosts.take("w", "h")


def test_slow_repositories_of_a_server_share_one_worker_and_come_last() -> None:
    hosts = entered(8, *"abnw")
    proven(hosts, "w", "a", "b", prompt=True)
    proven(hosts, "a", "b", prompt=False)
    assert hosts.take("a", "h")
    assert not hosts.take("b", "h")
    assert hosts.take("n", "h")
    hosts.release("a", "h", prompt=False)
    assert hosts.next_parked() == "b"


def test_a_server_most_of_whose_repositories_became_slow_has_one_worker_for_those_that_were_well() -> None:
    items = [f"r{number}" for number in range(20)]
    hosts = entered(8, *items)
    proven(hosts, *items)
    assert [hosts.take(item, "h") for item in items[:5]] == [True] * 4 + [False]
    for item in items[:4]:
        hosts.release(item, "h", prompt=False)
    assert hosts.next_parked() == items[4], "four of the last eight are not most of them"
    hosts.release(items[4], "h", prompt=False)
    assert hosts.take(items[5], "h")
    assert not hosts.take(items[6], "h")


def test_one_slow_repository_that_is_asked_often_makes_no_slow_server() -> None:
    hosts = entered(8, *"abcs")
    proven(hosts, *"abc")
    for _ in range(20):
        proven(hosts, "s", prompt=False)
    assert [hosts.take(item, "h") for item in "abc"] == [True, True, True]


class HostsMachine(RuleBasedStateMachine):
    """Any order of taking, answering and leaving: limits hold, and nobody is forgotten."""

    @initialize(workers=st.integers(1, 12))
    def start(self, workers: int) -> None:
        self.half = max(1, workers // 2)
        self.hosts: Hosts[str] = Hosts(workers)
        self.idle = [f"{host}{number}" for host in "xy" for number in range(8)]
        self.last: dict[str, bool | None] = dict.fromkeys(self.idle)
        self.parked: list[str] = []
        self.busy: list[str] = []
        for item in self.idle:
            self.hosts.enter(item, item[0])

    @precondition(lambda self: bool(self.idle))
    @rule(data=st.data())
    def take(self, data: st.DataObject) -> None:
        item = self.idle.pop(data.draw(st.integers(0, len(self.idle) - 1)))
        (self.busy if self.hosts.take(item, item[0]) else self.parked).append(item)

    @precondition(lambda self: bool(self.busy))
    @rule(data=st.data(), prompt=st.sampled_from([None, True, False]))
    def answer(self, data: st.DataObject, prompt: bool | None) -> None:
        item = self.busy.pop(data.draw(st.integers(0, len(self.busy) - 1)))
        self.hosts.release(item, item[0], prompt=prompt)
        self.last[item] = self.last[item] if prompt is None else prompt
        self.idle.append(item)

    @precondition(lambda self: bool(self.parked))
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        item = self.parked.pop(data.draw(st.integers(0, len(self.parked) - 1)))
        self.hosts.withdraw(item, item[0])
        self.idle.append(item)

    @rule()
    def wake(self) -> None:
        while (item := self.hosts.next_parked()) is not None:
            self.parked.remove(item)
            self.busy.append(item)

    @invariant()
    def limits_hold(self) -> None:
        if not hasattr(self, "hosts"):
            return
        for host in "xy":
            mine = [item for item in self.busy if item[0] == host]
            assert len(mine) <= self.half
            assert sum(self.last[item] is False for item in mine) <= 1
            assert sum(self.last[item] is not True for item in mine) <= max(1, self.half - 1)
        assert sum(self.last[item] is not True for item in self.busy) <= self.half

    def teardown(self) -> None:
        if not hasattr(self, "hosts"):
            return
        for _ in range(len(self.last) + 1):
            for item in self.busy:
                self.hosts.release(item, item[0], prompt=True)
            self.busy = []
            self.wake()
        assert not self.parked, "whoever waits is served once others are done"
        for item in self.busy:
            self.hosts.release(item, item[0], prompt=True)
        for item in self.last:
            self.hosts.leave(item, item[0])


TestHostsMachine = HostsMachine.TestCase
TestHostsMachine.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


@settings(max_examples=25, deadline=None)
@given(hanging=st.integers(0, 40), well=st.integers(1, 8), workers=st.integers(10, 30), seed=st.integers(0, 99))
def test_repositories_that_are_well_are_polled_on_time_whatever_hangs_beside_them(
    hanging: int, well: int, workers: int, seed: int
) -> None:
    rng, schedule = random.Random(seed), PollScheduler(PollLimits(workers=workers))
    asked: dict[str, list[float]] = defaultdict(list)
    names = [f"hangs{number}" for number in range(hanging)] + [f"well{number}" for number in range(well)]
    for name in rng.sample(names, len(names)):
        watch = Watch(uid="1", url=name, target="main", interval=INTERVAL, host="h")
        schedule.track(("n", name), watch, 0.0, rng.random())
    now, serial, ends = 0.0, 0, list[tuple[float, int, Poll]]()
    while now < 600.0:
        while (poll := schedule.take(now)) is not None:
            asked[poll.key.url].append(now)
            serial += 1
            heapq.heappush(ends, (now + (TIMEOUT if "hangs" in poll.key.url else 0.1), serial, poll))
        due = schedule.next_due()
        now = min([each for each in (due, ends[0][0] if ends else None) if each is not None], default=600.0)
        while ends and ends[0][0] <= now:
            _, _, poll = heapq.heappop(ends)
            seconds = TIMEOUT if "hangs" in poll.key.url else 0.1
            schedule.finish(poll, Listing(results=dict.fromkeys(poll.targets, "a" * 40), seconds=seconds), now)
    discovery = INTERVAL + TIMEOUT * (1 + hanging / max(1, workers // 2 - 1))
    for name in names:
        if name.startswith("well"):
            assert asked[name][0] <= discovery
            late = [each for each in asked[name] if each > discovery]
            assert all(b - a < INTERVAL + 1.0 for a, b in itertools.pairwise(late))
        assert asked[name], "nobody is forgotten"
