"""Results of pure functions of immutable objects, kept for the next pass that looks at the very same objects.

Objects in a cache are replaced, never changed, so identity stands for value. An entry holds its objects: while it is
there, no other object can have their identity. Forgetting everything at the bound costs one computation each.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Memo"]

V = TypeVar("V")


class Memo(Generic[V]):
    """At most ``most`` results; a call with other objects, or after the bound was reached, computes anew."""

    def __init__(self, most: int = 8192) -> None:
        self._most = most
        self._known: dict[tuple[int, ...], tuple[tuple[object, ...], V]] = {}

    def of(self, objects: tuple[object, ...], compute: Callable[[], V]) -> V:
        """Return what ``compute`` returns for these immutable objects."""
        key = tuple(map(id, objects))
        known = self._known.get(key)
        if known is not None:
            return known[1]
        if len(self._known) >= self._most:
            self._known.clear()
        value = compute()
        self._known[key] = (objects, value)
        return value
