"""Which seeds the simulation takes and until when, and what it has done in this process, for the printed figures."""

import os
import re
import time
from dataclasses import asdict, dataclass

__all__ = ["ROUND", "TALLY", "Tally", "is_over"]

ROUND = int(os.environ.get("MAGOS_SIM_ROUND") or 0)
"""Set by ``scripts/test --soak``, which takes other seeds in each round; 0 is the fixed seed set."""

_UNTIL = float(os.environ.get("MAGOS_SIM_UNTIL") or "inf")
"""Unix time at which a soak ends; what has begun by then comes to its end, nothing else begins."""

_LINE = re.compile(
    r"simulation: (?P<histories>\d+) histories, (?P<crash_points>\d+) crash points, (?P<faults>\d+) faults injected,"
    r" (?P<lasting_faults>\d+) lasting faults, (?P<violations>\d+) violations",
    re.ASCII,
)


@dataclass
class Tally:
    """Counts; a history is one played scene with its checks."""

    histories: int = 0
    crash_points: int = 0
    faults: int = 0
    lasting_faults: int = 0
    violations: int = 0

    @staticmethod
    def read(line: str) -> "Tally | None":
        """Return what a printed line says, None if it is another line."""
        found = _LINE.search(line)
        return None if found is None else Tally(**{name: int(count) for name, count in found.groupdict().items()})

    def line(self) -> str:
        """Return the figures as one line."""
        return (
            f"simulation: {self.histories} histories, {self.crash_points} crash points, {self.faults} faults injected,"
            f" {self.lasting_faults} lasting faults, {self.violations} violations"
        )

    def add(self, other: "Tally") -> None:
        """Take the counts of another process in."""
        for name, count in asdict(other).items():
            setattr(self, name, getattr(self, name) + count)


TALLY = Tally()


def is_over() -> bool:
    """Tell whether the time of this run is up."""
    return time.time() >= _UNTIL
