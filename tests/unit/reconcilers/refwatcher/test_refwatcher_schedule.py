"""When which source is listed: the registry, the heap and the queue (spec §6.7)."""

import random
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from magos.reconcilers.refwatcher.group import Name
from magos.reconcilers.refwatcher.machine import Failure
from magos.reconcilers.refwatcher.schedule import SLOW, Listing, Poll, PollLimits, PollScheduler
from magos.reconcilers.refwatcher.watch import Access, ListingKey, Watch

SHA = "a" * 40
LONGEST = 3600.0


def watch(url: str = "r", target: str = "main", interval: float = 30.0, *, host: str = "h", **more: str) -> Watch:
    return Watch(
        uid=more.get("uid", "1"),
        url=url,
        target=target,
        interval=interval,
        host=host,
        access=Access(fingerprint=more.get("fingerprint", "")),
    )


def good(poll: Poll, seconds: float = 0.1) -> Listing:
    return Listing(results=dict.fromkeys(poll.targets, SHA), seconds=seconds)


def bad(poll: Poll, seconds: float = 0.1, retry_after: float = 0.0) -> Listing:
    failure = Failure("GitFailed", "no")
    return Listing(results=dict.fromkeys(poll.targets, failure), seconds=seconds, retry_after=retry_after)


def taken(schedule: PollScheduler, now: float) -> Poll:
    poll = schedule.take(now)
    assert poll is not None
    return poll


@given(interval=st.floats(5, LONGEST), draw=st.floats(0, 1, exclude_max=True))
def test_the_first_poll_is_drawn_from_the_interval(interval: float, draw: float) -> None:
    schedule = PollScheduler(PollLimits())
    schedule.track(("n", "a"), watch(interval=interval), 100.0, draw)
    due = schedule.next_due()
    assert due == 100.0 + draw * interval
    assert 100.0 <= due <= 100.0 + interval


def test_first_polls_of_many_sources_are_uniform() -> None:
    rng, schedule = random.Random(7), PollScheduler(PollLimits(workers=10_000, queue=10_000))
    for number in range(1000):
        schedule.track(("n", str(number)), watch(url=str(number), host=str(number)), 0.0, rng.random())
    counts = []
    for second in range(3, 33, 3):
        polls = 0
        while (poll := schedule.take(float(second))) is not None:
            schedule.finish(poll, good(poll), float(second) + 1000)
            polls += 1
        counts.append(polls)
    assert sum(counts) == 1000
    assert all(60 < count < 140 for count in counts)


@given(st.lists(st.floats(5, LONGEST), min_size=1, max_size=20))
def test_a_source_is_listed_at_the_smallest_interval_among_its_entries(intervals: list[float]) -> None:
    schedule = PollScheduler(PollLimits())
    for number, interval in enumerate(intervals):
        schedule.track(("n", str(number)), watch(interval=interval), 0.0, 0.0)
    poll = taken(schedule, 0.0)
    assert len(poll.members) == len(intervals)
    assert schedule.take(0.0) is None
    assert set(schedule.finish(poll, good(poll), 1.0)) == set(poll.members)
    assert schedule.next_due() == 1.0 + min(intervals)


def test_equal_url_and_credentials_share_a_listing_and_nothing_else_does() -> None:
    schedule = PollScheduler(PollLimits())
    schedule.track(("one", "a"), watch(target="main", fingerprint="x"), 0.0, 0.0)
    schedule.track(("two", "a"), watch(target="dev", fingerprint="x"), 0.0, 0.0)
    schedule.track(("three", "a"), watch(fingerprint="y", host="i"), 0.0, 0.0)
    schedule.track(("four", "a"), watch(url="r/", fingerprint="x", host="j"), 0.0, 0.0)
    polls = [taken(schedule, 0.0) for _ in range(3)]
    assert schedule.take(0.0) is None
    assert {(poll.key, poll.targets) for poll in polls} == {
        (ListingKey("r", "x"), ("dev", "main")),
        (ListingKey("r", "y"), ("main",)),
        (ListingKey("r/", "x"), ("main",)),
    }


def test_a_changed_interval_acts_at_once_also_before_the_first_poll() -> None:
    schedule, name = PollScheduler(PollLimits()), ("n", "a")
    schedule.track(name, watch(interval=600), 0.0, 0.5)
    assert schedule.next_due() == 300.0
    schedule.track(name, watch(interval=60), 1.0, 0.7)
    assert schedule.next_due() == 30.0
    schedule.track(name, watch(interval=600), 2.0, 0.1)
    assert schedule.next_due() == 300.0


