"""Which changes wake which keys, and how urgently.

An event source maps every change of one informer to keys, synchronously and from the change alone. It may use the old
and the new state of an object, because both may name keys (an owner that was replaced, a label that was taken off).
"""

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from msgspec import Struct

from magos.api.meta import Kind, Resource, controller_of
from magos.runtime.cache.cache import Change
from magos.runtime.cache.informer import Informer
from magos.runtime.controller.workqueue import Key
from magos.runtime.decision import Priority

R = TypeVar("R", bound=Resource)


def usual_priority(change: Change[Any]) -> Priority | None:
    """Return the priority of a change: what a (re)list merely repeats goes behind what really happened."""
    return Priority.REPLAY if change.initial else Priority.CHANGE


class EventSource(Struct, Generic[R], frozen=True):
    """Changes of ``informer`` wake the keys that ``mapper`` names; ``priority`` None says: not of interest."""

    informer: Informer[R]
    mapper: Callable[[Change[R]], Iterable[Key]]
    priority: Callable[[Change[R]], Priority | None] = usual_priority

    def wakes(self, change: Change[R]) -> tuple[Iterable[Key], Priority] | None:
        """Return the keys a change wakes and their priority, None if it wakes none."""
        priority = self.priority(change)
        return None if priority is None else (self.mapper(change), priority)


class WakeUp:
    """Wakes keys for what no object shows, such as news from outside the cluster. Called on the loop only."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[Key, Priority], None]] = []

    def connect(self, listener: Callable[[Key, Priority], None]) -> None:
        """Call the listener for every key from now on."""
        self._listeners.append(listener)

    def wake(self, key: Key, priority: Priority = Priority.CHANGE) -> None:
        """Wake the key."""
        for listener in self._listeners:
            listener(key, priority)


def own_key(change: Change[Any]) -> tuple[Key, ...]:
    """Map an object to itself."""
    meta = _latest(change).metadata
    return (Key(meta.namespace, meta.name),)


def owner_key(kind: Kind[Any]) -> Callable[[Change[Any]], tuple[Key, ...]]:
    """Return a mapper from an object to its controller, if that is of ``kind`` (the API version does not matter)."""

    def mapper(change: Change[Any]) -> tuple[Key, ...]:
        keys: dict[Key, None] = {}
        for each in (change.old, change.new):
            owner = None if each is None else controller_of(each.metadata)
            if each is not None and owner is not None and _is_of(owner.api_version, owner.kind, kind):
                keys[Key(each.metadata.namespace if kind.namespaced else "", owner.name)] = None
        return tuple(keys)

    return mapper


def _is_of(api_version: str, name: str, kind: Kind[Any]) -> bool:
    group = api_version.rpartition("/")[0]
    return group == kind.group and name == kind.name


def _latest(change: Change[Any]) -> Any:
    return change.new if change.new is not None else change.old
