"""Answers queries: the reads that a reconciler may not do itself.

``LiveGet`` and ``LiveList`` are answered here, past every cache; an app registers a handler for each query type of its
own domain. A lasting refusal is an answer too (``QueryFailure``), and so is an object that cannot be decoded, alone or
in a list (``ListPage.complete``); anything transient is raised, so that the pass backs off and asks again.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

import anyio

from magos.errors import ConfigurationError, InvariantViolation
from magos.runtime.client.client import ApiClient
from magos.runtime.client.errors import ApiError
from magos.runtime.clock import Clock
from magos.runtime.decision import UNREADABLE, LiveGet, LiveList, Query, QueryAnswer, QueryFailure, Unreadable

QueryHandler: TypeAlias = Callable[[Any, ApiClient], Awaitable[Any]]
"""``async (query, client) -> value``; raises ``QueryRefused`` or a permanent ``ApiError`` for a lasting refusal."""

_NOT_SERVED = "the server could not find the requested resource"


class QueryRefused(Exception):
    """Raised by a domain's handler: asking again will not help until a person changes something."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.failure = QueryFailure(reason=reason, message=message)


class QueryRegistry:
    """Has a handler for each type of query."""

    def __init__(self, client: ApiClient, clock: Clock, handlers: Mapping[type[Query], QueryHandler]) -> None:
        self._client = client
        self._clock = clock
        self._handlers: dict[type[Query], QueryHandler] = {LiveGet: _live_get, LiveList: _live_list}
        taken = sorted(each.__name__ for each in handlers if each in self._handlers)
        if taken:
            raise ConfigurationError(f"query type {taken[0]} is answered by the runtime; remove its handler")
        self._handlers.update(handlers)

    async def answer(self, queries: Sequence[Query]) -> dict[Query, QueryAnswer]:
        """Answer all queries side by side.

        Raises the first transient error (``ApiError`` or whatever a handler raises); then there are no answers at all.
        """
        answers: dict[Query, QueryAnswer] = {}
        failures: list[Exception] = []

        async def one(query: Query) -> None:
            try:
                answers[query] = await self._ask(query)
            except Exception as error:  # noqa: BLE001 - collected, and raised below without a group around it
                failures.append(error)
                group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            for query in dict.fromkeys(queries):
                group.start_soon(one, query)
        if failures:
            raise failures[0]
        return answers

    async def _ask(self, query: Query) -> QueryAnswer:
        handler = self._handlers.get(type(query))
        if handler is None:
            raise InvariantViolation(f"no handler is registered for query type {type(query).__name__}")
        try:
            value = await handler(query, self._client)
        except QueryRefused as refused:
            return QueryAnswer(failure=refused.failure, at=self._clock.now())
        except Unreadable as error:
            return QueryAnswer(failure=QueryFailure(reason=UNREADABLE, message=str(error)), at=self._clock.now())
        except ApiError as error:
            if not (error.permanent or error.not_found) or error.unauthorized:
                raise
            failure = QueryFailure(reason=error.reason or str(error.status), message=error.message)
            return QueryAnswer(failure=failure, at=self._clock.now())
        return QueryAnswer(value=value, at=self._clock.now())


async def _live_get(query: LiveGet, client: ApiClient) -> Any:
    try:
        return await client.get(query.kind, query.namespace, query.name)
    except ApiError as error:
        # A kind that is not served answers 404 as well, but that is no statement about the object.
        if error.not_found and _NOT_SERVED not in error.detail:
            return None
        raise


async def _live_list(query: LiveList, client: ApiClient) -> Any:
    page = await client.list_all(query.kind, query.namespace, selector=query.selector)
    return page.complete(query.kind)
