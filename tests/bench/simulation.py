"""What the simulation of the whole fleet covers, and what it finds: the fixed seed set, counted."""

import re
import subprocess
import sys
import time
from pathlib import Path

__all__ = ["NAMES", "measure"]

NAMES = ("sim.histories", "sim.crash_points", "sim.faults", "sim.violations", "sim.seconds")

_ROOT = Path(__file__).parents[2]
_LINE = re.compile(
    r"simulation: (\d+) histories, (\d+) crash points, (\d+) faults injected, (\d+) violations", re.ASCII
)


def measure() -> dict[str, float]:
    """Run the whole simulation tier and read its own summary; the seconds are those of the wall clock."""
    began = time.perf_counter()
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "tests/sim"], cwd=_ROOT, capture_output=True, text=True, check=False
    )
    seconds = time.perf_counter() - began
    found = _LINE.search(run.stdout)
    if found is None:
        raise RuntimeError(f"the simulation did not come to its summary:\n{run.stdout[-2000:]}\n{run.stderr[-2000:]}")
    if run.returncode:
        print(run.stdout[-4000:], file=sys.stderr)
    return dict(zip(NAMES, (*map(float, found.groups()), round(seconds, 1)), strict=True))
