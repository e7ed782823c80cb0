"""What the simulation of the whole fleet covers, and what it finds: the fixed seed set, counted."""

import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

from tests.sim.tally import Tally

__all__ = ["NAMES", "measure"]

NAMES = ("sim.histories", "sim.crash_points", "sim.faults", "sim.lasting_faults", "sim.violations", "sim.seconds")

_ROOT = Path(__file__).parents[2]


def measure() -> dict[str, float]:
    """Run the whole simulation tier as CI does and read its own summary; the seconds are those of the wall clock."""
    began = time.perf_counter()
    run = subprocess.run(["scripts/test", "sim"], cwd=_ROOT, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - began
    found = next(filter(None, map(Tally.read, run.stdout.splitlines())), None)
    if found is None:
        raise RuntimeError(f"the simulation did not come to its summary:\n{run.stdout[-2000:]}\n{run.stderr[-2000:]}")
    if run.returncode:
        print(run.stdout[-4000:], file=sys.stderr)
    figures = {f"sim.{name}": float(count) for name, count in asdict(found).items()}
    return {**figures, "sim.seconds": round(seconds, 1)}
