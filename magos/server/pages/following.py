"""The streams that pages follow while somebody looks at them."""

from collections.abc import Iterable, Sequence

from magos.api.meta import Resource
from magos.api.status import API_VERSION
from magos.server.pages.visit import Visit
from magos.server.sight import watching
from magos.ui.links import query
from magos.ui.shell import Live, Stream, mark

STREAMED = 500
"""Up to so many objects a page follows their stream, which begins with all of them; a longer one is fetched again."""


def following(plural: str, shown: Sequence[Resource]) -> Live:
    """Follow all objects of a kind, in whatever namespaces the caller may see."""
    return Live(streams=(_all(plural, shown),)) if len(shown) <= STREAMED else Live()


async def alone(visit: Visit, plural: str, shown: Resource) -> Live:
    """Follow the object of the path; whoever may not watch it has the page fetched again."""
    return Live(streams=(_one(plural, shown),)) if await _may_watch(visit, plural) else Live()


async def with_members(visit: Visit, plural: str, shown: Resource, project: str, those: Sequence[Resource]) -> Live:
    """Follow the object of the path as well as ``those``, all Workspaces of a Project of its namespace."""
    allowed = await _may_watch(visit, plural) and await _may_watch(visit, "workspaces")
    if not allowed or len(those) > STREAMED:
        return Live()
    return Live(streams=(_all("workspaces", those, namespace=visit.namespace, projectRef=project), _one(plural, shown)))


async def _may_watch(visit: Visit, plural: str) -> bool:
    return await visit.context.access.allows(visit.caller, watching(plural, visit.namespace))


def _all(plural: str, shown: Sequence[Resource], **scope: str) -> Stream:
    return Stream(path=query(f"/apis/{API_VERSION}/{plural}/events", **scope), mark=_mark(shown))


def _one(plural: str, shown: Resource) -> Stream:
    meta = shown.metadata
    path = query(f"/apis/{API_VERSION}/{plural}/events", namespace=meta.namespace)
    return Stream(path=path, name=meta.name, mark=_mark((shown,)))


def _mark(shown: Iterable[Resource]) -> str:
    return mark(each.metadata.resource_version for each in shown)
