"""Which seeds the simulation takes, and what it has done in this process, for the printed figures."""

import os
from dataclasses import dataclass

__all__ = ["ROUND", "TALLY", "Tally"]

ROUND = int(os.environ.get("MAGOS_SIM_ROUND") or 0)
"""Set by ``scripts/test --soak``, which takes other seeds in each round; 0 is the fixed seed set."""


@dataclass
class Tally:
    """Counts; a history is one played scene with its checks."""

    histories: int = 0
    crash_points: int = 0
    faults: int = 0
    violations: int = 0

    def line(self) -> str:
        """Return the figures as one line."""
        return (
            f"simulation: {self.histories} histories, {self.crash_points} crash points, {self.faults} faults injected,"
            f" {self.violations} violations"
        )


TALLY = Tally()
