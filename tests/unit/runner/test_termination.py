"""SIGTERM may interrupt any line of the main thread: the worst ones, each in a process of its own."""

import subprocess
import sys

import pytest

from magos.api.runnerpod import TERMINATED

_PRELUDE = """
import os, signal, sys, threading
from magos.runner.termination import Terminated, Termination

termination = Termination()
termination.install()

def ask():
    os.kill(os.getpid(), signal.SIGTERM)
"""


def _run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _PRELUDE + script], timeout=30, capture_output=True, text=True, check=False
    )


def test_a_stop_while_a_thread_is_being_started_does_not_wait_for_the_lock_that_the_start_holds() -> None:
    done = _run("""
try:
    with threading._active_limbo_lock:  # what Thread.start holds for a moment
        ask()
except Terminated:
    print("unwound")
""")
    assert done.stdout == "unwound\n", done.stderr


def test_unwinding_that_never_ends_is_ended_by_the_watchdog() -> None:
    done = _run("""
try:
    ask()
finally:
    threading.Event().wait()
""")
    assert done.returncode == TERMINATED, done.stderr


def test_the_first_stop_unwinds_and_later_ones_leave_the_cleaning_up_alone() -> None:
    done = _run("""
try:
    ask()
except Terminated:
    ask()
    ask()
    print("cleaned up")
""")
    assert done.stdout == "cleaned up\n", done.stderr


@pytest.mark.parametrize("stage", ["fetch", "job"])
def test_an_error_that_the_interruption_left_behind_counts_as_the_interruption(stage: str) -> None:
    """As a library does whose clean-up fails because it was interrupted halfway."""
    done = _run(f"""
from magos.runner import main
from magos.runner.main import run_stage

def load(*_):
    try:
        ask()
    finally:
        raise RuntimeError("cannot join thread before it is started")

main.load_fetch = main.load_job = load
written = []
main.leave_status = lambda paths, status, phase: written.append(str(status.reason))
main.write_termination_message = lambda path, result: written.append(str(result.reason))
code = run_stage([{stage!r}])
print(code, *written)
""")
    assert done.stdout.splitlines()[-1] == f"{TERMINATED} Interrupted", done.stdout + done.stderr
