"""A simulated Kubernetes API server behind the ``Transport`` protocol.

It has the semantics that Magos relies on (versions, conflicts, generation, status subresource, finalizers and
deletion, preconditions, selectors, owner references, watches with bookmarks and compaction), it is deterministic, and
it fails on order. The conformance suite runs the same tests against it and against the real server.
"""

from tests.sim.apiserver.faults import Answer, Hang, Late, Lose, Rule
from tests.sim.apiserver.server import Served, SimApiServer, SimTransport

__all__ = ["Answer", "Hang", "Late", "Lose", "Rule", "Served", "SimApiServer", "SimTransport"]
