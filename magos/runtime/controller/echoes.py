"""Tells the watch events that repeat a pass's own writes from those that bring something new.

A pass that failed waits for its back-off. What it wrote before it failed comes back as watch events; if these woke the
key, a write that fails for ever behind one that succeeds would be tried as fast as the API server answers.

Promises:

1. While a pass runs, its events are collected. At its end they wake the key, unless the key waits for a back-off and
   all of them repeat writes of this very pass.
2. While a key waits for a back-off, an event that repeats a write of the pass that failed does not wake it.
3. Every other event wakes the key at once, back-off or not.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from magos.api.meta import Kind, ObjectMeta
from magos.runtime.controller.consistency import Write
from magos.runtime.controller.workqueue import Key
from magos.runtime.decision import Priority


class Version(NamedTuple):
    """One state of one object; versions are unique within a resource."""

    resource: str
    version: str

    @classmethod
    def of(cls, kind: Kind[Any], meta: ObjectMeta) -> "Version":
        """Return the version of an object of ``kind``."""
        return cls(kind.resource, meta.resource_version)


class Echoes:
    """Kept for one controller; everything is synchronous and belongs on the loop."""

    def __init__(self) -> None:
        self._running: dict[Key, list[tuple[Version, Priority]]] = {}
        self._written: dict[Key, set[Version]] = {}

    def begin(self, key: Key) -> None:
        """A worker has the key: collect its events."""
        self._running[key] = []
        self._written[key] = set()

    def wrote(self, key: Key, writes: Iterable[Write]) -> None:
        """Note what a pass of the key wrote."""
        found = (Version(each.kind.resource, each.resource_version) for each in writes if each.resource_version)
        self._written.setdefault(key, set()).update(found)

    def end(self, key: Key, *, backing_off: bool) -> Priority | None:
        """The worker gives the key back; return the lane in which the collected events wake it, None if they do not."""
        events, written = self._running.pop(key, []), self._written.get(key, set())
        if not backing_off:
            self._written.pop(key, None)
        found = [priority for version, priority in events if not (backing_off and version in written)]
        return min(found, key=list(Priority).index, default=None)

    def keeps(self, key: Key, version: Version, priority: Priority, *, backing_off: bool) -> bool:
        """Tell whether the event is collected or repeats a write, so that it does not wake the key now."""
        if key in self._running:
            self._running[key].append((version, priority))
            return True
        return backing_off and version in self._written.get(key, set())
