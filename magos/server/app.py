"""The ASGI application: every route under the same rules (spec §9.1)."""

from collections.abc import Sequence

from msgspec import Struct
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import BaseRoute, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from magos.errors import InvariantViolation
from magos.server import actions, events, livelog, logs, probes, resources, runs
from magos.server.context import Context
from magos.server.documentation import with_documentation
from magos.server.hub import Hubs
from magos.server.middleware import BoundedBody, Refusals, RequestLog, SafeHeaders
from magos.server.refusals import Render
from magos.server.table import Operation, routes

_DESCRIBED = ("/api/", "/apis/")


class Rules(Struct, frozen=True, kw_only=True):
    """What an application is like besides its routes."""

    cors_origins: tuple[str, ...] = ()
    """Origins whose pages may call the API, with a bearer token: cookies are never taken from there."""

    render: Render | None = None
    """Makes pages of refusals for browsers."""


def api_operations(ready: probes.Check, version: str, more: Sequence[Operation] = ()) -> list[Operation]:
    """Return every operation of the API; ``more`` are those of other modules."""
    own = [
        *probes.operations(ready),
        *events.operations(),  # before the objects: `events` is no namespace
        *resources.operations(),
        *livelog.operations(),  # before the logs: `current` is no run ID
        *logs.operations(),
        *runs.operations(),
        *actions.operations(),
        *more,
    ]
    return with_documentation(own, version)


def application(
    context: Context,
    hubs: Hubs,
    operations: Sequence[Operation],
    more: Sequence[BaseRoute] = (),
    rules: Rules | None = None,
) -> ASGIApp:
    """Return the application of ``operations`` and ``more`` routes, which stand behind them.

    Whatever a route raises becomes an answer: a ``Problem`` as it is, everything else without internals. What belongs
    to the API has to be among ``operations``, which are described: ``InvariantViolation`` for such a route in ``more``.
    """
    rules = rules or Rules()
    for route in more:
        if isinstance(route, Route) and route.path.startswith(_DESCRIBED):
            raise InvariantViolation(f"{route.path} is no Operation of the table, so that the document would lack it")
    middleware = [
        Middleware(RequestLog),
        Middleware(SafeHeaders),
        *_cors(rules),
        Middleware(Refusals, render=rules.render),
        Middleware(BoundedBody),
    ]
    app: ASGIApp = _raising(Router([*routes(context, hubs, operations), *more], redirect_slashes=False))
    for each in reversed(middleware):
        app = each.cls(app, *each.args, **each.kwargs)
    return app


def _raising(router: Router) -> ASGIApp:
    """Return the router so that it raises what it refuses: without an application around it would answer in its way."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = router
        await router(scope, receive, send)

    return app


def _cors(rules: Rules) -> list[Middleware]:
    if not rules.cors_origins:
        return []
    return [
        Middleware(
            CORSMiddleware,
            allow_origins=rules.cors_origins,
            allow_methods=("GET", "POST"),
            allow_headers=("Authorization", "Content-Type"),
            allow_credentials=False,
        )
    ]
