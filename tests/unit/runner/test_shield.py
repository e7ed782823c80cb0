"""What is said about a process is what was tried on it; the protection itself is shown in tests/e2e/runner."""

import shutil
import subprocess
import time

from magos.runner.shield import exposure


def program(name: str) -> str:
    found = shutil.which(name)
    assert found is not None
    return found


def test_a_process_whose_program_may_be_read_is_recognised() -> None:
    sleep = program("sleep")
    with subprocess.Popen([sleep, "60"]) as process:
        try:
            assert exposure(process.pid, sleep, time.sleep).endswith("can be opened")
        finally:
            process.kill()


def test_of_a_process_that_has_ended_nothing_is_claimed() -> None:
    true = program("true")
    with subprocess.Popen([true]) as process:
        assert exposure(process.pid, true, time.sleep) != ""


def test_a_process_that_never_executes_the_program_is_not_waited_for_when_it_ends() -> None:
    with subprocess.Popen([program("true")]) as process:
        began = time.monotonic()
        assert exposure(process.pid, "/another/program", time.sleep) == "the tool could not be observed"
        assert time.monotonic() - began < 5


def test_a_process_that_cannot_be_seen_is_not_out_of_reach() -> None:
    assert exposure(2**22 + 1, "/any/program", time.sleep) == "the tool could not be observed"
