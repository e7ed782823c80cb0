"""Actors: whatever works on the cluster and is not Magos.

An actor sleeps until an object it cares about has changed or its own deadline has come, waits a moment of its own (a
real component never answers at once), and then does all there is to do. It reads and writes the store directly: actors
are no client under test, so they need no connection that fails.
"""

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar

import anyio

from tests.sim.apiserver import SimApiServer
from tests.sim.apiserver.resources import Json, ResourceType
from tests.sim.apiserver.store import Change, Key

__all__ = ["Actor", "key_of"]


def key_of(item: Json) -> Key:
    """Return the store's key of an object."""
    return (item["metadata"].get("namespace", ""), item["metadata"]["name"])


class Actor(ABC):
    """Base of all actors; ``resources`` are what it watches, ``delay`` the range of its reaction in seconds."""

    name: ClassVar[str]
    resources: ClassVar[Sequence[str]]
    delay: tuple[float, float] = (0.01, 0.1)

    def __init__(self, server: SimApiServer, rng: random.Random) -> None:
        self.server = server
        self.rng = rng
        self.up = True
        self._wake = asyncio.Event()

    @abstractmethod
    def act(self) -> float | None:
        """Do what there is to do now; return the monotonic time at which to look again without a change."""

    async def run(self) -> None:
        """Work for ever."""
        end = self.server.store.subscribe(self._note)
        self._wake.set()
        try:
            deadline: float | None = None
            while True:
                left = None if deadline is None else max(0.0, deadline - self.now())
                with anyio.move_on_after(left):
                    await self._wake.wait()
                await anyio.sleep(self.rng.uniform(*self.delay))
                self._wake.clear()
                deadline = self.act() if self.up else None
        finally:
            end()

    def wake(self) -> None:
        """Look again although nothing that is watched has changed."""
        self._wake.set()

    def now(self) -> float:
        """Return the monotonic time."""
        return self.server.clock.monotonic()

    def items(self, resource: str) -> list[Json]:
        """Return all stored objects of a resource."""
        return self.server.store.items(self.type(resource))

    def type(self, resource: str) -> ResourceType:
        """Return the served resource."""
        return self.server.resource(resource)

    @contextmanager
    def acting(self) -> Iterator[None]:
        """Attribute what is written inside to this actor."""
        self.server.acting = self.name
        try:
            yield
        finally:
            self.server.acting = ""

    def patch(self, resource: str, item: Json, body: Json, subresource: str = "") -> Json | None:
        """Merge ``body`` into the object if it is still there; return it as stored."""
        kind = self.type(resource)
        if self.server.store.get(kind, key_of(item)) is None:
            return None
        with self.acting():
            return self.server.writer.patch(kind, key_of(item), body, subresource)

    def delete(self, resource: str, item: Json, grace: int | None = None) -> None:
        """Delete exactly this object."""
        kind = self.type(resource)
        found = self.server.store.get(kind, key_of(item))
        if found is None or found["metadata"]["uid"] != item["metadata"]["uid"]:
            return
        options: Json = {"propagationPolicy": "Background"}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        with self.acting():
            self.server.writer.delete(kind, key_of(item), options, self.server.clock.now())

    def _note(self, change: Change) -> None:
        if change.resource in self.resources:
            self._wake.set()
