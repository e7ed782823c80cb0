"""Named indices over cached objects: from a value to the keys of the objects that file themselves under it.

Promises: an index is always exactly what computing it anew over all objects would give, and a value without objects
leaves nothing behind (a map of empty sets would grow with every name that ever existed). A function that
raises for an object changes nothing and raises ``Unindexable``.

Values begin with ``<namespace>/`` where objects have namespaces, so that an object which cannot be decoded casts doubt
on its own namespace only.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

from magos.errors import InvariantViolation

R = TypeVar("R")

ObjectKey = tuple[str, str]
"""(namespace, name)"""

IndexFunction = Callable[[R], Iterable[str]]
"""Pure; returns the values, none or many, that an object is filed under."""


class Unindexable(Exception):
    """An index function raised: it does not know what to make of this object."""


class Indexer(Generic[R]):
    """All indices of one cache."""

    def __init__(self, functions: Mapping[str, IndexFunction[R]]) -> None:
        self._functions = dict(functions)
        self._keys: dict[str, dict[str, set[ObjectKey]]] = {name: {} for name in functions}

    def update(self, key: ObjectKey, old: R | None, new: R | None) -> None:
        """File ``key`` under what ``new`` says instead of what ``old`` said; None is absence."""
        changes = [(self._keys[name], *self._values(name, old, new)) for name in self._functions]
        for index, before, after in changes:
            for value in before - after:
                keys = index[value]
                keys.discard(key)
                if not keys:
                    del index[value]
            for value in after - before:
                index.setdefault(value, set()).add(key)

    def keys(self, name: str, value: str) -> list[ObjectKey]:
        """Return the keys filed under ``value``, sorted; ``InvariantViolation`` if there is no such index."""
        index = self._keys.get(name)
        if index is None:
            known = ", ".join(sorted(self._keys)) or "none"
            raise InvariantViolation(f"there is no index {name!r}; declared are: {known}")
        return sorted(index.get(value, ()))

    def snapshot(self) -> dict[str, dict[str, frozenset[ObjectKey]]]:
        """Return a copy of all indices."""
        return {name: {value: frozenset(keys) for value, keys in index.items()} for name, index in self._keys.items()}

    def _values(self, name: str, old: R | None, new: R | None) -> tuple[set[str], set[str]]:
        function = self._functions[name]
        try:
            before = set() if old is None else set(function(old))
            return before, set() if new is None else set(function(new))
        except Exception as error:
            raise Unindexable(f"index {name!r}: {type(error).__name__}: {error}") from error