@given(
    changes=st.lists(st.tuples(st.integers(0, 3), st.floats(5, LONGEST), st.floats(0, 900)), max_size=8),
    troubled=st.booleans(),
    retry_after=st.floats(0, 7200),
)
def test_the_next_poll_is_the_smallest_interval_in_force_after_the_last(
    changes: list[tuple[int, float, float]], troubled: bool, retry_after: float
) -> None:
    """Whoever shortens, lengthens, joins or leaves in between, and whenever."""
    schedule = PollScheduler(PollLimits())
    schedule.track(("n", "0"), watch(), 0.0, 0.0)
    intervals = {"0": 30.0}
    poll = taken(schedule, 0.0)
    schedule.finish(poll, bad(poll, retry_after=retry_after) if troubled else good(poll), 1.0)
    now = 1.0
    for number, interval, later in changes:
        now += later
        if number == 3 and len(intervals) > 1:
            name = max(intervals)
            del intervals[name]
            schedule.drop(("n", name))
        else:
            intervals[str(number)] = interval
            schedule.track(("n", str(number)), watch(interval=interval), now, 0.5)
        shortest = min(intervals.values())
        pause = min(shortest, 30.0) if troubled else shortest
        not_before = 1.0 + min(retry_after, 3600.0) if troubled else 0.0
        assert schedule.next_due() == max(1.0 + pause, not_before)


def test_a_poll_that_was_asked_for_is_not_lost_to_a_longer_interval() -> None:
    schedule, name = PollScheduler(PollLimits()), ("n", "a")
    schedule.track(name, watch(), 0.0, 0.0)
    poll = taken(schedule, 0.0)
    schedule.finish(poll, good(poll), 1.0)
    schedule.track(name, watch(target="dev"), 5.0, 0.5)
    schedule.track(name, watch(target="dev", interval=600), 6.0, 0.5)
    assert taken(schedule, 6.0).targets == ("dev",)


def test_a_failure_is_told_once_within_ten_minutes_until_the_question_changes() -> None:
    schedule, name = PollScheduler(PollLimits()), ("n", "a")
    schedule.track(name, watch(), 0.0, 0.0)
    schedule.done(name, "GitFailed", 1.0)
    schedule.done(name, "GitFailed", 500.0)
    schedule.done(name, "", 500.0)
    schedule.done(name, "UnknownHostKey", 500.0)
    assert schedule.told(name, 600.0) == {"GitFailed", "UnknownHostKey"}
    assert schedule.told(name, 601.0) == {"UnknownHostKey"}
    schedule.track(name, watch(target="dev"), 602.0, 0.0)
    assert schedule.told(name, 602.0) == frozenset()
    assert schedule.told(("n", "b"), 602.0) == frozenset()


@pytest.mark.parametrize("changed", [watch(target="dev"), watch(url="s"), watch(url="s", host="i")])
def test_a_changed_question_forgets_the_answer_and_is_asked_at_once(changed: Watch) -> None:
    schedule, name = PollScheduler(PollLimits()), ("n", "a")
    schedule.track(name, watch(), 0.0, 0.0)
    poll = taken(schedule, 0.0)
    schedule.finish(poll, good(poll), 1.0)
    assert schedule.answer(name) is not None
    schedule.track(name, changed, 2.0, 0.9)
    assert schedule.answer(name) is None
    assert taken(schedule, 2.0).targets == (changed.target,)


def test_a_question_changed_while_it_is_asked_is_not_answered_by_the_old_listing_but_right_after() -> None:
    schedule, name = PollScheduler(PollLimits()), ("n", "a")
    schedule.track(name, watch(), 0.0, 0.0)
    poll = taken(schedule, 0.0)
    schedule.track(name, watch(target="dev"), 0.5, 0.9)
    assert schedule.finish(poll, good(poll), 1.0) == ()
    assert taken(schedule, 1.0).targets == ("dev",)


def test_new_credentials_are_tried_at_once_and_errors_stay_counted() -> None:
    schedule, name = PollScheduler(PollLimits()), ("n", "a")
    schedule.track(name, watch(), 0.0, 0.0)
    poll = taken(schedule, 0.0)
    schedule.finish(poll, bad(poll), 1.0)
    schedule.track(name, watch(fingerprint="x"), 2.0, 0.9)
    poll = taken(schedule, 2.0)
    schedule.finish(poll, bad(poll), 3.0)
    found = schedule.answer(name)
    assert found is not None
    assert found.errors == 2


def test_a_workspace_made_anew_under_its_name_starts_from_nothing() -> None:
    schedule, name = PollScheduler(PollLimits()), ("n", "a")
    schedule.track(name, watch(), 0.0, 0.0)
    poll = taken(schedule, 0.0)
    schedule.track(name, watch(uid="2"), 0.5, 0.5)
    assert schedule.finish(poll, bad(poll), 1.0) == ()
    assert schedule.answer(name) is None


