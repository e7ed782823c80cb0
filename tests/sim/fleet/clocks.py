"""Whose wall clock goes wrong, and by how much: the API server's, the nodes', and each replica's of a controller.

Monotonic clocks agree: nobody sets those, and the Lease is timed by them alone.
"""

from dataclasses import dataclass
from datetime import timedelta

from tests.sim.virtualtime import EPOCH, VirtualClock

__all__ = ["EXACT", "Clocks"]


@dataclass(frozen=True, kw_only=True)
class Clocks:
    """Seconds by which each clock is fast, or below 0 slow; the replica of number n has the n-th of ``replicas``."""

    api: float = 0.0
    nodes: float = 0.0
    replicas: tuple[float, ...] = (0.0,)

    def server(self) -> VirtualClock:
        """Return the clock of creation times, and of the controllers of Kubernetes."""
        return _clock(self.api)

    def node(self) -> VirtualClock:
        """Return the clock of what the kubelet reports."""
        return _clock(self.nodes)

    def replica(self, number: int) -> VirtualClock:
        """Return the clock a process decides by."""
        return _clock(self.replicas[number % len(self.replicas)])

    def fastest(self) -> float:
        """Return by how much the fastest replica is ahead of true time, 0 if none is."""
        return max(0.0, *self.replicas)

    def slowest(self) -> float:
        """Return by how much the slowest replica is behind true time, 0 if none is."""
        return -min(0.0, *self.replicas)


def _clock(fast: float) -> VirtualClock:
    return VirtualClock(epoch=EPOCH + timedelta(seconds=fast))


EXACT = Clocks()
"""All agree."""
