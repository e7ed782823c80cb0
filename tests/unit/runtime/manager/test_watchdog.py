"""The watchdog ends a process whose loop is stuck while its right to act has ended."""

import threading

from magos.runtime.manager.watchdog import Watchdog


class Hand:
    """A clock set by hand."""

    def __init__(self) -> None:
        self.reading = 0.0

    def monotonic(self) -> float:
        return self.reading


def test_it_strikes_a_second_after_the_end_and_not_before() -> None:
    clock = Hand()
    watchdog = Watchdog(clock)  # type: ignore[arg-type]
    clock.reading = 1e9
    assert not watchdog.overdue()
    watchdog.arm(1e9 + 12)
    for reading, overdue in ((1e9 + 12, False), (1e9 + 13, False), (1e9 + 13.1, True)):
        clock.reading = reading
        assert watchdog.overdue() is overdue
    watchdog.disarm()
    assert not watchdog.overdue()


def test_renewals_move_the_end_and_the_thread_ends_with_the_context() -> None:
    clock, struck = Hand(), threading.Event()
    with Watchdog(clock, struck.set) as watchdog:  # type: ignore[arg-type]
        for _ in range(3):
            watchdog.arm(clock.reading + 12)
            clock.reading += 10
        assert not struck.is_set()
        clock.reading += 4
        assert struck.wait(10)
    assert watchdog._thread is not None
    assert not watchdog._thread.is_alive()
