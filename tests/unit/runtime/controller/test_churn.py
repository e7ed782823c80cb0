"""Claims of magos/runtime/controller/ratelimiter.py."""

from hypothesis import given
from hypothesis import strategies as st

from magos.runtime.controller import ratelimiter
from magos.runtime.controller.ratelimiter import ChurnGuard


@given(st.lists(st.floats(0, 5), max_size=300))
def test_writes_never_exceed_the_burst_and_one_a_second(gaps: list[float]) -> None:
    guard: ChurnGuard[str] = ChurnGuard()
    now = 0.0
    for written, gap in enumerate(gaps, 1):
        now += gap
        now += guard.wait("a", now)
        guard.wrote("a", now)
        assert written <= ratelimiter.BURST + now * ratelimiter.PER_SECOND + 1e-6


def test_a_sane_key_never_waits_and_the_exhausted_one_is_reported_once() -> None:
    guard: ChurnGuard[str] = ChurnGuard()
    reports = [guard.wrote("a", 0.0) for _ in range(int(ratelimiter.BURST) - 1)]
    assert guard.wait("a", 0.0) == 0
    assert reports.count(True) == 0
    assert guard.wrote("a", 0.0)
    assert guard.wait("a", 0.0) == 1.0
    assert guard.wait("b", 0.0) == 0
    assert guard.wait("a", 1.0) == 0


def test_only_keys_written_lately_are_kept() -> None:
    guard: ChurnGuard[int] = ChurnGuard()
    for number in range(50_000):
        guard.wrote(number, number / 100)
    assert len(guard) < 2 * ratelimiter._SWEEP_AT
