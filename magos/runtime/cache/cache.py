"""The last known state of all objects of one kind, as the API server sent it.

Promises:

1. ``replace`` swaps everything at once and returns exactly what differs: deletions first, then the rest by key. What a
   relist merely repeats (same uid and version) is not a change.
2. An event that is not newer than what the cache has already seen changes nothing: duplicates and late arrivals can
   neither roll an object back nor bring a deleted one to life.
3. Another uid under a known name is a deletion and a creation, two changes.
4. ``resource_version`` is the newest version that the cache reflects, bookmarks included: any write at or before it has
   been seen. It never falls except by ``replace``, because the server may have been restored from a backup.
5. Only the API server's lists and watches enter; answers to our own writes never do.
6. An object that cannot be decoded, or that an index function raises for, is in quarantine. Its last decodable state is
   kept as long as it is the same object, so that its change or end is noticed; a pass is not shown it (``view``).

Objects are frozen and handed out as they are.
"""

from collections.abc import Iterable, Mapping
from typing import Generic, TypeAlias, TypeVar

from msgspec import Struct

from magos.api.meta import Kind, ObjectMeta, Resource
from magos.runtime.cache.indexer import Indexer, IndexFunction, ObjectKey, Unindexable
from magos.runtime.cache.quarantine import Quarantine
from magos.runtime.client.watchevents import Undecodable, WatchEvent, WatchType
from magos.runtime.resourceversion import is_older

R = TypeVar("R", bound=Resource)


class Change(Struct, Generic[R], frozen=True, kw_only=True):
    """One object's step: ``old`` None is an appearance, ``new`` None a disappearance (deleted, or deselected).

    ``initial`` marks what a handler gets only because it starts to listen.
    """

    old: R | None
    new: R | None
    initial: bool = False


Changes: TypeAlias = list[Change[R]]


