"""What an app composes its controllers from: the client, the clock, one informer per kind, and the metrics if any.

All controllers of a process share the informers, so that every pass sees all of them at one instant.
"""

import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar, cast

from magos.api.meta import Kind, Resource
from magos.errors import InvariantViolation
from magos.runtime.cache.informer import Informer
from magos.runtime.client.client import ApiClient
from magos.runtime.clock import Clock
from magos.runtime.controller.view import Caches
from magos.runtime.manager.metrics import Metrics
from magos.runtime.manager.settings import Settings

R = TypeVar("R", bound=Resource)


class Assembly:
    """Handed to the app's ``build``; see the module. ``metrics`` is None in a process that exposes none."""

    def __init__(
        self,
        client: ApiClient,
        clock: Clock,
        rng: random.Random,
        settings: Settings,
        metrics: Metrics | None = None,
    ) -> None:
        self.client = client
        self.clock = clock
        self.rng = rng
        self.settings = settings
        self.metrics = metrics
        self._informers: dict[str, Informer[Any]] = {}
        self._companions: list[tuple[str, Callable[[], Awaitable[None]]]] = []

    def informer(
        self,
        kind: Kind[R],
        *,
        namespace: str = "",
        selector: str = "",
        indexers: Mapping[str, Callable[[R], Iterable[str]]] | None = None,
    ) -> Informer[R]:
        """Return a new informer; a resource can have only one in a process, or views would be ambiguous."""
        if kind.resource in self._informers:
            raise InvariantViolation(f"{kind.resource} has an informer already; share it")
        informer = Informer(
            self.client,
            kind,
            namespace=namespace,
            selector=selector,
            indexers=indexers or {},
            clock=self.clock,
            rng=self.rng,
        )
        self._informers[kind.resource] = cast("Informer[Any]", informer)
        return informer

    def beside(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """Let ``run`` work beside the controllers: only while leading, for ever, and cancelled with their end.

        What it finds out it hands to a controller (``source.WakeUp``); it must not write by itself.
        """
        self._companions.append((name, run))

    @property
    def companions(self) -> tuple[tuple[str, Callable[[], Awaitable[None]]], ...]:
        """What works beside the controllers, by name."""
        return tuple(self._companions)

    @property
    def informers(self) -> tuple[Informer[Any], ...]:
        """All informers so far, in the order in which they were asked for."""
        return tuple(self._informers.values())

    def caches(self) -> Caches:
        """Return the caches of all informers."""
        return Caches({each.kind: each.cache for each in self.informers})
