"""The docstrings that stand under the fields of a Struct: a field's description is written once, beside it."""

import ast
import inspect
import textwrap
from collections.abc import Mapping
from functools import cache
from itertools import pairwise

from msgspec import Struct


@cache
def field_docs(struct: type) -> Mapping[str, str]:
    """Return the description of every documented field of ``struct``, inherited ones included, by Python name."""
    docs: dict[str, str] = {}
    for base in reversed(struct.__mro__):
        if issubclass(base, Struct) and base is not Struct:
            docs.update(_own_docs(base))
    return docs


def _own_docs(struct: type) -> dict[str, str]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(struct)))
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    docs: dict[str, str] = {}
    for statement, following in pairwise(body):
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            docs[statement.target.id] = " ".join(str(following.value.value).split())
    return docs
