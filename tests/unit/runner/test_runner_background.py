"""A call beside others: its result, its error, and that nobody has to wait for it."""

import subprocess
import sys
import threading

import pytest

from magos.runner.background import Background


def test_a_result_is_handed_over_and_an_error_raised() -> None:
    assert Background(lambda: 41 + 1).result() == 42
    with pytest.raises(ZeroDivisionError):
        Background(lambda: 1 // 0).result()


def test_it_runs_beside_its_caller() -> None:
    asked, answered = threading.Event(), threading.Event()

    def answer() -> None:
        asked.wait(20)
        answered.set()

    call = Background(answer)
    asked.set()
    assert answered.wait(20)
    call.result()


def test_a_process_ends_without_waiting_for_it() -> None:
    program = "import threading; from magos.runner.background import Background; Background(threading.Event().wait)"
    assert subprocess.run([sys.executable, "-c", program], timeout=30, check=False).returncode == 0
