"""How many runs went through outages of database and bucket, and what history has lost of them."""

import sys
import tempfile
from pathlib import Path

from tests.e2e.onemachine import one_machine
from tests.e2e.outages import tally

__all__ = ["measure"]

_SEED, _WORKSPACES, _ROUNDS = 7, 10, 5


def measure() -> dict[str, float]:
    """Fifty runs; each record that is lost and each log that is not what was printed is named on standard error."""
    with tempfile.TemporaryDirectory() as folder, one_machine(Path(folder) / "machine", {}, extras=True) as here:
        told = tally(here, _SEED, _WORKSPACES, _ROUNDS, Path(folder))
    for what in (*told.lost, *told.unequal):
        print(f"history: {what}", file=sys.stderr)
    return {
        "history.runs": told.runs,
        "history.records_lost": len(told.lost),
        "history.logs_unequal": len(told.unequal),
    }
