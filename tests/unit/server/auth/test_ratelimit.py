"""Guessing a password is slow, whoever guesses (spec §9.3)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magos.server.auth.clientaddress import client_address
from magos.server.auth.ratelimit import FAILURES, MOST, RateLimiter
from magos.server.auth.settings import load_auth_settings
from magos.server.problems import Problem
from tests.unit.server.auth.world import ENVIRON, Hands, request


def wait(limiter: RateLimiter, address: str = "a") -> int:
    """Try once; return the seconds to wait, 0 if the password was looked at."""
    try:
        limiter.begin(address)
    except Problem as problem:
        assert problem.status == 429  # noqa: PT017 - the answer is what is returned
        return int(problem.headers["Retry-After"])
    return 0


def test_five_failures_a_minute_then_pauses_that_double_to_15_minutes() -> None:
    clock = Hands()
    limiter = RateLimiter(clock.monotonic)
    assert [wait(limiter) for _ in range(FAILURES)] == [0] * FAILURES
    for pause in (60, 120, 240, 480, 900, 900):
        assert wait(limiter) == pause
        clock.seconds += pause - 1
        assert wait(limiter) == 1
        clock.seconds += 1
        assert wait(limiter) == 0
    assert wait(limiter, "b") == 0


def test_a_login_that_succeeds_is_no_failure() -> None:
    limiter = RateLimiter(Hands().monotonic)
    for _ in range(50):
        assert wait(limiter) == 0
        limiter.succeeded("a")


@given(st.lists(st.tuples(st.integers(0, 2000), st.sampled_from("ab")), max_size=60))
def test_no_minute_has_more_than_five_attempts_of_an_address(steps: list[tuple[int, str]]) -> None:
    clock = Hands()
    limiter = RateLimiter(clock.monotonic)
    tried: dict[str, list[float]] = {"a": [], "b": []}
    for pause, address in steps:
        clock.seconds += pause
        if wait(limiter, address) == 0:
            tried[address].append(clock.seconds)
            assert len([moment for moment in tried[address] if clock.seconds - moment < 60]) <= FAILURES


def test_memory_is_bounded() -> None:
    limiter = RateLimiter(Hands().monotonic)
    for number in range(MOST + 500):
        wait(limiter, str(number))
    assert len(limiter) == MOST


@pytest.mark.parametrize(
    ("peer", "forwarded", "address"),
    [
        ("203.0.113.7", [], "203.0.113.7"),
        ("203.0.113.7", ["1.1.1.1"], "203.0.113.7"),
        ("10.0.0.1", ["1.1.1.1"], "1.1.1.1"),
        ("10.0.0.1", ["9.9.9.9, 1.1.1.1, 10.0.0.2"], "1.1.1.1"),
        ("10.0.0.1", ["9.9.9.9", "1.1.1.1"], "1.1.1.1"),
        ("10.0.0.1", ["9.9.9.9, rubbish"], "10.0.0.1"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("::ffff:10.0.0.1", ["1.1.1.1"], "1.1.1.1"),
        ("2001:db8:1:2:3::9", [], "2001:db8:1:2::/64"),
        ("10.0.0.1", ["2001:db8:1:2:ffff::1"], "2001:db8:1:2::/64"),
    ],
)
def test_only_trusted_proxies_say_who_the_client_is(peer: str, forwarded: list[str], address: str) -> None:
    trusted = load_auth_settings({**ENVIRON, "MAGOS_TRUSTED_PROXIES": "10.0.0.0/8"}).trusted_proxies
    asked = request(peer=peer, headers=[("x-forwarded-for", value) for value in forwarded])
    assert client_address(asked, trusted) == address