class Cache(Generic[R]):
    """See the module. Not thread-safe: one loop owns it."""

    def __init__(self, kind: Kind[R], indexers: Mapping[str, IndexFunction[R]] | None = None) -> None:
        self.kind = kind
        self.quarantine = Quarantine(kind, indexers or {})
        self._objects: dict[ObjectKey, R] = {}
        self._indexer: Indexer[R] = Indexer(indexers or {})
        self._functions = dict(indexers or {})
        self._version = ""
        self._names: dict[str, set[str]] = {}
        self._sorted: dict[str | None, tuple[R, ...]] = {}

    @property
    def resource_version(self) -> str:
        """The watermark of rule 4; empty before the first list."""
        return self._version

    @property
    def undecodable(self) -> Mapping[ObjectKey, Undecodable]:
        """The objects in quarantine."""
        return self.quarantine.objects

    def __len__(self) -> int:
        """Return the number of objects."""
        return len(self._objects)

    def get(self, namespace: str, name: str) -> R | None:
        """Return the object or None."""
        return self._objects.get((namespace, name))

    def list(self, namespace: str | None = None) -> tuple[R, ...]:
        """Return the objects of a namespace (None: of all) in the order of their keys."""
        found = self._sorted.get(namespace)
        if found is None:
            if namespace is None:
                keys = sorted(self._objects)
            else:
                keys = [(namespace, name) for name in sorted(self._names.get(namespace, ()))]
            found = self._sorted[namespace] = tuple(self._objects[key] for key in keys)
        return found

    def by_index(self, index: str, value: str) -> tuple[R, ...]:
        """Return the objects filed under ``value``, in the order of their keys."""
        return tuple(self._objects[key] for key in self._indexer.keys(index, value))

    def indices(self) -> dict[str, dict[str, frozenset[ObjectKey]]]:
        """Return a copy of all indices, for tests and debugging."""
        return self._indexer.snapshot()

    def replace(self, items: Iterable[R], undecodable: Iterable[Undecodable], version: str) -> Changes[R]:
        """Become exactly the listed state and return what differs from before."""
        old = self._objects
        objects: dict[ObjectKey, R] = {}
        indexer: Indexer[R] = Indexer(self._functions)
        names: dict[str, set[str]] = {}

        def enter(key: ObjectKey, item: R) -> None:
            indexer.update(key, None, item)
            objects[key] = item
            names.setdefault(key[0], set()).add(key[1])

        bad = list(undecodable)
        for item in items:
            try:
                enter(_key(item.metadata), item)
            except Unindexable as error:
                bad.append(Undecodable(metadata=item.metadata, problem=str(error)))
        self.quarantine.replace(bad)
        for each in bad:
            kept = old.get(_key(each.metadata))
            if kept is not None and kept.metadata.uid == each.metadata.uid:
                enter(_key(each.metadata), kept)
        self._objects, self._indexer, self._names, self._version = objects, indexer, names, version
        self._sorted.clear()
        return _difference(old, objects)

    def apply(self, events: Iterable[WatchEvent[R]]) -> Changes[R]:
        """Take in a batch of watch events and return the changes they made, in their order."""
        changes: Changes[R] = []
        for event in events:
            if event.type is WatchType.BOOKMARK or event.type is WatchType.UNKNOWN:
                self._advance(event.resource_version)
            elif event.resource_version and not self._news(event.resource_version):
                continue
            else:
                changes += self._take(event)
                self._advance(event.resource_version)
        return changes

    def _take(self, event: WatchEvent[R]) -> Changes[R]:
        if event.undecodable is not None:
            return self._take_undecodable(event.undecodable, deleted=event.type is WatchType.DELETED)
        if event.object is None:
            return []
        key = _key(event.object.metadata)
        old = self._objects.get(key)
        changes: Changes[R] = []
        if event.type is WatchType.DELETED:
            self.quarantine.release(key)
            return self._put(key, old, None)
        if old is not None and old.metadata.uid != event.object.metadata.uid:
            changes += self._put(key, old, None)
            old = None
        try:
            changes += self._put(key, old, event.object)
        except Unindexable as error:
            return changes + self._quarantined(Undecodable(metadata=event.object.metadata, problem=str(error)))
        self.quarantine.release(key)
        return changes

    def _take_undecodable(self, bad: Undecodable, *, deleted: bool) -> Changes[R]:
        if deleted:
            key = _key(bad.metadata)
            self.quarantine.release(key)
            return self._put(key, self._objects.get(key), None)
        return self._quarantined(bad)

    def _quarantined(self, bad: Undecodable) -> Changes[R]:
        key = _key(bad.metadata)
        old = self._objects.get(key)
        self.quarantine.put(bad)
        if old is not None and bad.metadata.uid and old.metadata.uid != bad.metadata.uid:
            return self._put(key, old, None)
        return []

    def _put(self, key: ObjectKey, old: R | None, new: R | None) -> Changes[R]:
        if old is None and new is None:
            return []
        self._indexer.update(key, old, new)
        names = self._names.setdefault(key[0], set())
        if new is None:
            del self._objects[key]
            names.discard(key[1])
            if not names:
                del self._names[key[0]]
        else:
            self._objects[key] = new
            names.add(key[1])
        self._sorted.pop(None, None)
        self._sorted.pop(key[0], None)
        return [Change(old=old, new=new)]

    def _news(self, version: str) -> bool:
        """Tell whether a version may be newer than the watermark (opaque versions always may)."""
        return version != self._version and not is_older(version, self._version)

    def _advance(self, version: str) -> None:
        if version and not is_older(version, self._version):
            self._version = version


def _key(metadata: ObjectMeta) -> ObjectKey:
    return (metadata.namespace, metadata.name)


def _difference(old: Mapping[ObjectKey, R], new: Mapping[ObjectKey, R]) -> Changes[R]:
    gone: Changes[R] = []
    rest: Changes[R] = []
    for key in sorted(old.keys() | new.keys()):
        before, after = old.get(key), new.get(key)
        if before is not None and (after is None or after.metadata.uid != before.metadata.uid):
            gone.append(Change(old=before, new=None))
            before = None
        if after is None:
            continue
        if before is None or before.metadata.resource_version != after.metadata.resource_version:
            rest.append(Change(old=before, new=after))
    return gone + rest
