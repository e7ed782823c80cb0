"""Answers probes: the reads that a reconciler may not do itself.

``LiveGet`` and ``LiveList`` are answered here, past every cache; an app registers a handler for each probe type of its
own domain. A lasting refusal is an answer too (``ProbeFailure``), and so is an object that cannot be decoded, alone or
in a list (``ListPage.complete``); anything transient is raised, so that the pass backs off and asks again.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

import anyio

from magos.errors import ConfigurationError, InvariantViolation
from magos.runtime.client.client import ApiClient
from magos.runtime.client.errors import ApiError
from magos.runtime.clock import Clock
from magos.runtime.decision import UNREADABLE, Fact, LiveGet, LiveList, Probe, ProbeFailure, Unreadable

__all__ = ["ProbeHandler", "ProbeRefused", "ProbeRegistry"]

ProbeHandler: TypeAlias = Callable[[Any, ApiClient], Awaitable[Any]]
"""``async (probe, client) -> value``; raises ``ProbeRefused`` or a permanent ``ApiError`` for a lasting refusal."""

_NOT_SERVED = "the server could not find the requested resource"


class ProbeRefused(Exception):
    """Raised by a domain's handler: asking again will not help until somebody changes something."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.failure = ProbeFailure(reason=reason, message=message)


class ProbeRegistry:
    """Knows who answers which type of probe."""

    def __init__(self, client: ApiClient, clock: Clock, handlers: Mapping[type[Probe], ProbeHandler]) -> None:
        self._client = client
        self._clock = clock
        self._handlers: dict[type[Probe], ProbeHandler] = {LiveGet: _live_get, LiveList: _live_list}
        taken = sorted(each.__name__ for each in handlers if each in self._handlers)
        if taken:
            raise ConfigurationError(f"probe type {taken[0]} is answered by the runtime; remove its handler")
        self._handlers.update(handlers)

    async def answer(self, probes: Sequence[Probe]) -> dict[Probe, Fact]:
        """Answer all probes side by side.

        Raises the first transient error (``ApiError`` or whatever a handler raises); then there are no facts at all.
        """
        facts: dict[Probe, Fact] = {}
        failures: list[Exception] = []

        async def one(probe: Probe) -> None:
            try:
                facts[probe] = await self._ask(probe)
            except Exception as error:  # noqa: BLE001 - collected, and raised below without a group around it
                failures.append(error)
                group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            for probe in dict.fromkeys(probes):
                group.start_soon(one, probe)
        if failures:
            raise failures[0]
        return facts

    async def _ask(self, probe: Probe) -> Fact:
        handler = self._handlers.get(type(probe))
        if handler is None:
            raise InvariantViolation(f"no handler is registered for probe type {type(probe).__name__}")
        try:
            value = await handler(probe, self._client)
        except ProbeRefused as refused:
            return Fact(failure=refused.failure, at=self._clock.now())
        except Unreadable as error:
            return Fact(failure=ProbeFailure(reason=UNREADABLE, message=str(error)), at=self._clock.now())
        except ApiError as error:
            if not (error.permanent or error.not_found) or error.unauthorized:
                raise
            failure = ProbeFailure(reason=error.reason or str(error.status), message=error.message)
            return Fact(failure=failure, at=self._clock.now())
        return Fact(value=value, at=self._clock.now())


async def _live_get(probe: LiveGet, client: ApiClient) -> Any:
    try:
        return await client.get(probe.kind, probe.namespace, probe.name)
    except ApiError as error:
        # A kind that is not served answers 404 as well, but that is no statement about the object.
        if error.not_found and _NOT_SERVED not in error.detail:
            return None
        raise


async def _live_list(probe: LiveList, client: ApiClient) -> Any:
    page = await client.list_all(probe.kind, probe.namespace, selector=probe.selector)
    return page.complete(probe.kind)
