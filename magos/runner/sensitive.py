"""Which values of a plan must not be shown: those of variables from Secrets, and those it marks as sensitive itself.

``show -json`` writes sensitive values in clear and marks them beside: ``after_sensitive`` for ``after``, and alike. The
markers have the shape of the value, with ``true`` wherever everything below is sensitive (field case F76). A variable
whose value comes from a Secret need not be declared sensitive, so the workspace controller gives its name; a value
that is ephemeral is in no plan.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import IO, Final

import msgspec

from magos.runner.planfile import carried_variables

_MARKED_BY: Final = (
    ("before", "before_sensitive"),
    ("after", "after_sensitive"),
    ("values", "sensitive_values"),
    ("value", "sensitive"),
    ("default", "sensitive"),
)


class _Variable(msgspec.Struct):
    value: msgspec.Raw = msgspec.Raw(b"null")


class _Variables(msgspec.Struct):
    variables: dict[str, _Variable] = {}


def secret_values(plan: bytes, names: Collection[str]) -> tuple[str, ...]:
    """Return the values that the plan in JSON form has of the variables ``names``; ``ValueError`` if malformed.

    A list, a map or an object is returned as JSON.
    """
    if not names:
        return ()
    known = msgspec.json.decode(plan, type=_Variables).variables
    return tuple(_as_written(bytes(known[name].value)) for name in sorted(names) if name in known)


def carried_secrets(plan: IO[bytes], names: Collection[str]) -> tuple[str, ...]:
    """Return the values that a plan file has of the variables ``names``; none if it is not readable (encrypted)."""
    carried = (carried_variables(plan) or {}) if names else {}
    return tuple(value for name in sorted(names) if (value := carried.get(name)) is not None)


def _as_written(value: bytes) -> str:
    decoded = msgspec.json.decode(value)
    return decoded if isinstance(decoded, str) else value.decode()


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