@pytest.mark.parametrize(("interval", "pause"), [(5.0, 5.0), (30.0, 30.0), (600.0, 30.0)])
def test_an_error_is_looked_at_again_after_thirty_seconds_at_the_latest(interval: float, pause: float) -> None:
    schedule = PollScheduler(PollLimits())
    schedule.track(("n", "a"), watch(interval=interval), 0.0, 0.0)
    poll = taken(schedule, 0.0)
    schedule.finish(poll, bad(poll), 1.0)
    assert schedule.next_due() == 1.0 + pause


@pytest.mark.parametrize(("asked", "kept"), [(10.0, 30.0), (200.0, 200.0), (1e9, 3600.0), (-5.0, 30.0)])
def test_what_the_server_asks_for_is_kept_within_an_hour(asked: float, kept: float) -> None:
    schedule, name = PollScheduler(PollLimits()), ("n", "a")
    schedule.track(name, watch(), 0.0, 0.0)
    poll = taken(schedule, 0.0)
    schedule.finish(poll, bad(poll, retry_after=asked), 1.0)
    assert schedule.next_due() == 1.0 + kept
    schedule.track(name, watch(target="dev"), 2.0, 0.0)
    assert schedule.next_due() == max(2.0, 1.0 + min(max(asked, 0.0), 3600.0))


def test_errors_in_a_row_are_counted_and_a_success_ends_the_row() -> None:
    schedule, name = PollScheduler(PollLimits()), ("n", "a")
    schedule.track(name, watch(), 0.0, 0.0)
    counted = []
    for number, answer in enumerate((bad, bad, good, bad)):
        poll = taken(schedule, 100.0 * number)
        schedule.finish(poll, answer(poll), 100.0 * number + 1)
        found = schedule.answer(name)
        assert found is not None
        counted.append(found.errors)
    assert counted == [1, 2, 0, 1]


def test_an_unanswered_poll_tells_nobody_anything() -> None:
    schedule, name = PollScheduler(PollLimits()), ("n", "a")
    schedule.track(name, watch(interval=600), 0.0, 0.0)
    poll = taken(schedule, 0.0)
    assert schedule.finish(poll, Listing(), 1.0) == ()
    assert schedule.answer(name) is None
    assert schedule.next_due() == 31.0


def test_a_joiner_is_served_within_its_own_interval() -> None:
    schedule = PollScheduler(PollLimits())
    schedule.track(("n", "slow"), watch(interval=3600), 0.0, 0.9)
    schedule.track(("n", "fast"), watch(interval=10), 0.0, 0.5)
    assert schedule.next_due() == 9.0


def test_the_queue_is_bounded_and_what_does_not_fit_waits() -> None:
    schedule = PollScheduler(PollLimits(workers=1, queue=2))
    for number in range(6):
        schedule.track(("n", str(number)), watch(url=str(number), host=str(number)), 0.0, 0.0)
    seen = set()
    for step in range(6):
        poll = taken(schedule, float(step))
        assert schedule.take(float(step)) is None
        assert schedule.depth <= 2
        seen.add(poll.key.url)
        schedule.finish(poll, good(poll), step + 0.5)
    assert len(seen) == 6


def test_a_server_has_half_of_the_workers_and_leaves_one_to_repositories_that_are_well() -> None:
    schedule = PollScheduler(PollLimits(workers=8, queue=100))
    schedule.track(("n", "good"), watch(url="good"), 0.0, 0.0)
    poll = taken(schedule, 0.0)
    schedule.finish(poll, good(poll), 1.0)
    for number in range(20):
        schedule.track(("n", str(number)), watch(url=str(number)), 1.0, 0.0)
    polls = [taken(schedule, 31.0) for _ in range(4)]
    assert {"good"} < {each.key.url for each in polls}
    assert schedule.take(31.0) is None


def test_servers_that_are_not_proven_have_half_of_the_workers_together() -> None:
    schedule = PollScheduler(PollLimits(workers=4, queue=100))
    schedule.track(("n", "good"), watch(url="good", host="good"), 0.0, 0.0)
    poll = taken(schedule, 0.0)
    schedule.finish(poll, good(poll), 1.0)
    for number in range(10):
        schedule.track(("n", str(number)), watch(url=str(number), host=str(number)), 1.0, 0.0)
    assert [taken(schedule, 2.0).key.url for _ in range(2)]
    assert schedule.take(2.0) is None
    assert taken(schedule, 40.0).key.url == "good"


