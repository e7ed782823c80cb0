"""Running a tool as PID 1 should: every promise of the supervisor, in a process of its own."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

_HARNESS = """
import os, sys
from pathlib import Path
from magos.runner.journal import Journal
from magos.runner.process import Command, Supervisor
from magos.runner.termination import Terminated, Termination
termination = Termination()
termination.install()
supervisor = Supervisor(Journal((b"hunter2",)), termination)
command = Command(arguments=["sh", "-c", sys.argv[1]], directory=Path("/"), environment=dict(os.environ),
                  stop_timeout=float(sys.argv[2]))
try:
    finished = supervisor.run(command)
except Terminated:
    os.write(1, b"<terminated>")
    sys.exit(143)
os.write(1, b"<%d %d>" % (finished.code, len(finished.tail)))
"""


class Stage:
    """A running harness."""

    def __init__(self, script: str, output: Path, stop_timeout: float = 60) -> None:
        with output.open("wb") as stream:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _HARNESS, script, str(stop_timeout)], stdin=subprocess.PIPE, stdout=stream
            )
        self._output = output

    def end(self) -> bytes:
        self.process.wait(timeout=30)
        return self.output

    @property
    def output(self) -> bytes:
        return self._output.read_bytes()


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., Stage]]:
    started: list[Stage] = []

    def start(script: str, stop_timeout: float = 60) -> Stage:
        started.append(Stage(script, tmp_path / "output", stop_timeout))
        return started[-1]

    yield start
    for stage in started:
        stage.process.kill()
        stage.process.wait()
        assert stage.process.stdin is not None
        stage.process.stdin.close()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


Run = Callable[..., Stage]


def test_exit_codes_and_deaths_by_signal_differ(run: Run) -> None:
    assert run("exit 7").end().endswith(b"<7 0>")
    assert run("kill -9 $$").end().endswith(b"<-9 0>")


def test_both_outputs_pass_in_order_redacted_and_the_input_is_empty(run: Run) -> None:
    output = run("echo a hunter2; echo b >&2; cat; printf c").end()
    assert output == b"a ***\nb\nc<0 9>"


def test_a_very_long_line_of_any_bytes_passes_in_bounded_memory(run: Run) -> None:
    stage = run("head -c 200000000 /dev/zero | tr '\\000' '\\377'; printf hunter2")
    pid = stage.process.pid
    peak = 0
    while stage.process.poll() is None:
        status = Path(f"/proc/{pid}/status").read_text()
        peak = max([peak, *(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))])
        time.sleep(0.01)
    assert stage.process.returncode == 0
    output = stage.output
    assert output.startswith(b"\xff" * 1000)
    assert output.endswith(b"\xff***<0 65536>")
    assert len(output) == 200000000 + len(b"***<0 65536>")
    assert 0 < peak < 60 * 1024


def test_everything_the_tool_left_running_is_ended(run: Run, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    stubborn = f"trap '' TERM HUP INT; echo $$ >> {pids}; while :; do sleep 0.05; done"
    script = f'setsid sh -c "{stubborn.replace("$", chr(92) + "$")}" & sleep 300 & echo $! >> {pids};'
    output = run(f"{script} while [ $(wc -l < {pids}) -lt 2 ]; do sleep 0.02; done").end()
    assert b"left running by the tool" in output
    for pid in pids.read_text().split():
        assert not Path(f"/proc/{pid}").exists()


def test_orphans_are_reaped_while_the_tool_runs(run: Run, tmp_path: Path) -> None:
    go = tmp_path / "go"
    stage = run(f"(sleep 0.01 & true); (sleep 0.01 & true); echo started; until test -e {go}; do sleep 0.02; done")
    until(lambda: b"started" in stage.output)

    def zombies() -> list[str]:
        children = Path(f"/proc/{stage.process.pid}/task/{stage.process.pid}/children").read_text().split()
        return [pid for pid in children if ") Z " in Path(f"/proc/{pid}/stat").read_text()]

    until(lambda: len(Path(f"/proc/{stage.process.pid}/task/{stage.process.pid}/children").read_text().split()) == 1)
    assert zombies() == []
    go.touch()
    assert stage.end().endswith(b"<0 8>")


def test_a_stop_is_passed_on_once_as_interrupt_to_the_tool_alone(run: Run, tmp_path: Path) -> None:
    child = "trap 'echo child' INT; echo up; while :; do sleep 0.02; done"
    go = tmp_path / "go"
    tool = f"trap 'echo interrupted; until test -e {go}; do sleep 0.02; done; exit 5' INT"
    stage = run(f'sh -c "{child}" & {tool}; while :; do sleep 0.02; done')
    until(lambda: b"up" in stage.output)
    stage.process.send_signal(signal.SIGTERM)
    until(lambda: b"interrupted" in stage.output)
    stage.process.send_signal(signal.SIGTERM)
    stage.process.send_signal(signal.SIGINT)
    go.touch()
    output = stage.end()
    assert stage.process.returncode == 143
    assert output.count(b"interrupted") == 1
    assert b"child" not in output.replace(b"process(es)", b"")
    assert output.endswith(b"<terminated>")


def test_a_tool_that_does_not_stop_is_killed_when_its_stop_timeout_ends(run: Run) -> None:
    stage = run("trap '' INT TERM; echo up; while :; do sleep 0.02; done", stop_timeout=0.3)
    until(lambda: b"up" in stage.output)
    stage.process.send_signal(signal.SIGTERM)
    assert stage.end().endswith(b"<terminated>")
    assert stage.process.returncode == 143


def test_a_stop_that_comes_before_the_handlers_is_not_lost(tmp_path: Path) -> None:
    script = """
import os, signal, sys
import magos.apps.job
sys.argv = ["magos-job", "render"]
block = signal.pthread_sigmask
def at_the_earliest(how, numbers):
    before = block(how, numbers)
    if how == signal.SIG_BLOCK:
        os.kill(os.getpid(), signal.SIGTERM)
    return before
signal.pthread_sigmask = at_the_earliest
magos.apps.job.main()
"""
    ended = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, check=False, timeout=20)
    assert ended.returncode == 143


_UNWINDING = """
import os, sys, time
from magos.runner.termination import Terminated, Termination
termination = Termination()
termination.install()
try:
    print("up", flush=True)
    time.sleep(300)
except Terminated:
    if sys.argv[1] == "stuck":
        os.kill(os.getpid(), 15)  # a second signal must not interrupt the cleaning up
        time.sleep(300)
    sys.exit(143)
"""


@pytest.mark.parametrize(("mode", "longest"), [("clean", 1.5), ("stuck", 5.0)])
def test_outside_a_tool_a_stop_takes_at_most_five_seconds(mode: str, longest: float) -> None:
    with subprocess.Popen([sys.executable, "-c", _UNWINDING, mode], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        asked = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 143
        assert time.monotonic() - asked < longest
