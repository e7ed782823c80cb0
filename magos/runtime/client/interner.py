"""Share equal parts between cached objects.

Half of a cached object is what thousands of others carry too: namespaces, labels, finalizers, conditions, sources.
Sharing right after an object was decoded, before the next one, is what saves the memory. What can be shared is worked
out once per type from its annotations; a part that is immutable all through is shared as a whole, others by field.

The tables belong to one field of one type each, so that an enum member is never replaced by a text that equals it. They
are bounded: a full one is dropped and starts anew, which costs sharing and never correctness.
"""

from enum import Enum
from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, inspect

from magos.api.meta import ObjectMeta

T = TypeVar("T")

_LONGEST = 64
_UNIQUE = frozenset({"name", "uid", "resource_version", "creation_timestamp", "deletion_timestamp"})
_ATOMS = (inspect.IntType, inspect.BoolType, inspect.FloatType, inspect.NoneType, inspect.EnumType)


class _Mode(Enum):
    TEXT = 1
    WHOLE = 2
    MAPPING = 3
    INSIDE = 4


class _Field:
    """One field of a type: how its values are shared, and those seen so far."""

    __slots__ = ("mode", "name", "seen")

    def __init__(self, name: str, mode: _Mode) -> None:
        self.name = name
        self.mode = mode
        self.seen: dict[Any, Any] = {}


class Interner:
    """Replaces equal parts of freshly decoded Structs by one shared instance; not for Structs others already see."""

    def __init__(self, capacity: int = 1024) -> None:
        self._capacity = capacity
        self._plans: dict[type[Struct], tuple[_Field, ...]] = {}

    def intern(self, value: T) -> T:
        """Return ``value`` with its parts shared; a Struct is changed in place, which its equality does not show."""
        if isinstance(value, Struct):
            self._struct(value)
        return value

    def _struct(self, value: Struct) -> None:
        kind = type(value)
        plan = self._plans.get(kind)
        if plan is None:
            plan = self._plans[kind] = _plan(kind)
        for field in plan:
            old = getattr(value, field.name)
            if not old:
                continue
            if field.mode is _Mode.INSIDE:
                self._struct(old)
                continue
            key = old
            if field.mode is _Mode.MAPPING:
                key = tuple(old.items())
                if sum(map(len, old.values())) > _LONGEST * len(old):
                    continue  # texts of people, not labels: hardly ever equal, and the table would keep them alive
            elif field.mode is _Mode.TEXT and len(old) > _LONGEST:
                continue
            new = field.seen.setdefault(key, old)
            if new is not old:
                msgspec.structs.force_setattr(value, field.name, new)
            elif len(field.seen) > self._capacity:
                field.seen = {key: old}


def _plan(kind: type[Struct]) -> tuple[_Field, ...]:
    return tuple(_Field(name, mode) for name, mode in _shared_fields(kind))


@cache
def _shared_fields(kind: type[Struct]) -> tuple[tuple[str, _Mode], ...]:
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)  # noqa: S101
    fields: list[tuple[str, _Mode]] = []
    for field in info.fields:
        mode = None if kind is ObjectMeta and field.name in _UNIQUE else _mode(_present(field.type))
        if mode is not None:
            fields.append((field.name, mode))
    return tuple(fields)


def _present(info: inspect.Type) -> inspect.Type:
    """Return X for ``X | None``."""
    if isinstance(info, inspect.UnionType):
        types = [each for each in info.types if not isinstance(each, inspect.NoneType)]
        if len(types) == 1:
            return types[0]
    return info


def _mode(info: inspect.Type) -> _Mode | None:
    if isinstance(info, inspect.StrType):
        return _Mode.TEXT
    if isinstance(info, inspect.DictType):
        texts = isinstance(info.key_type, inspect.StrType) and isinstance(info.value_type, inspect.StrType)
        return _Mode.MAPPING if texts else None
    if isinstance(info, inspect.VarTupleType | inspect.StructType) and _is_immutable(info):
        return _Mode.WHOLE
    return _Mode.INSIDE if isinstance(info, inspect.StructType) else None


def _is_immutable(info: inspect.Type) -> bool:
    """Tell whether values of this type are immutable all through, and so hashable."""
    info = _present(info)
    if isinstance(info, inspect.VarTupleType):
        return _is_immutable(info.item_type)
    if isinstance(info, inspect.StructType):
        frozen = bool(info.cls.__struct_config__.frozen)
        return frozen and all(_is_immutable(field.type) for field in info.fields)
    return isinstance(info, (inspect.StrType, inspect.DateTimeType, *_ATOMS))
