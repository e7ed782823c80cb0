"""Runs stages of the runner one after the other, each in a fork that has everything imported, with an adversary within.

Every Python line of the runner's own code in the main thread is a moment and has a number. At the chosen one the stage
stands still while the adversary's shell script runs. A request is one line of JSON on the standard input, the answer
one line on the standard output.
"""

import faulthandler
import json
import os
import sys
from pathlib import Path
from types import FrameType
from typing import Any, Final

import msgspec

from magos import folder
from magos.runner import job, main, render, terraform
from magos.runner.paths import Paths

__all__ = ["Answer", "Request"]

_WATCHED = (str(Path(str(main.__file__)).parent) + os.sep, str(folder.__file__))
_LOADED = (job, render, terraform)
_LONGEST: Final = 60.0


class Request(msgspec.Struct, frozen=True):
    """One stage. ``moment`` 0 lets it run undisturbed; ``script`` is what happens at that moment otherwise."""

    stage: str
    root: str
    environment: dict[str, str]
    moment: int = 0
    script: str = ""


class Answer(msgspec.Struct, frozen=True):
    """How it ended: exit code, how many moments it had, and where the adversary acted."""

    code: int
    moments: int
    acted: str = ""


class _Adversary:
    def __init__(self, request: Request) -> None:
        self._request = request
        self.moments = 0
        self.acted = ""

    def trace(self, frame: FrameType, event: str, _argument: object) -> Any:
        if not frame.f_code.co_filename.startswith(_WATCHED):
            return None
        if event == "line":
            self.moments += 1
            if self.moments == self._request.moment:
                self.acted = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
                self._act()
        return self.trace

    def _act(self) -> None:
        arguments = ["/bin/sh", "-c", self._request.script]
        pid = os.posix_spawn(arguments[0], arguments, self._request.environment)
        os.waitpid(pid, 0)


def _run(request: Request) -> None:
    with (Path(request.root) / "log").open("ab") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    os.environ.clear()
    os.environ.update(request.environment)
    os.chdir(request.root)
    faulthandler.dump_traceback_later(_LONGEST, exit=True)
    adversary = _Adversary(request)
    sys.settrace(adversary.trace)
    try:
        code = main.run_stage([request.stage], Paths(Path(request.root)))
    finally:
        sys.settrace(None)
    answer = Answer(code, adversary.moments, adversary.acted)
    (Path(request.root) / "answer.json").write_bytes(msgspec.json.encode(answer))


def _serve() -> None:
    for line in sys.stdin:
        request = msgspec.json.decode(line, type=Request)
        child = os.fork()
        if child == 0:
            try:
                _run(request)
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        sys.stdout.write(json.dumps(request.root) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve()
