"""``python -m tests.sim.soak MINUTES``: the simulation with new seeds, round after round, until the time is up.

Each round is the fixed set once more with other seeds, on all processors. At the end of the time nothing new begins,
what runs comes to its end (seconds), and the sum of all rounds is printed. A round that fails ends the soak: what it
printed names its seed, and ``MAGOS_SIM_ROUND`` with its number repeats it. SIGINT and SIGTERM end it early and cleanly.
"""

import os
import signal
import subprocess
import sys
import time
from types import FrameType

from tests.sim.tally import Tally

__all__ = ["main"]

_TESTS = (
    "tests/sim/test_users_and_adversary.py",
    "tests/sim/test_crash_points.py",
    "tests/sim/test_faults.py",
    "tests/sim/test_binding.py",
    "tests/sim/test_fleet_policies.py",
    "tests/sim/test_clock_skew.py",
    "tests/sim/test_pace.py",
    "tests/sim/test_crowds.py",
    "tests/sim/test_long_names.py",
    "tests/sim/test_second_starts.py",
    "tests/sim/test_cleaners.py",
    "tests/sim/test_late_effects.py",
)
_COMMAND = (sys.executable, "-m", "pytest", "-n", "auto", "--dist", "worksteal", *_TESTS)


def main(arguments: list[str]) -> int:
    """Return 0 if no round failed, 1 if one did, 2 for arguments that mean nothing, 130 if somebody ended it."""
    if len(arguments) != 1 or not arguments[0].isascii() or not arguments[0].isdecimal():
        print("scripts/test: --soak needs a number of minutes, such as --soak 30", file=sys.stderr)
        return 2
    until = time.time() + 60 * int(arguments[0])
    total, rounds, status = Tally(), 0, 0
    while time.time() < until and status == 0:
        number = int(time.time()) // 60 + rounds  # never one of an earlier soak
        rounds += 1
        print(f"test: soak, round {rounds} (MAGOS_SIM_ROUND={number})", flush=True)
        status = _play(number, until, total)
    print(f"test: soak, {rounds} rounds; {total.line()}")
    return status


def _play(number: int, until: float, total: Tally) -> int:
    environ = {**os.environ, "MAGOS_SIM_ROUND": str(number), "MAGOS_SIM_UNTIL": str(until)}
    run = subprocess.Popen(_COMMAND, env=environ, stdout=subprocess.PIPE, text=True)
    stopped: list[int] = []

    def stop(signum: int, _: FrameType | None) -> None:
        if signum == signal.SIGTERM and not stopped:
            run.send_signal(signal.SIGINT)  # from the keyboard it reaches the tests by itself
        stopped.append(signum)

    before = {each: signal.signal(each, stop) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        for line in run.stdout or ():
            print(line, end="", flush=True)
            counted = Tally.read(line)
            if counted is not None:
                total.add(counted)
        failed = run.wait() != 0
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    return 130 if stopped else int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
