"""What the carrying out of one decision has learned so far: versions it moved, objects as it left them, its writes.

A precondition names the version that the pass judged. Where this decision itself moved the object from exactly that
version, the new version is expected instead. A write that was not conditional may have overtaken another client's, so
it moves nothing: a later precondition on that object then ends as a conflict, and the next pass judges anew.
"""

from typing import Any, NamedTuple

from magos.api.meta import Kind, ObjectMeta, Resource
from magos.runtime.controller.consistency import Write
from magos.runtime.controller.view import Caches


class Target(NamedTuple):
    """The object that a step is about."""

    kind: Kind[Any]
    namespace: str
    name: str


class Ledger:
    """Kept for one decision; see the module.

    ``confirmed_at`` is the monotonic time at which the API server last said that what was judged is so still.
    """

    def __init__(self, caches: Caches, *, confirmed_at: float = 0.0) -> None:
        self.confirmed_at = confirmed_at
        self._caches = caches
        self._moved: dict[tuple[str, str, str, str], str] = {}
        self._left: dict[tuple[str, str, str], Resource] = {}
        self.writes: list[Write] = []

    def expected(self, target: Target, judged: str) -> str:
        """Return the version the object must have now, if no other client touched it since it was judged."""
        slot = _slot(target)
        while (moved := self._moved.get((*slot, judged))) is not None:
            judged = moved
        return judged

    def known(self, target: Target) -> Resource | None:
        """Return the object as this decision left it, else as the cache holds it (or its metadata), else None."""
        left = self._left.get(_slot(target))
        if left is not None:
            return left
        cache = self._caches.find(target.kind.resource)
        return None if cache is None else cache.get(target.namespace, target.name)

    def is_watched(self, target: Target) -> bool:
        """Tell whether a cache follows objects of this resource."""
        return self._caches.find(target.kind.resource) is not None

    def wrote(self, target: Target, stored: Resource, *, conditional_on: str = "") -> None:
        """Note an acknowledged write (or an own object found in place) and the object that resulted."""
        meta = stored.metadata
        if conditional_on and conditional_on != meta.resource_version:
            self._moved[(*_slot(target), conditional_on)] = meta.resource_version
        self._left[_slot(target)] = stored
        if meta.deletion_timestamp is not None and not meta.finalizers:
            self.deleted(target, meta)
        else:
            self.writes.append(_write(target, meta))

    def deleted(self, target: Target, last: ObjectMeta) -> None:
        """Note that an object, last known like this, is deleted or on its way."""
        self._left.pop(_slot(target), None)
        self.writes.append(_write(target, last, gone=True))

    def unclear(self, target: Target) -> None:
        """Note that the caches may be behind about the object: a write is in doubt, or was refused as outdated."""
        self.writes.append(_write(target, None, unknown=True))

    def perhaps_deleted(self, target: Target, last: ObjectMeta) -> None:
        """Note a deletion that was sent and not answered."""
        self.writes.append(_write(target, last, gone=True, unknown=True))


def _slot(target: Target) -> tuple[str, str, str]:
    # Not the Kind itself: the full and the metadata-only form of a resource are the same object.
    return target.kind.resource, target.namespace, target.name


def _write(target: Target, meta: ObjectMeta | None, *, gone: bool = False, unknown: bool = False) -> Write:
    return Write(
        kind=target.kind,
        namespace=target.namespace,
        name=target.name,
        uid=meta.uid if meta else "",
        resource_version=meta.resource_version if meta else "",
        labels=meta.labels if meta else None,
        gone=gone,
        unknown=unknown,
    )
