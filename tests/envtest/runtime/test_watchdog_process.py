"""The watchdog ends a real process whose loop is stuck."""

import subprocess
import sys

from magos.runtime.manager.watchdog import EXIT_CODE

STUCK = """
import asyncio, time
from magos.runtime.clock import SystemClock
from magos.runtime.manager.watchdog import Watchdog

async def main():
    clock = SystemClock()
    with Watchdog(clock, tolerance=0.1) as watchdog:
        watchdog.arm(clock.monotonic() + 0.1)
        time.sleep(60)

asyncio.run(main())
"""


def test_a_blocked_loop_ends_with_code_four_and_says_why() -> None:
    done = subprocess.run([sys.executable, "-c", STUCK], capture_output=True, timeout=30, check=False)
    assert done.returncode == EXIT_CODE == 4
    assert b"no second leader" in done.stderr
