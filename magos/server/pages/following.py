"""The streams that pages follow while somebody looks at them."""

from collections.abc import Iterable, Sequence

from magos.api.meta import Resource
from magos.api.status import API_VERSION
from magos.ui.links import query
from magos.ui.shell import Live, Stream, mark

STREAMED = 500
"""Up to so many objects a page follows their stream, which begins with all of them; a longer one is fetched again."""


def following(plural: str, shown: Sequence[Resource], *more: Stream, namespace: str = "", project: str = "") -> Live:
    """Follow all of ``shown``, which is what the stream of this namespace and Project begins with, and ``more``."""
    if len(shown) > STREAMED:
        return Live()
    path = query(f"/apis/{API_VERSION}/{plural}/events", namespace=namespace, projectRef=project)
    return Live(streams=(Stream(path=path, mark=_mark(shown)), *more))


def one(plural: str, shown: Resource) -> Stream:
    """Follow a single object."""
    path = query(f"/apis/{API_VERSION}/{plural}/events", namespace=shown.metadata.namespace)
    return Stream(path=path, name=shown.metadata.name, mark=_mark((shown,)))


def _mark(shown: Iterable[Resource]) -> str:
    return mark(each.metadata.resource_version for each in shown)
