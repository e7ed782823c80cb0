"""Requests that the client gives up and the server carries out nevertheless: a moment or two minutes later, or never.

The client sees a connection that is reset at once, or no answer within its timeout. It has to find out what became of
the request, and what it does meanwhile must stay right when the request takes effect after all.
"""

import random
from collections.abc import Sequence

import anyio

from magos.runtime.client.transport import HttpRequest
from tests.sim.apiserver import Hang, Late, Lose, Rule, SimApiServer
from tests.sim.apiserver.faults import Fault

__all__ = ["LATE", "WRITES", "LateEffects", "LateJobs", "creates_job"]

WRITES = ("POST", "PATCH", "DELETE")
LATE: Sequence[Fault] = (
    Late(seconds=(0.1, 2.0)),
    Late(seconds=(0.1, 2.0), reset=True),
    Late(seconds=(2.0, 30.0)),
    Late(seconds=(2.0, 30.0), reset=True),
    Late(seconds=(30.0, 120.0)),
    Late(seconds=(30.0, 120.0), reset=True),
    Hang(),
    Lose(),
)


class LateEffects:
    """Strikes writes at random for some seconds; the ones on their way arrive after that, too."""

    def __init__(
        self, server: SimApiServer, rng: random.Random, *, seconds: float = 60.0, probability: float = 0.03
    ) -> None:
        self._server = server
        self._seconds = seconds
        faults = list(LATE)
        rng.shuffle(faults)
        self._rules = [
            Rule(fault=fault, methods=frozenset({method}), times=None, probability=probability, only=_is_struck)
            for method in WRITES
            for fault in faults
        ]

    @property
    def faults(self) -> int:
        """Number of requests struck so far."""
        return sum(rule.struck for rule in self._rules)

    async def run(self) -> None:
        """Strike for a while."""
        for rule in self._rules:
            self._server.faults.add(rule)
        await anyio.sleep(self._seconds)
        self._server.faults.clear()


class LateJobs:
    """Has Jobs created late, at random and until the end of the scene."""

    def __init__(self, server: SimApiServer, *, reset: bool, probability: float) -> None:
        self._server = server
        self._rule = Rule(fault=Late(reset=reset), times=None, probability=probability, only=creates_job)

    @property
    def faults(self) -> int:
        """Number of Jobs that come late."""
        return self._rule.struck

    async def run(self) -> None:
        """Strike from now on."""
        self._server.faults.add(self._rule)


def _is_struck(request: HttpRequest) -> bool:
    """Events are told and forgotten. That Jobs may be created late is known, and has scenes of its own."""
    return "/events" not in request.path and not creates_job(request)


def creates_job(request: HttpRequest) -> bool:
    """Tell whether the request creates a Job."""
    return request.method == "POST" and request.path.endswith("/jobs")
