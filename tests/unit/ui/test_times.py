"""Times and durations as people read them."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magos.ui.times import between, duration, moment, relative

NOW = datetime(2026, 12, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (-5, "0s"), (9.9, "9s"), (72, "1m 12s"), (60, "1m"), (3600, "1h"), (3700, "1h 1m"), (90_000, "1d 1h")],
)
def test_a_duration_has_its_two_largest_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "just now"), (-5, "just now"), (-59, "59 s ago"), (-120, "2 min ago"), (-7200, "2 h ago"),
        (-86_400, "1 day ago"), (-259_200, "3 days ago"), (72, "in 1 min"),
    ],
)  # fmt: skip
def test_a_time_is_told_as_seen_from_now(seconds: int, text: str) -> None:
    assert relative(timedelta(seconds=seconds)) == text


@given(st.text(max_size=40))
def test_what_is_no_time_is_not_shown(text: str) -> None:
    found = moment(text, NOW)
    assert found is None or found.iso.endswith("Z")


def test_a_span_that_is_not_known_or_the_wrong_way_has_no_length() -> None:
    assert between("2026-12-01T12:00:00Z", "2026-12-01T12:01:12Z") == 72
    assert between("2026-12-01T12:00:00Z", None) is None
    assert between("2026-12-01T12:00:01Z", "2026-12-01T12:00:00Z") is None
