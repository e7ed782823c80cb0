"""The OpenAPI 3.1 document, made from the table of operations and the Structs that are sent and taken."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from magos.server.kinds import SHOWN
from magos.server.table import Answer, Operation

_JSON = "application/json"
_REFUSALS = {
    400: "A parameter or the body is wrong; the text names it.",
    401: "No credential, or one that is invalid or expired.",
    403: "The caller may not do this.",
    404: "It does not exist, or no longer.",
    409: "It is not in the state that this needs.",
    411: "The request has no `Content-Length`.",
    413: "The body is too large.",
    422: "The warnings are not acknowledged.",
    429: "Too many logins failed: `Retry-After` says how many seconds to wait.",
    502: "The identity provider does not answer: try again.",
    503: "The Kubernetes API, the database or the bucket does not answer: try again.",
}
_KINDS = {shown.kind.type.__name__: shown.kind for shown in SHOWN}
_SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "session": {"type": "apiKey", "in": "cookie", "name": "magos_session"},
}


class Refusal(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Why a request was not carried out."""

    error: str
    """What is wrong and what to do, for people."""

    run_id: str = msgspec.field(default="", name="runID")
    """The run that waits, where another one was to be approved."""


def document(operations: Iterable[Operation], version: str) -> dict[str, Any]:
    """Return the document that describes ``operations``."""
    described = list(operations)
    types: dict[Any, None] = dict.fromkeys([Refusal])
    for each in described:
        if each.answer.media == _JSON:
            types[each.answer.type] = None
        if each.body is not None:
            types[each.body] = None
    schemas, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    by_type = dict(zip(types, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for each in described:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each, by_type)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Magos", "version": version, "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"}},
        "paths": paths,
        "components": {
            "schemas": {k: _named(k, v) for k, v in sorted(components.items())},
            "securitySchemes": _SCHEMES,
        },
    }


def _operation(operation: Operation, schemas: Mapping[Any, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"summary": operation.summary}
    if operation.description:
        found["description"] = operation.description
    if operation.parameters:
        found["parameters"] = [
            {
                "name": each.name,
                "in": each.where,
                "description": each.description,
                "schema": dict(each.schema),
                **({"required": True} if each.where == "path" else {}),
            }
            for each in operation.parameters
        ]
    if operation.body is not None:
        found["requestBody"] = {"required": True, "content": {_JSON: {"schema": schemas[operation.body]}}}
    found["responses"] = {"200": _answer(operation.answer, schemas)}
    usual = (503,) if operation.open else (401, 503)
    for code in sorted({*operation.refusals, *usual}):
        content = {_JSON: {"schema": schemas[Refusal]}}
        found["responses"][str(code)] = {"description": _REFUSALS[code], "content": content}
    found["security"] = [] if operation.open else [{name: []} for name in _SCHEMES]
    return found


def _answer(answer: Answer, schemas: Mapping[Any, Any]) -> dict[str, Any]:
    schema = schemas[answer.type] if answer.media == _JSON else {"type": "string"}
    return {"description": answer.description, "content": {answer.media: {"schema": schema}}}


def _named(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Add to the four kinds what every manifest has and no Struct: ``apiVersion`` and ``kind``."""
    kind = _KINDS.get(name)
    if kind is None:
        return schema
    head = {"apiVersion": {"const": kind.api_version}, "kind": {"const": kind.name}}
    return {
        **schema,
        "properties": {**head, **schema["properties"]},
        "required": [*head, *schema.get("required", ())],
    }
