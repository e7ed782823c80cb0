"""Everything that may go wrong between controllers and API server, for a while and at random from a seed.

Requests of every method are answered 409, 429, 500 or 504 (with and without effect), lost, or not answered at all.
Watches fall behind, lose events until the next list, repeat them, break, expire and fall silent; as they do so each for
itself, events of different kinds overtake each other.
"""

import random
from collections.abc import Callable, Sequence

import anyio

from tests.sim.apiserver import Answer, Hang, Lose, Rule, SimApiServer
from tests.sim.apiserver.faults import Fault
from tests.sim.apiserver.watch import Watch

__all__ = ["FAULTS", "METHODS", "Turbulence"]

METHODS = ("GET", "POST", "PATCH", "PUT", "DELETE")
FAULTS: Sequence[Fault] = (
    Answer(code=409, reason="Conflict", message="the object has been modified"),
    Answer(code=429, reason="TooManyRequests", message="too many requests", retry_after=1),
    Answer(code=500),
    Answer(code=500, effect=True),
    Answer(code=504, reason="Timeout", message="request did not complete", effect=True),
    Lose(),
    Lose(effect=True),
    Hang(),
    Hang(effect=True),
)
_PAUSE = (0.1, 1.0)


class Turbulence:
    """See the module. ``faults`` counts what was done; after ``seconds`` everything is well again."""

    def __init__(self, server: SimApiServer, rng: random.Random, *, seconds: float, probability: float = 0.02) -> None:
        self._server = server
        self._rng = rng
        self._seconds = seconds
        self._watches = 0
        self._rules = [
            Rule(fault=fault, methods=frozenset({method}), times=None, probability=probability)
            for method in METHODS
            for fault in FAULTS
        ]
        self._blows: tuple[Callable[[Watch], None], ...] = (
            Watch.hold,
            Watch.hold,
            _lose,
            Watch.repeat,
            Watch.disconnect,
            Watch.expire,
            Watch.silence,
        )

    @property
    def faults(self) -> int:
        """Number of faults so far."""
        return self._watches + sum(rule.struck for rule in self._rules)

    async def run(self) -> None:
        """Strike for a while, then heal."""
        for rule in self._rules:
            self._server.faults.add(rule)
        with anyio.move_on_after(self._seconds):
            while True:
                await anyio.sleep(self._rng.uniform(*_PAUSE))
                self._strike()
        self._server.faults.clear()
        for watch in self._server.watches:
            watch.release()
            if watch.lossy:
                watch.expire()

    def _strike(self) -> None:
        for watch in self._server.watches:
            if watch.held and self._rng.random() < 0.5:
                watch.release()
            elif watch.lossy and self._rng.random() < 0.5:
                watch.expire()
        if self._server.watches:
            self._watches += 1
            self._rng.choice(self._blows)(self._rng.choice(self._server.watches))


def _lose(watch: Watch) -> None:
    """Events are dropped from here on; the client learns it only by the 410 that follows some time."""
    watch.lossy = True
