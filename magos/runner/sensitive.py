"""Which values of a plan must not be shown: those it marks as sensitive itself (field case F76).

``show -json`` writes sensitive values in clear and marks them beside: ``after_sensitive`` for ``after``, and alike. The
markers have the shape of the value, with ``true`` wherever everything below is sensitive.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

__all__ = ["sensitive_values"]

_MARKED_BY: Final = (
    ("before", "before_sensitive"),
    ("after", "after_sensitive"),
    ("values", "sensitive_values"),
    ("value", "sensitive"),
    ("default", "sensitive"),
)


def sensitive_values(plan: bytes) -> frozenset[str]:
    """Return the texts and numbers of the plan in JSON form that are marked as sensitive; ``ValueError`` if malformed.

    Truth values are no secrets: there are only two.
    """
    document = msgspec.json.decode(plan)
    found: set[str] = set(_input_variables(document))
    pending: list[object] = [document]
    while pending:  # no recursion: a configuration decides how deeply its values are nested
        node = pending.pop()
        if isinstance(node, Mapping):
            for value, marker in _MARKED_BY:
                if value in node and marker in node:
                    found.update(_marked(node[value], node[marker]))
            pending += node.values()
        elif isinstance(node, list):
            pending += node
    return frozenset(found)


def _input_variables(document: object) -> Iterator[str]:
    """Yield the values of the root module's sensitive variables, which are marked where they are declared."""
    declared = _member(_member(_member(document, "configuration"), "root_module"), "variables")
    given = _member(document, "variables")
    if isinstance(declared, Mapping):
        for name, declaration in declared.items():
            if _member(declaration, "sensitive") is True:
                yield from _marked(_member(_member(given, name), "value"), True)


def _member(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, Mapping) else None


def _marked(value: object, marker: object) -> Iterator[str]:
    """Yield the leaves of ``value`` that ``marker`` covers."""
    pending = [(value, marker)]
    while pending:
        value, marker = pending.pop()
        if isinstance(value, Mapping) and (marker is True or isinstance(marker, Mapping)):
            pending += [(item, marker if marker is True else _member(marker, key)) for key, item in value.items()]
        elif isinstance(value, list) and (marker is True or isinstance(marker, list)):
            markers = [True] * len(value) if marker is True else list(marker)
            pending += zip(value, markers, strict=False)
        elif marker is True and isinstance(value, str):
            yield value
        elif marker is True and isinstance(value, int | float) and not isinstance(value, bool):
            yield msgspec.json.encode(value).decode()
