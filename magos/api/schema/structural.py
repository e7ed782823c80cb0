"""Structural schemas (OpenAPI v3, as CRDs take them) from Structs.

The result depends on the Structs and the tables alone and keeps their order. A field without description, a table entry
without field and a type that has no place in a CRD are errors, so nothing goes missing silently.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import inspect

from magos.api.meta import Condition, ObjectMeta
from magos.api.schema.constraints import FIELDS, STRUCTS
from magos.api.schema.docstrings import field_docs
from magos.api.schema.rules import FieldRules, Rule
from magos.api.selectors import LabelSelector

JsonSchema = dict[str, Any]

_NO_RULES = FieldRules()
_SCALARS: Mapping[type, str] = {
    inspect.StrType: "string",
    inspect.IntType: "integer",
    inspect.BoolType: "boolean",
}
_CONDITION_DOCS: Mapping[str, str] = {
    "type": "Name of the condition.",
    "status": "Whether the condition holds: True, False or Unknown.",
    "reason": "Why it does or does not hold, as one CamelCase word.",
    "message": "Why it does or does not hold, as a text for people.",
    "last_transition_time": "Time (UTC) of the last change of status.",
    "observed_generation": "The metadata.generation that this condition describes.",
}


def object_schema(struct: type) -> JsonSchema:
    """Return the schema of ``struct`` as an object with properties, rules and required fields."""
    info = inspect.type_info(struct)
    if not isinstance(info, inspect.StructType):
        raise TypeError(f"{struct!r} is not a Struct")
    docs = _CONDITION_DOCS if struct is Condition else field_docs(struct)
    schema: JsonSchema = {"type": "object", "properties": {}}
    required: list[str] = []
    for entry in info.fields:
        if isinstance(entry.type, inspect.StructType) and entry.type.cls is ObjectMeta:
            schema["properties"][entry.encode_name] = {"type": "object"}
            continue
        if entry.name not in docs:
            raise LookupError(f"{struct.__name__}.{entry.name} has no docstring, hence no description")
        rules = _rules_of(struct, entry.name)
        schema["properties"][entry.encode_name] = _property(entry, docs[entry.name], rules)
        if entry.required if rules.required is None else rules.required:
            required.append(entry.encode_name)
    if required:
        schema["required"] = required
    _add_rules(schema, STRUCTS.get(struct, ()))
    return schema


def structs_of(struct: type) -> frozenset[type]:
    """Return ``struct`` and every Struct that its fields mention, however deep."""
    found: set[type] = set()
    pending: list[inspect.Type] = [inspect.type_info(struct)]
    while pending:
        info = pending.pop()
        match info:
            case inspect.StructType(cls=cls, fields=fields):
                if cls not in found:
                    found.add(cls)
                    pending += [field.type for field in fields]
            case inspect.UnionType(types=types):
                pending += types
            case inspect.VarTupleType(item_type=item):
                pending.append(item)
            case _:
                pass
    return frozenset(found)


def unused_rules(structs: frozenset[type]) -> list[str]:
    """Return the table entries that speak about no field of ``structs``: misspelt, or left behind."""
    known = {
        (base, entry.name) for struct in structs for base in struct.__mro__ for entry in msgspec.structs.fields(struct)
    }
    unused = [f"{struct.__name__}.{name}" for struct, name in FIELDS if (struct, name) not in known]
    return unused + [struct.__name__ for struct in STRUCTS if struct not in structs]


def _rules_of(struct: type, name: str) -> FieldRules:
    return next((FIELDS[base, name] for base in struct.__mro__ if (base, name) in FIELDS), _NO_RULES)


def _property(entry: inspect.Field, description: str, rules: FieldRules) -> JsonSchema:
    schema = {"description": description, **_schema_of(_without_none(entry.type), rules.items)}
    for keyword, value in rules.keywords.items():
        if value is None:
            schema.pop(keyword, None)
        else:
            schema[keyword] = value
    if rules.default and isinstance(entry.default, bool | str) and entry.default != "":
        schema["default"] = str(entry.default) if isinstance(entry.default, StrEnum) else entry.default
    _add_rules(schema, rules.rules)
    return schema


def _without_none(info: inspect.Type) -> inspect.Type:
    if not isinstance(info, inspect.UnionType):
        return info
    present = [member for member in info.types if not isinstance(member, inspect.NoneType)]
    if len(present) != 1:
        raise TypeError(f"a CRD has no place for the union {info!r}")
    return present[0]


def _schema_of(info: inspect.Type, items: FieldRules | None) -> JsonSchema:
    match info:
        case inspect.StrType() | inspect.IntType() | inspect.BoolType():
            return {"type": _SCALARS[type(info)]}
        case inspect.EnumType(cls=cls):
            return {"type": "string", "enum": [str(member.value) for member in cls]}
        case inspect.StructType(cls=cls):
            return _struct(cls)
        case inspect.VarTupleType(item_type=item):
            return {"type": "array", "items": _element(item, items)}
        case inspect.DictType(value_type=value):
            return {"type": "object", "additionalProperties": _element(value, items)}
        case _:
            raise TypeError(f"a CRD has no place for {info!r}")


def _struct(struct: type) -> JsonSchema:
    schema = object_schema(struct)
    if struct is LabelSelector:
        schema["x-kubernetes-map-type"] = "atomic"
    return schema


def _element(info: inspect.Type, rules: FieldRules | None) -> JsonSchema:
    schema = _schema_of(info, None)
    if rules is not None:
        schema.update(rules.keywords)
        _add_rules(schema, rules.rules)
    return schema


def _add_rules(schema: JsonSchema, rules: tuple[Rule, ...]) -> None:
    if rules:
        present = schema.setdefault("x-kubernetes-validations", [])
        present += [msgspec.to_builtins(rule) for rule in rules]
