"""SIGTERM at chosen lines of a stage: every Python line of the main thread is a moment, and has a number.

The lines are counted from the first one of the execution to its last, so a number names the same moment again as long
as the other side of the network answers alike. A line-wise tracer sends the signal; the stage itself is the real one.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from magos.api.runnerpod import TERMINATED

__all__ = ["Ending", "Moments", "moments_of"]

# Everything is imported once; each moment gets a fork, whose only thread is the stage's main thread.
_SERVER = """
import json, os, signal, sys
from pathlib import Path

stage, watch, *modules = sys.argv[1:]
for module in modules:
    __import__(module)
from magos.runner.main import run_stage
from magos.runner.paths import Paths
from magos.runner import main


def within(frame):
    while frame is not None:
        if frame.f_code.co_filename.endswith(watch):
            return True
        frame = frame.f_back
    return False


def stop_at(moment, root):
    passed, watched, sent = 0, [], []

    def trace(frame, event, argument):
        nonlocal passed
        if sent:
            return None
        if event == "line":
            passed += 1
            if not moment and within(frame):
                watched.append(passed)
            if passed == moment:
                sent.append(f"{frame.f_code.co_filename}:{frame.f_lineno}")
                os.kill(os.getpid(), signal.SIGTERM)
        return trace

    prepare = main._prepare

    def prepared(*given):
        run, create = prepare(*given)

        def created(context):
            execution = create(context)
            execute = execution.execute

            def traced():
                sys.settrace(trace)
                try:
                    execute()
                finally:
                    sys.settrace(None)

            execution.execute = traced
            return execution

        return run, created

    main._prepare = prepared
    code = run_stage([stage], Paths(Path(root)))
    (Path(root) / "moment.json").write_text(
        json.dumps({"code": code, "sent": sent, "passed": passed, "watched": watched})
    )


for line in sys.stdin:
    moment, root = json.loads(line)
    child = os.fork()
    if child == 0:
        sys.stdin.close()
        with open(f"{root}/log", "ab") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        stop_at(moment, root)
        os._exit(0)
    print(json.dumps(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])), flush=True)
"""


class Ending(msgspec.Struct, frozen=True):
    """How the stage ended: exit code, where the signal was sent, how many lines were passed.

    ``cut_short``: it took longer than a stage may to unwind, and ended where it was.
    ``watched`` are the lines in and below the watched source file, if the stage was not stopped.
    """

    code: int
    sent: list[str]
    passed: int
    watched: list[int]
    cut_short: bool = False


class Moments:
    """The stage, to be run again and again."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def stop_at(self, moment: int, root: Path) -> Ending:
        """Run the stage in ``root`` and send SIGTERM at the line numbered ``moment``; 0 for never."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(msgspec.json.encode((moment, str(root))).decode() + "\n")
        stdin.flush()
        code = int(stdout.readline())
        if code == TERMINATED:
            return Ending(code, ["somewhere"], 0, [], cut_short=True)
        assert code == 0, (root / "log").read_text()
        return msgspec.json.decode((root / "moment.json").read_bytes(), type=Ending)


@contextmanager
def moments_of(stage: str, environment: Mapping[str, str], *modules: str, watch: str) -> Iterator[Moments]:
    """A process that runs ``stage`` as often as it is asked to; ``modules`` are imported before.

    ``watch`` is the end of a source file's path.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVER, stage, watch, *modules],
        env={**environment, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Moments(process)
    finally:
        process.communicate(timeout=60)
