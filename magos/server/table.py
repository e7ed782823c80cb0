"""One table of what the server offers, from which both the router and the OpenAPI document are made.

So the two cannot differ, and no route can forget who asks: ``routes`` finds the caller before it calls the handler,
unless the operation says that it is ``open``.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Literal

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from magos.errors import InvariantViolation
from magos.server.context import Context
from magos.server.hub import Hubs
from magos.server.identity import Caller
from magos.server.problems import Problem

CALLER = "magos.caller"
"""Key of a request's scope under which the caller's name stands, for the request log."""

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)


class Call(Struct, frozen=True, kw_only=True):
    """One request on its way to a handler. ``known`` is None only where the operation is open."""

    context: Context
    hubs: Hubs
    request: Request
    known: Caller | None

    @property
    def caller(self) -> Caller:
        """The caller, whose credential was verified."""
        if self.known is None:
            raise InvariantViolation(f"{self.request.url.path} is open and must not ask who calls")
        return self.known

    @property
    def namespace(self) -> str:
        """The namespace of the path, a well-formed name."""
        return well_formed("namespace", self.request.path_params["namespace"])

    @property
    def name(self) -> str:
        """The object's name of the path, well-formed."""
        return well_formed("name", self.request.path_params["name"])

    def query(self, parameter: str) -> str:
        """Return a parameter of the query, empty if there is none; given twice it is a ``Problem`` 400."""
        values = self.request.query_params.getlist(parameter)
        if len(values) > 1:
            raise Problem(400, f"the parameter {parameter} is given {len(values)} times: give it once")
        return values[0] if values else ""


Handler = Callable[[Call], Awaitable[Response]]


class Parameter(Struct, frozen=True, kw_only=True):
    """A parameter of the path or of the query, with its JSON Schema."""

    name: str
    where: Literal["path", "query"] = "query"
    description: str
    schema: Mapping[str, Any] = MappingProxyType({"type": "string"})


class Answer(Struct, frozen=True, kw_only=True):
    """What comes with one status code: a ``type`` as JSON, or text of another media type."""

    description: str
    type: Any = str
    media: str = "application/json"


class Operation(Struct, frozen=True, kw_only=True):
    """One method of one path. ``refusals`` are the status codes of ``{"error": ...}`` beside 401 and 503."""

    method: Literal["GET", "POST"]
    path: str
    handler: Handler
    summary: str
    answer: Answer
    description: str = ""
    parameters: tuple[Parameter, ...] = ()
    body: Any = None
    refusals: tuple[int, ...] = ()
    open: bool = False
    """True if nobody needs to say who they are."""


def routes(context: Context, hubs: Hubs, operations: Iterable[Operation]) -> list[BaseRoute]:
    """Return the routes of ``operations``, in their order: an earlier path wins over a later one."""
    return [
        Route(each.path, _endpoint(context, hubs, each), methods=[each.method], name=f"{each.method} {each.path}")
        for each in operations
    ]


def well_formed(what: str, name: str) -> str:
    """Return the name of an object as it is, or raise a ``Problem`` 400: it is asked of everybody before any right."""
    if not _NAME.fullmatch(name):
        raise Problem(
            400, f"{what} {name[:253]!r} is no name of an object: use lower-case letters, digits, '-' and '.'"
        )
    return name


def _endpoint(context: Context, hubs: Hubs, operation: Operation) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        known = None
        if not operation.open:
            known = await context.authenticator.caller(request)
            request.scope[CALLER] = known.username
        return await operation.handler(Call(context=context, hubs=hubs, request=request, known=known))

    return endpoint
