"""What the simulation has done in this process, for the printed figures."""

import os
from dataclasses import dataclass

__all__ = ["SOAK_MINUTES", "TALLY", "Tally"]

SOAK_MINUTES = float(os.environ.get("MAGOS_SIM_SOAK_MINUTES") or 0)
"""Set by ``scripts/test --soak``; 0 is the fixed seed set."""


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
