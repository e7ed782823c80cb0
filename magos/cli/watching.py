"""Objects as they change: what a command that waits looks at.

The connection may break and the server may forget; it is listed and watched anew, and nobody sees more of it than a
difference that comes late. A refusal that lasts ends the wait.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, Generic, TypeVar

import anyio
from msgspec import Struct

from magos.api.meta import Kind, Resource
from magos.cli.failures import NotFound
from magos.runtime.client.client import ApiClient
from magos.runtime.client.errors import ApiError
from magos.runtime.client.watchevents import WatchEvent, WatchType

R = TypeVar("R", bound=Resource)
Key = tuple[str, str]

_PAUSES = (0.0, 1.0, 2.0, 5.0, 10.0)
"""Seconds before the next try, by the number of failures in a row."""


class Selected(Struct, Generic[R], frozen=True, kw_only=True):
    """Which objects: of one kind, in a namespace (in all if empty), by name or by labels."""

    kind: Kind[R]
    namespace: str
    name: str = ""
    selector: str = ""

    @property
    def field_selector(self) -> str:
        """The name, as the server takes it."""
        return f"metadata.name={self.name}" if self.name else ""


class Change(Struct, Generic[R], frozen=True, kw_only=True):
    """A version of an object; ``gone`` with the last one that was seen. ``first`` while the first list is told."""

    object: R
    gone: bool = False
    first: bool = False


def _key(each: Resource) -> Key:
    return each.metadata.namespace, each.metadata.name


async def changes(client: ApiClient, selected: Selected[R]) -> AsyncGenerator[tuple[Change[R], ...], None]:
    """Yield what is there, in one batch, and then every change. Raises ``ApiError`` for a refusal that lasts."""
    known: dict[Key, R] = {}
    version, first, failures = "", True, 0
    while True:
        try:
            if not version:
                page = await client.list_all(
                    selected.kind,
                    selected.namespace,
                    selector=selected.selector,
                    field_selector=selected.field_selector,
                )
                batch = _difference(known, page.items, first=first)
                if batch or first:
                    yield batch
                version, first = page.resource_version, False
            async with aclosing(_watched(client, selected, version)) as events:
                async for received in events:
                    failures = 0
                    batch, version = _apply(known, received, version)
                    if batch:
                        yield batch
                    if not version:
                        break
        except ApiError as error:
            if error.gone:
                version = ""
            elif first or not error.transient:
                raise
            else:
                version, failures = "", failures + 1
                await anyio.sleep(_PAUSES[min(failures, len(_PAUSES) - 1)])


async def _watched(
    client: ApiClient, selected: Selected[R], version: str
) -> AsyncGenerator[tuple[WatchEvent[R], ...], None]:
    async with client.watch(
        selected.kind,
        namespace=selected.namespace,
        selector=selected.selector,
        field_selector=selected.field_selector,
        resource_version=version,
    ) as stream:
        async for events in stream:
            yield events


def _apply(known: dict[Key, R], received: tuple[WatchEvent[R], ...], version: str) -> tuple[tuple[Change[R], ...], str]:
    """Return the changes that events tell of, and the version to go on from; empty if it has to be listed anew."""
    found: list[Change[R]] = []
    for event in received:
        if event.type is WatchType.ERROR:
            return tuple(found), ""
        version = event.resource_version or version
        if event.object is None:
            continue
        gone = event.type is WatchType.DELETED
        if gone:
            known.pop(_key(event.object), None)
        else:
            known[_key(event.object)] = event.object
        found.append(Change(object=event.object, gone=gone))
    return tuple(found), version


def _difference(known: dict[Key, R], items: tuple[R, ...], *, first: bool) -> tuple[Change[R], ...]:
    """Bring ``known`` up to a new list and return what has changed meanwhile."""
    now = {_key(each): each for each in items}
    found = [Change(object=each, gone=True) for key, each in known.items() if key not in now]
    found += [
        Change(object=each, first=first)
        for key, each in now.items()
        if key not in known or known[key].metadata.resource_version != each.metadata.resource_version
    ]
    known.clear()
    known.update(now)
    return tuple(found)


async def until(client: ApiClient, selected: Selected[R], ended: Callable[[R], Awaitable[bool]]) -> R:
    """Return the first version of one object of which ``ended`` is true; each version is shown to it once.

    Raises ``NotFound`` if the object is not there, is deleted, or is replaced by another of its name.
    """
    ref = selected.kind.ref(selected.namespace, selected.name)
    uid: Any = None
    async with aclosing(changes(client, selected)) as batches:
        async for batch in batches:
            if not batch and uid is None:
                raise NotFound(f"{ref} does not exist")
            for change in batch:
                meta = change.object.metadata
                if change.gone or uid not in (None, meta.uid):
                    raise NotFound(f"{ref} was deleted while it was waited for")
                uid = meta.uid
                if await ended(change.object):
                    return change.object
    raise AssertionError("the changes of an object do not end by themselves")
