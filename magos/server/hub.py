"""Passes the changes of one kind on to all open streams, and keeps each object's JSON for all of them.

Promises:

1. Each state of an object is encoded once, however many clients get it.
2. A change costs one step for each follower that it concerns, and nothing for the others: followers are filed by scope.
3. A follower gets every object of its scope, and then either every change in its order or the news that it has lost
   some (``lost``). Before it has got all objects, several changes of one object may arrive as the last of them.
4. What a slow follower holds is bounded: 64 changes, and before it has all objects one change for each of them.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import StrEnum
from typing import Any, Generic, NamedTuple, TypeVar

from magos.api.meta import Resource
from magos.runtime.cache.cache import Change
from magos.runtime.cache.indexer import ObjectKey
from magos.runtime.cache.informer import Informer
from magos.server.encoding import resource

R = TypeVar("R", bound=Resource)

BUFFER = 64
"""Changes that wait for one client."""


class ChangeType(StrEnum):
    """What happened to an object, as a client of this scope sees it."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class Scope(NamedTuple):
    """What a follower wants: a namespace, in it one Project; empty means all."""

    namespace: str = ""
    project: str = ""


class Frame(NamedTuple):
    """One event as it goes over the wire, and the namespace that one must be allowed to see for it."""

    namespace: str
    data: bytes


class Follower(Generic[R]):
    """One open stream; made by ``Hub.follow``."""

    def __init__(self, hub: "Hub[R]", scope: Scope) -> None:
        self.scope = scope
        self.lost = False
        self.closing = False
        self._hub = hub
        self._initial: tuple[R, ...] | None = hub.informer.cache.list(scope.namespace or None)
        self._position = 0
        self._early: dict[ObjectKey, tuple[Frame | None, Frame | None]] = {}
        """What happened before all was got: the end of the object that the client may have, and what is there now."""
        self._frames: deque[Frame] = deque()
        self._woken = asyncio.Event()

    def offer(self, change: ChangeType, key: ObjectKey, frame: Frame) -> None:
        """Take one change in; called by the hub."""
        if self._initial is not None:
            ended, _ = self._early.get(key, (None, None))
            self._early[key] = (frame, None) if change is ChangeType.DELETED else (ended, frame)
        elif len(self._frames) < BUFFER:
            self._frames.append(frame)
        else:
            self.lost = True
        self._woken.set()

    def end(self) -> None:
        """Let the stream end: the server stops."""
        self.closing = True
        self._woken.set()

    def initial(self, most: int) -> list[Frame]:
        """Return up to about ``most`` bytes of the objects as they are now; empty once the follower has them all."""
        found: list[Frame] = []
        size = 0
        while self._initial is not None and size < most:
            if self._position < len(self._initial):
                meta = self._initial[self._position].metadata
                self._position += 1
                item = self._hub.informer.cache.get(meta.namespace, meta.name)
                if item is None or self.scope not in self._hub.scopes(item):
                    continue
                found.append(self._hub.frame(ChangeType.ADDED, item))
            elif self._early:
                found += [each for each in self._early.pop(next(iter(self._early))) if each is not None]
            elif found:
                break  # what comes meanwhile still counts as early
            else:
                self._initial = None
                break
            size += len(found[-1].data)
        return found

    def changes(self) -> list[Frame]:
        """Return the changes that wait, in their order."""
        found = list(self._frames)
        self._frames.clear()
        return found

    async def wait(self, seconds: float) -> None:
        """Return when there may be something to do, at the latest after ``seconds``."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        self._woken.clear()


class Hub(Generic[R]):
    """See the module. ``project_of`` names an object's Project; None where the kind belongs to none."""

    def __init__(self, informer: Informer[R], project_of: Callable[[R], str] | None) -> None:
        self.informer = informer
        self.project_of = project_of
        self._encoded: dict[ObjectKey, tuple[R, bytes]] = {}
        self._followers: dict[Scope, set[Follower[R]]] = {}
        self.closing = False
        informer.add_handler(self._changed)

    @property
    def followers(self) -> int:
        """Number of open streams."""
        return sum(map(len, self._followers.values()))

    def json(self, item: R) -> bytes:
        """Return the object as JSON; encoded once as long as it stays the same."""
        key = (item.metadata.namespace, item.metadata.name)
        known = self._encoded.get(key)
        if known is not None and known[0] is item:
            return known[1]
        encoded = resource(self.informer.kind, item)
        if self.informer.cache.get(*key) is item:  # what is gone is not kept
            self._encoded[key] = (item, encoded)
        return encoded

    def frame(self, change: ChangeType, item: R) -> Frame:
        """Return the event that tells of an object."""
        meta = item.metadata
        version = meta.resource_version.encode()
        data = b'id: %b\ndata: {"type":"%b","object":%b}\n\n' % (version, change.encode(), self.json(item))
        return Frame(meta.namespace, data)

    def scopes(self, item: R | None) -> frozenset[Scope]:
        """Return the scopes that the object is in; none for no object."""
        if item is None:
            return frozenset()
        namespace = item.metadata.namespace
        wide = (Scope(), Scope(namespace))
        return frozenset(wide if self.project_of is None else (*wide, Scope(namespace, self.project_of(item))))

    def namespaces(self) -> frozenset[str]:
        """Return the namespaces that have objects of this kind."""
        return frozenset(each.metadata.namespace for each in self.informer.cache.list())

    @contextmanager
    def follow(self, scope: Scope) -> "Iterator[Follower[R]]":
        """Follow what is in ``scope`` until the block ends."""
        follower = Follower(self, scope)
        followers = self._followers.setdefault(scope, set())
        followers.add(follower)
        if self.closing:
            follower.end()
        try:
            yield follower
        finally:
            followers.discard(follower)
            if not followers:
                self._followers.pop(scope, None)

    def close(self) -> None:
        """End all streams, and those that are opened from now on."""
        self.closing = True
        for followers in self._followers.values():
            for follower in followers:
                follower.end()

    def _changed(self, change: Change[R]) -> None:
        old, new = change.old, change.new
        item = new if new is not None else old
        if item is None:
            return
        key = (item.metadata.namespace, item.metadata.name)
        before, after = self.scopes(old), self.scopes(new)
        frames: dict[ChangeType, Frame] = {}
        for scope in before | after:
            followers = self._followers.get(scope)
            if followers:
                kind = _seen(was=scope in before, is_=scope in after)
                if kind not in frames:
                    shown = old if kind is ChangeType.DELETED and old is not None else item
                    frames[kind] = self.frame(kind, shown)
                for follower in followers:
                    follower.offer(kind, key, frames[kind])
        if new is None:
            self._encoded.pop(key, None)


def _seen(*, was: bool, is_: bool) -> ChangeType:
    if was and is_:
        return ChangeType.MODIFIED
    return ChangeType.ADDED if is_ else ChangeType.DELETED


Hubs = Mapping[str, Hub[Any]]
"""One hub for each kind, by its plural."""
