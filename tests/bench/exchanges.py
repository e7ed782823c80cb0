"""How many times a plan was exchanged on its way, and how many times another one than was shown could be applied."""

import sys
import tempfile
from pathlib import Path

from tests.e2e.hostile.exchange import tally

__all__ = ["measure"]

_SEED, _MOMENTS = 2, 600


def measure() -> dict[str, float]:
    """Every way at every step of the tool, and at lines of our own code; each success is named on standard error."""
    with tempfile.TemporaryDirectory() as folder:
        tried, exchanged = tally(Path(folder), _SEED, _MOMENTS)
    for attempt, outcomes in exchanged:
        print(f"exchanged: {attempt}: {outcomes}", file=sys.stderr)
    return {"plan.exchanges_tried": tried, "plan.exchanged": len(exchanged)}
