"""The four kinds: lists and single objects, out of the caches (spec §9.2)."""

from collections.abc import AsyncGenerator, Iterable
from typing import Any

from starlette.responses import Response, StreamingResponse

from magos.api.status import API_VERSION
from magos.server.access import Right, Verb
from magos.server.encoding import JSON
from magos.server.hub import Hub, Scope
from magos.server.kinds import SHOWN, Shown
from magos.server.problems import Problem
from magos.server.table import Answer, Call, Handler, Operation, Parameter, well_formed

BASE = f"/apis/{API_VERSION}"

_PIECE = 1 << 18

NAMESPACE = Parameter(name="namespace", where="path", description="Namespace of the object.")
NAME = Parameter(name="name", where="path", description="Name of the object.")
FILTERS = (
    Parameter(name="namespace", description="Only objects of this namespace. Default: all that may be seen."),
    Parameter(name="projectRef", description="Only what belongs to this Project; needs `namespace`."),
)


def operations() -> list[Operation]:
    """Return the operations that read the four kinds."""
    return [made for shown in SHOWN for made in (_list(shown), _get(shown))]


def scope_of(call: Call, shown: Shown) -> Scope:
    """Return what the query asks for, or raise a ``Problem`` 400."""
    namespace, project = call.query("namespace"), call.query("projectRef")
    if namespace:
        well_formed("namespace", namespace)
    if project:
        well_formed("projectRef", project)
        if not namespace:
            raise Problem(400, "projectRef needs namespace: a Project's name is unique in its namespace only")
        if shown.project_of is None:
            raise Problem(400, f"projectRef does not select {shown.kind.plural}: several Projects may use one")
    return Scope(namespace, project)


def filters(shown: Shown) -> tuple[Parameter, ...]:
    """Return the parameters by which a kind is selected."""
    return FILTERS[:1] if shown.project_of is None else FILTERS


def _list(shown: Shown) -> Operation:
    plural = shown.kind.plural
    return Operation(
        method="GET",
        path=f"{BASE}/{plural}",
        handler=_lister(shown),
        summary=f"List {plural}",
        description="Only what the caller may list is in it, in the order of namespace and name.",
        parameters=filters(shown),
        answer=Answer(description="Full resources.", type=tuple[shown.kind.type, ...]),  # type: ignore[name-defined]
        refusals=(400, 403),
    )


def _get(shown: Shown) -> Operation:
    return Operation(
        method="GET",
        path=f"{BASE}/{shown.kind.plural}/{{namespace}}/{{name}}",
        handler=_getter(shown),
        summary=f"Get a {shown.kind.name}",
        parameters=(NAMESPACE, NAME),
        answer=Answer(description="The resource.", type=shown.kind.type),
        refusals=(400, 403, 404),
    )


def _lister(shown: Shown) -> Handler:
    async def handler(call: Call) -> Response:
        scope, hub = scope_of(call, shown), call.hubs[shown.kind.plural]
        visible: frozenset[str] | None = None
        access, plural = call.context.access, shown.kind.plural
        if scope.namespace:
            await access.require(call.caller, Right(verb=Verb.LIST, resource=plural, namespace=scope.namespace))
        else:
            visible = await access.visible(call.caller, Verb.LIST, plural, hub.namespaces())
        items = hub.informer.cache.list(scope.namespace or None)
        wanted = [
            each
            for each in items
            if (visible is None or each.metadata.namespace in visible) and (not scope.project or _in(hub, scope, each))
        ]
        return StreamingResponse(_array(hub, wanted), media_type=JSON)

    return handler


def _getter(shown: Shown) -> Handler:
    async def handler(call: Call) -> Response:
        namespace, name, hub = call.namespace, call.name, call.hubs[shown.kind.plural]
        right = Right(verb=Verb.GET, resource=shown.kind.plural, namespace=namespace, name=name)
        await call.context.access.require(call.caller, right)
        item = hub.informer.cache.get(namespace, name)
        if item is None:
            raise unknown(shown, namespace, name)
        return Response(hub.json(item), media_type=JSON)

    return handler


def unknown(shown: Shown, namespace: str, name: str) -> Problem:
    """Return the answer to the name of an object that does not exist."""
    return Problem(404, f"there is no {shown.kind.ref(namespace, name)}")


def _in(hub: Hub[Any], scope: Scope, item: Any) -> bool:
    return scope in hub.scopes(item)


async def _array(hub: Hub[Any], items: Iterable[Any]) -> AsyncGenerator[bytes, None]:
    """Yield the objects as a JSON array, in pieces: a client that reads slowly holds one of them."""
    piece = bytearray(b"[")
    for index, each in enumerate(items):
        piece += (b"," if index else b"") + hub.json(each)
        if len(piece) > _PIECE:
            yield bytes(piece)
            piece.clear()
    yield bytes(piece + b"]")
