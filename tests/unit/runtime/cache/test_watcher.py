"""The watch machine, transition by transition, without any server."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from magos.api.meta import ObjectMeta
from magos.runtime.cache.watcher import FIRST, LONGEST, PATIENCE, QUIET, SILENCES, ListCall, Phase, WatchCall, Watcher
from magos.runtime.client.errors import ApiError, Cause, Status, StatusDetails
from magos.runtime.client.watchevents import ListPage, WatchEvent, WatchType


class Thing(Struct, frozen=True):
    metadata: ObjectMeta


THING = Thing(ObjectMeta(name="x", resource_version="12"))


def error(code: int, reason: str = "", retry_after: float | None = None) -> ApiError:
    return ApiError("e", answer=Status(code=code, reason=reason), retry_after=retry_after)


TOO_LARGE = ApiError(
    "e", answer=Status(code=504, details=StatusDetails(causes=(Cause(reason="ResourceVersionTooLarge"),)))
)


def watching(version: str = "10") -> Watcher[Thing]:
    watcher: Watcher[Thing] = Watcher(random.Random(1))
    watcher.action()
    assert watcher.listed(ListPage(items=(), resource_version=version)) is not None
    assert isinstance(watcher.action(), WatchCall)
    return watcher


def next_list(watcher: Watcher[Thing]) -> ListCall:
    action = watcher.action()
    assert isinstance(action, ListCall)
    return action


def next_watch(watcher: Watcher[Thing]) -> WatchCall:
    action = watcher.action()
    assert isinstance(action, WatchCall)
    return action


def test_it_begins_with_a_consistent_paged_list_and_watches_from_its_version() -> None:
    watcher: Watcher[Thing] = Watcher(random.Random(1))
    first = next_list(watcher)
    assert (first.delay, first.limit, first.continue_) == (0.0, 500, "")
    assert watcher.listed(ListPage(items=(THING,), resource_version="9", continue_="t")) is None
    assert watcher.phase is Phase.LISTING
    assert next_list(watcher).continue_ == "t"
    whole = watcher.listed(ListPage(items=(THING,), resource_version="9"))
    assert whole is not None
    assert (whole.items, whole.resource_version) == ((THING, THING), "9")
    call = next_watch(watcher)
    assert (call.delay, call.resource_version) == (0.0, "9")
    assert 300 <= call.timeout_seconds <= 600


def test_a_transient_failure_asks_for_the_same_page_again() -> None:
    watcher: Watcher[Thing] = Watcher(random.Random(1))
    watcher.listed(ListPage(items=(THING,), resource_version="9", continue_="t"))
    watcher.list_failed(error(500))
    again = next_list(watcher)
    assert again.continue_ == "t"
    assert again.delay >= FIRST
    whole = watcher.listed(ListPage(items=(), resource_version="9"))
    assert whole is not None
    assert whole.items == (THING,)


def test_an_expired_page_means_one_whole_list_at_once() -> None:
    watcher: Watcher[Thing] = Watcher(random.Random(1))
    watcher.listed(ListPage(items=(THING,), resource_version="9", continue_="t"))
    watcher.list_failed(error(410, "Expired"))
    again = next_list(watcher)
    assert (again.delay, again.limit, again.continue_) == (0.0, 0, "")
    whole = watcher.listed(ListPage(items=(THING,), resource_version="20"))
    assert whole is not None
    assert whole.items == (THING,)


def test_events_and_bookmarks_move_the_version_forward_only() -> None:
    watcher = watching("10")
    batch: tuple[WatchEvent[Thing], ...] = (
        WatchEvent(type=WatchType.ADDED, object=THING, resource_version="12"),
        WatchEvent(type=WatchType.BOOKMARK, resource_version="15"),
        WatchEvent(type=WatchType.MODIFIED, object=THING, resource_version="11"),
        WatchEvent(type=WatchType.BOOKMARK),
    )
    assert watcher.events(batch) == batch
    assert watcher.ended(None, 300.0) is None
    call = next_watch(watcher)
    assert (call.delay, call.resource_version) == (0.0, "15")


@pytest.mark.parametrize("failure", [error(410, "Expired"), error(410, "Gone"), TOO_LARGE])
@pytest.mark.parametrize("inside", [True, False])
def test_a_lost_version_is_listed_anew_at_once_and_later_with_a_pause(failure: ApiError, inside: bool) -> None:
    watcher = watching()
    if inside and failure.gone:
        status = Status(code=failure.status, reason=failure.reason)
        behind = WatchEvent(type=WatchType.ADDED, object=THING, resource_version="99")
        assert watcher.events((WatchEvent(type=WatchType.ERROR, status=status), behind)) == ()
        assert watcher.over
        assert watcher.ended(None, 2.0) is not None
    else:
        assert watcher.ended(failure, 0.1) is failure
    assert watcher.phase is Phase.EMPTY
    assert watcher.resource_version == ""
    assert next_list(watcher).delay == 0.0
    watcher.listed(ListPage(items=(), resource_version="20"))
    next_watch(watcher)
    watcher.ended(failure, 0.1)
    assert next_list(watcher).delay >= FIRST


@pytest.mark.parametrize("failure", [ApiError("refused"), error(429, retry_after=7.0)])
def test_no_answer_and_too_many_requests_never_cause_a_list(failure: ApiError) -> None:
    watcher = watching()
    for _ in range(20):
        watcher.ended(failure, 0.0)
        call = next_watch(watcher)
        assert call.resource_version == "10"
        assert call.delay >= (failure.retry_after or FIRST)


def test_a_broken_stream_resumes_from_the_last_version() -> None:
    watcher = watching()
    watcher.events((WatchEvent(type=WatchType.ADDED, object=THING, resource_version="12"),))
    watcher.ended(ApiError("reset"), 75.0)
    assert next_watch(watcher).resource_version == "12"


@pytest.mark.parametrize("end", [ApiError("silent"), None])
def test_watches_that_say_nothing_at_all_lead_to_a_list_in_the_end(end: ApiError | None) -> None:
    """A server restored from a backup keeps silent about a version that it has yet to reach."""
    watcher = watching()
    for _ in range(SILENCES - 1):
        watcher.ended(end, QUIET)
        assert next_watch(watcher).resource_version == "10"
    # One bookmark, even for what is known already, and it is no such server.
    watcher.events((WatchEvent(type=WatchType.BOOKMARK, resource_version="10"),))
    watcher.ended(end, QUIET)
    for _ in range(SILENCES - 1):
        next_watch(watcher)
        watcher.ended(end, QUIET)
        next_watch(watcher)
        watcher.ended(end, QUIET - 1)  # too short to tell
    next_watch(watcher)
    watcher.ended(end, QUIET)
    next_list(watcher)


@pytest.mark.parametrize("end", [lambda w: w.ended(None, 0.2), lambda w: w.ended(error(500), 0.2)])
def test_short_watches_and_server_errors_lead_to_a_list_in_the_end(end: Callable[[Watcher[Thing]], object]) -> None:
    watcher = watching()
    for _ in range(PATIENCE - 1):
        end(watcher)
        assert next_watch(watcher).delay >= FIRST
    end(watcher)
    assert next_list(watcher).delay >= FIRST


def test_a_refusal_is_listed_anew_with_a_pause() -> None:
    watcher = watching()
    watcher.ended(error(403, "Forbidden"), 0.0)
    assert next_list(watcher).delay >= FIRST
    watcher.list_failed(error(403, "Forbidden"))
    assert next_list(watcher).delay >= 2 * FIRST


failures = st.sampled_from([ApiError("x"), error(429), error(500), error(410, "Expired"), error(403), TOO_LARGE, None])


@given(st.lists(st.tuples(failures, st.floats(0, 400), st.booleans()), max_size=40), st.integers(0, 1000))
def test_pauses_stay_within_bounds_and_nothing_spins(
    history: list[tuple[ApiError | None, float, bool]], seed: int
) -> None:
    watcher: Watcher[Thing] = Watcher(random.Random(seed))
    idle = 0
    for failure, lasted, told in history:
        action = watcher.action()
        assert 0.0 <= action.delay <= LONGEST
        if isinstance(action, WatchCall):
            assert action.resource_version
            progress = told or (failure is None and lasted >= 1.0)
            if told:
                watcher.events((WatchEvent(type=WatchType.ADDED, object=THING, resource_version="12"),))
            watcher.ended(failure, lasted)
        else:
            progress = failure is None
            if failure is None:
                watcher.listed(ListPage(items=(), resource_version="10"))
            else:
                watcher.list_failed(failure)
        idle = 0 if progress or action.delay or lasted >= 1.0 else idle + 1
        assert idle <= 2, "calls without pause and without progress"
