"""Progress on a terminal and in a log."""

import io

import pytest

from magos.local.programs.progress import LineProgress


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_every_state_in_one_line_and_keeps_the_steps() -> None:
    stream = _Terminal()
    progress = LineProgress(stream)
    progress.tick("one")
    progress.tick("two")
    progress.say("done")
    assert stream.getvalue() == "\r\x1b[2Kone\r\x1b[2Ktwo\r\x1b[2Kdone\n"


def test_a_log_shows_the_state_at_most_every_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("magos.local.programs.progress.time.monotonic", lambda: now)
    stream = io.StringIO()
    progress = LineProgress(stream)
    progress.say("start")
    for now in (105.0, 110.0, 115.0, 121.0):
        progress.tick(f"at {now:.0f}")
    assert stream.getvalue().splitlines() == ["start", "at 110", "at 121"]
