"""The objects and their history: one counter of versions over all resources, as etcd's revision is.

What is stored is never changed: a write puts a new object, which may share parts with the old one. So nothing is copied
for a write but the objects along the path to what changed, and this is most of what a simulated server would spend.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from tests.sim.apiserver.problems import expired
from tests.sim.apiserver.resources import Json, ResourceType

__all__ = ["Change", "Key", "Store", "copy_of"]

Key = tuple[str, str]
"""(namespace, name)"""

FIRST = 1000


def copy_of(value: Json) -> Json:
    """Return a deep copy, in plain JSON types, of an object that somebody else may still change."""
    copied: Json = msgspec.json.decode(msgspec.json.encode(value))
    return copied


@dataclass(frozen=True, kw_only=True)
class Change:
    """One committed write. ``old`` is None for a creation, ``new`` for a deletion; both carry their versions.

    A deletion's ``old`` is the last state under the version of the deletion, as watchers are told.
    """

    version: int
    resource: str
    key: Key
    old: Json | None
    new: Json | None


class Store:
    """Committed objects by resource; values handed in and out must not be changed."""

    def __init__(self) -> None:
        self.version = FIRST
        self.compacted = FIRST
        self._objects: dict[str, dict[Key, Json]] = {}
        self._uids: dict[str, Json] = {}
        self._history: list[Change] = []
        self._listeners: dict[int, Callable[[Change], None]] = {}
        self._serial = itertools.count()

    def get(self, resource: ResourceType, key: Key) -> Json | None:
        """Return the stored object or None."""
        return self._objects.get(resource.resource, {}).get(key)

    def of_uid(self, uid: str) -> Json | None:
        """Return the stored object with this UID, of whatever resource, or None."""
        return self._uids.get(uid)

    def items(self, resource: ResourceType, namespace: str = "") -> list[Json]:
        """Return the objects in the order of their keys."""
        objects = self._objects.get(resource.resource, {})
        return [objects[key] for key in sorted(objects) if not namespace or key[0] == namespace]

    def put(self, resource: ResourceType, key: Key, value: Json) -> Json:
        """Commit ``value`` under the next version and return it as stored."""
        self.version += 1
        stored = self._at_version(value)
        objects = self._objects.setdefault(resource.resource, {})
        old = objects.get(key)
        objects[key] = stored
        self._uids[stored["metadata"]["uid"]] = stored
        self._commit(Change(version=self.version, resource=resource.resource, key=key, old=old, new=stored))
        return stored

    def remove(self, resource: ResourceType, key: Key) -> Json:
        """Commit the deletion and return the last state under the version of the deletion."""
        self.version += 1
        last = self._at_version(self._objects[resource.resource].pop(key))
        del self._uids[last["metadata"]["uid"]]
        self._commit(Change(version=self.version, resource=resource.resource, key=key, old=last, new=None))
        return last

    def since(self, resource: ResourceType, version: int) -> list[Change]:
        """Return what was committed after ``version``; raise a 410 problem if that was compacted away."""
        if version < self.compacted:
            raise expired(f"too old resource version: {version} ({self.compacted})")
        return [c for c in self._history if c.version > version and c.resource == resource.resource]

    def compact(self) -> None:
        """Forget the history: watches from before now are answered with 410."""
        self.compacted = self.version
        self._history.clear()

    def skip_versions(self, count: int) -> None:
        """Move the version as writes to resources that nobody here looks at would."""
        self.version += count

    def subscribe(self, listener: Callable[[Change], None]) -> Callable[[], None]:
        """Call ``listener`` with every change from now on; returns the way to end it."""
        serial = next(self._serial)
        self._listeners[serial] = listener

        def end() -> None:
            self._listeners.pop(serial, None)

        return end

    def _at_version(self, value: Json) -> Json:
        return {**value, "metadata": {**value["metadata"], "resourceVersion": str(self.version)}}

    def _commit(self, change: Change) -> None:
        self._history.append(change)
        for listener in tuple(self._listeners.values()):
            listener(change)
