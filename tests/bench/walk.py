"""How long the demo takes from its start to the last Applied, when everything it needs is cached."""

import subprocess
import sys
import time
from pathlib import Path

__all__ = ["measure"]


def measure() -> dict[str, float]:
    """One run to warm the caches, one that counts: the whole process, its shutdown included."""
    demo = Path(__file__).parents[2] / "scripts" / "demo"
    seconds = 0.0
    for _ in range(2):
        began = time.perf_counter()
        subprocess.run([demo, "--exit"], check=True, stdout=sys.stderr)
        seconds = time.perf_counter() - began
    return {"demo.warm_seconds": round(seconds, 1)}