URLS, HOSTS = "pqrstu", "xyz"
_names = st.tuples(st.just("n"), st.sampled_from("abcdefgh"))
_watches = st.builds(
    lambda url, target, interval, fingerprint: watch(
        url, target, interval, host=HOSTS[URLS.index(url) % 3], fingerprint=fingerprint
    ),
    st.sampled_from(URLS),
    st.sampled_from(["main", "dev"]),
    st.sampled_from([5.0, 30.0, 600.0]),
    st.sampled_from(["", "f"]),
)


class ScheduleMachine(RuleBasedStateMachine):
    """Anything at any time; nobody is ever forgotten, and no limit is ever passed."""

    @initialize(workers=st.integers(1, 5), queue=st.integers(1, 4))
    def start(self, workers: int, queue: int) -> None:
        self.limits = PollLimits(workers=workers, queue=queue)
        self.schedule = PollScheduler(self.limits)
        self.now = 0.0
        self.tracked: dict[Name, Watch] = {}
        self.running: list[Poll] = []
        self.blocked: dict[ListingKey, float] = {}

    @rule(name=_names, wanted=_watches, draw=st.floats(0, 0.99))
    def track(self, name: Name, wanted: Watch, draw: float) -> None:
        self.schedule.track(name, wanted, self.now, draw)
        self.tracked[name] = wanted
        self._forget_unused()

    @rule(name=_names)
    def drop(self, name: Name) -> None:
        self.schedule.drop(name)
        self.tracked.pop(name, None)
        self._forget_unused()

    def _forget_unused(self) -> None:
        """What a server asked for is known for as long as anybody asks it."""
        used = {watch.key for watch in self.tracked.values()}
        self.blocked = {source: until for source, until in self.blocked.items() if source in used}

    @rule(seconds=st.sampled_from([0.1, 1.0, 10.0, 100.0, 700.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def take(self) -> None:
        poll = self.schedule.take(self.now)
        if poll is None:
            return
        assert poll.key not in {each.key for each in self.running}
        assert all(self.tracked[name] == asked for name, asked in poll.members.items())
        assert all(asked.key == poll.key for asked in poll.members.values())
        assert self.now >= self.blocked.get(poll.key, 0.0)
        self.running.append(poll)

    @precondition(lambda self: bool(self.running))
    @rule(
        data=st.data(),
        seconds=st.sampled_from([None, 0.1, SLOW]),
        kind=st.sampled_from(["good", "bad", "nothing"]),
        retry_after=st.sampled_from([0.0, 50.0]),
    )
    def finish(self, data: st.DataObject, seconds: float | None, kind: str, retry_after: float) -> None:
        poll = self.running.pop(data.draw(st.integers(0, len(self.running) - 1)))
        results: dict[str, str | Failure] = {
            "good": dict.fromkeys(poll.targets, SHA),
            "bad": dict.fromkeys(poll.targets, Failure("GitFailed", "no")),
            "nothing": {},
        }[kind]  # type: ignore[assignment]
        listing = Listing(results=results, seconds=seconds, retry_after=retry_after)
        told = self.schedule.finish(poll, listing, self.now)
        expected = {name for name, asked in poll.members.items() if self._still_asks(name, asked)}
        assert set(told) == (expected if results else set())
        if any(asked.key == poll.key for asked in self.tracked.values()):
            self.blocked[poll.key] = self.now + retry_after
        else:
            self.blocked.pop(poll.key, None)

    def _still_asks(self, name: Name, asked: Watch) -> bool:
        return name in self.tracked and self.tracked[name].same_question(asked)

    @invariant()
    def limits_hold(self) -> None:
        if not hasattr(self, "schedule"):
            return
        assert self.schedule.running == len(self.running) <= self.limits.workers
        assert self.schedule.depth <= self.limits.queue
        assert set(self.schedule.names()) == set(self.tracked)
        by_host: dict[str, int] = defaultdict(int)
        for poll in self.running:
            by_host[next(iter(poll.members.values())).host] += 1
        assert all(count <= max(1, self.limits.workers // 2) for count in by_host.values())

    def teardown(self) -> None:
        """Whatever happened: with servers that answer, everybody is served soon."""
        if not hasattr(self, "schedule"):
            return
        for poll in self.running:
            self.schedule.finish(poll, good(poll), self.now)
        waiting = set(self.tracked)
        end = self.now + 3 * 600.0 + 60.0
        while waiting and self.now < end:
            while (taking := self.schedule.take(self.now)) is not None:
                waiting -= set(self.schedule.finish(taking, good(taking), self.now + 0.001))
            due = self.schedule.next_due()
            assert due is not None or not waiting
            self.now = max(self.now + 0.001, due if due is not None else end)
        assert not waiting


TestScheduleMachine = ScheduleMachine.TestCase
TestScheduleMachine.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
