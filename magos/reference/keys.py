"""Annotation and label keys: the constants of ``magos.api`` with the texts that stand under them."""

import ast
import inspect
from collections.abc import Iterator
from itertools import pairwise
from types import ModuleType

from msgspec import Struct

from magos.api import annotations, labels


class KeyRow(Struct, frozen=True):
    """A key and what it is for, with who writes it."""

    key: str
    meaning: str


def annotation_keys() -> tuple[KeyRow, ...]:
    """Return every annotation key, in the order of the module."""
    return tuple(_keys(annotations))


def label_keys() -> tuple[KeyRow, ...]:
    """Return every label key and finalizer, in the order of the module."""
    return tuple(_keys(labels))


def _keys(module: ModuleType) -> Iterator[KeyRow]:
    """Yield the public text constants that are keys and have a docstring."""
    for statement, following in pairwise(ast.parse(inspect.getsource(module)).body):
        if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
            continue
        value = getattr(module, statement.targets[0].id)
        documented = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
        if isinstance(value, str) and "/" in value and documented:
            text = following.value.value  # type: ignore[attr-defined]
            yield KeyRow(value, " ".join(str(text).split()).replace("``", "`"))
