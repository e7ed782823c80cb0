"""The smallest JSON merge patch (RFC 7386) that turns one status into another.

Promise: applying ``merge_patch(observed, desired)`` to the observed status gives the desired one; it is None exactly if
they say the same; and it never mentions what neither of them declares, so fields of other writers survive.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

_ABSENT: Final = object()


def merge_patch(observed: Any, desired: Any) -> dict[str, Any] | None:
    """Return the patch from ``observed`` to ``desired`` (Structs, mappings or None), or None if nothing differs.

    A field that is null counts as absent, as it does for the API server; lists are replaced as a whole. An object that
    has no status at all is observed as None or as a Struct of nothing but defaults.
    """
    if observed == desired:
        return None
    patch = _between(_plain(observed), _plain(desired))
    return patch or None


def _between(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    patch: dict[str, Any] = {key: None for key in old if key not in new}
    for key, wanted in new.items():
        found = old.get(key, _ABSENT)
        if found == wanted:
            continue
        if isinstance(found, Mapping) and isinstance(wanted, Mapping):
            patch[key] = _between(found, wanted)
        else:
            patch[key] = wanted
    return patch


def _plain(status: Any) -> dict[str, Any]:
    if status is None:
        return {}
    # None is dropped in objects only: inside a list it is a value of its own, and lists are compared and sent whole.
    built = _without_null(msgspec.json.decode(msgspec.json.encode(status)))
    if not isinstance(built, dict):
        raise TypeError(f"a status is an object, not {type(status).__name__}")
    return built


def _without_null(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_null(item) for key, item in value.items() if item is not None}
    return value
