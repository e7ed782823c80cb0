"""Share equal texts and sub-structures between cached objects.

Interning right after an object was decoded, before the next one, is what saves memory: half of a cached object is text
that thousands of others carry too (namespaces, label values, finalizers, owner kinds, phases). The tables are bounded:
a full table is dropped and starts anew, which costs sharing and never correctness.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

__all__ = ["Interner"]

T = TypeVar("T")

_LONGEST = 64
_UNIQUE = frozenset({"name", "uid", "resource_version", "creation_timestamp", "deletion_timestamp"})


class Interner:
    """Replaces equal parts of freshly decoded Structs by one shared instance; not for Structs others already see."""

    def __init__(self, capacity: int = 20_000) -> None:
        self._capacity = capacity
        self._texts: dict[str, str] = {}
        self._mappings: dict[tuple[tuple[str, str], ...], Mapping[str, str]] = {}
        self._fields: dict[type, tuple[str, ...]] = {}

    def intern(self, value: T) -> T:
        """Return ``value`` with its parts shared; a Struct is changed in place, which its equality does not show."""
        if isinstance(value, Struct):
            self._struct(value)
        return value

    def _struct(self, value: Struct) -> None:
        for name in self._plan(type(value)):
            old = getattr(value, name)
            new = self._part(old)
            if new is not old:
                msgspec.structs.force_setattr(value, name, new)

    def _plan(self, kind: type) -> tuple[str, ...]:
        plan = self._fields.get(kind)
        if plan is None:
            plan = tuple(f.name for f in msgspec.structs.fields(kind) if f.name not in _UNIQUE)
            self._fields[kind] = plan
        return plan

    def _part(self, value: Any) -> Any:
        kind = type(value)  # exactly: an enum member equals its text and must never be replaced by it
        if kind is str:
            return self._text(value) if len(value) <= _LONGEST else value
        if kind is tuple:
            return tuple(self._part(part) for part in value) if value else ()
        if isinstance(value, Struct):
            self._struct(value)
        elif kind is dict and value:
            return self._mapping(value)
        return value

    def _text(self, value: str) -> str:
        if len(self._texts) >= self._capacity:
            self._texts.clear()
        return self._texts.setdefault(value, value)

    def _mapping(self, value: dict[Any, Any]) -> Any:
        if not all(type(item) is str and len(item) <= _LONGEST for item in value.values()):
            return value
        if len(self._mappings) >= self._capacity:
            self._mappings.clear()
        return self._mappings.setdefault(tuple(value.items()), value)
