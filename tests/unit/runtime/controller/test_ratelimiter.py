"""Back-off: 5 ms doubling to 1000 s with ±10 %, reset by success, bounded memory."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magos.runtime.controller.ratelimiter import ItemBackoff


@given(st.integers(), st.integers(1, 2000))
def test_delays_double_with_jitter_up_to_the_cap(seed: int, failures: int) -> None:
    backoff: ItemBackoff[str] = ItemBackoff(random.Random(seed))
    delays = [backoff.failed("a") for _ in range(failures)]
    for number, delay in enumerate(delays):
        nominal = min(1000.0, 0.005 * 2 ** min(number, 60))
        assert nominal * 0.9 <= delay <= min(1000.0, nominal * 1.1)
    assert backoff.failures("a") == failures


def test_ten_errors_a_success_and_an_error_start_over() -> None:
    backoff: ItemBackoff[str] = ItemBackoff(random.Random(1))
    assert max(backoff.failed("a") for _ in range(10)) > 2
    backoff.forget("a")
    assert backoff.failures("a") == 0
    assert backoff.failed("a") < 0.006


def test_items_do_not_slow_each_other_down() -> None:
    backoff: ItemBackoff[int] = ItemBackoff(random.Random(1))
    assert all(backoff.failed(item) < 0.006 for item in range(5000))


@given(st.lists(st.integers(0, 30)), st.integers(1, 10))
def test_only_the_latest_failures_are_remembered(items: list[int], capacity: int) -> None:
    backoff: ItemBackoff[int] = ItemBackoff(random.Random(1), capacity=capacity)
    for item in items:
        backoff.failed(item)
    latest = list(dict.fromkeys(reversed(items)))[:capacity]
    assert len(backoff) == len(latest)
    assert all(backoff.failures(item) > 0 for item in latest)


def test_senseless_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="back-off needs"):
        ItemBackoff(random.Random(1), base=2, cap=1)
