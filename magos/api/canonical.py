"""The canonical JSON of a Struct: equal values give equal bytes, with and without written defaults.

``msgspec`` omits defaults by identity, so a default that was sent by the API server survives a round trip. Here a field
that *equals* its default is left out, and keys are sorted. Digests over objects (the spec hash) are taken of this form.
"""

from collections.abc import Mapping
from functools import cache

import msgspec
from msgspec import NODEFAULT, Struct
from msgspec.structs import FieldInfo


def canonical_json(value: object) -> bytes:
    """Return ``value`` (Structs, containers, scalars) as JSON with sorted keys and without fields at their default."""
    return msgspec.json.encode(_plain(value), order="sorted")


def _plain(value: object) -> object:
    if isinstance(value, Struct):
        return _fields(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


@cache
def _fields_of(struct: type[Struct]) -> tuple[FieldInfo, ...]:
    """Reading the annotations of a type costs far more than everything else here; it is done once a type."""
    return msgspec.structs.fields(struct)


def _fields(value: Struct) -> dict[str, object]:
    plain: dict[str, object] = {}
    for info in _fields_of(type(value)):
        present: object = getattr(value, info.name)
        default: object = info.default
        if default is NODEFAULT and info.default_factory is not NODEFAULT:
            default = info.default_factory()
        if default is NODEFAULT or present != default:
            plain[info.encode_name] = _plain(present)
    return plain
