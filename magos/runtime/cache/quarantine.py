"""The objects of one cache that cannot be decoded: known to exist, and nothing else.

Promises: what may be hidden behind them is answered on the safe side. A question about a name is about that object; one
about a namespace, about all of it; one about an index, about every object that may be filed there: exactly where the
index needs only metadata and all of it is readable, else for the object's whole namespace. Each version of each object
is handed out once as news.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from magos.api.meta import Kind
from magos.runtime.cache.indexer import IndexFunction, ObjectKey
from magos.runtime.client.watchevents import Undecodable


class Quarantine:
    """See the module. Not thread-safe: it belongs to its cache."""

    def __init__(self, kind: Kind[Any], functions: Mapping[str, IndexFunction[Any]]) -> None:
        self.objects: dict[ObjectKey, Undecodable] = {}
        self.released = 0
        """How many have left so far: a reader that waits for one of them looks again when it has risen."""
        self._kind = kind
        self._functions = functions
        self._filed: dict[ObjectKey, dict[str, frozenset[str] | None]] = {}
        self._news: list[Undecodable] = []

    def put(self, bad: Undecodable) -> None:
        """Take an object in, or another version of one."""
        key = (bad.metadata.namespace, bad.metadata.name)
        before = self.objects.get(key)
        if before is None or _version(before) != _version(bad):
            self._news.append(bad)
        self.objects[key] = bad
        self._filed[key] = {name: _values(function, bad) for name, function in self._functions.items()}

    def release(self, key: ObjectKey) -> None:
        """The object can be decoded, or is gone."""
        if self.objects.pop(key, None) is not None:
            del self._filed[key]
            self.released += 1

    def replace(self, all_of_them: Iterable[Undecodable]) -> None:
        """Hold exactly these from now on."""
        bad = list(all_of_them)
        for key in self.objects.keys() - {(each.metadata.namespace, each.metadata.name) for each in bad}:
            self.release(key)
        for each in bad:
            self.put(each)

    def drain(self) -> tuple[Undecodable, ...]:
        """Return what came in since the last call."""
        news, self._news = tuple(self._news), []
        return news

    def named(self, namespace: str, name: str) -> Undecodable | None:
        """Return the object of that name if it is here."""
        return self.objects.get((namespace, name))

    def within(self, namespace: str | None) -> Undecodable | None:
        """Return one that is, or may be, in the namespace (None: anywhere)."""
        return next(
            (bad for bad in self.objects.values() if namespace is None or self._may_be_in(bad, namespace)), None
        )

    def filed(self, index: str, value: str, shown: Iterable[ObjectKey]) -> Undecodable | None:
        """Return one that is, or may be, filed under the value; ``shown`` is what the index has there."""
        found = next((self.objects[key] for key in shown if key in self.objects), None)
        return found or next((bad for key, bad in self.objects.items() if self._may_be_filed(key, index, value)), None)

    def _may_be_in(self, bad: Undecodable, namespace: str) -> bool:
        return bad.metadata.namespace == namespace or (self._kind.namespaced and not bad.metadata.namespace)

    def _may_be_filed(self, key: ObjectKey, index: str, value: str) -> bool:
        values = self._filed[key].get(index)
        if values is not None:
            return value in values
        namespace, slash, _ = value.partition("/")
        return not slash or self._may_be_in(self.objects[key], namespace)


def _version(bad: Undecodable) -> tuple[str, str]:
    return bad.metadata.uid, bad.metadata.resource_version


def _values(function: IndexFunction[Any], bad: Undecodable) -> frozenset[str] | None:
    """Return what the object is filed under as far as its metadata tells; None if that cannot be known."""
    if not bad.whole:
        return None
    try:
        return frozenset(function(bad))
    except Exception:  # noqa: BLE001 - the index needs more than metadata, or it is what the index stumbles over
        return None
