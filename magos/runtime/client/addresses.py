"""Where an object is found at the API server, and in which form it is asked for."""

from typing import Any
from urllib.parse import quote

import msgspec

from magos.api.meta import Kind

__all__ = ["JSON", "Named", "accept_header", "named", "object_path"]

JSON = "application/json"


def object_path(kind: Kind[Any], namespace: str, name: str = "", subresource: str = "") -> str:
    parts = ["apis", kind.group, kind.version] if kind.group else ["api", kind.version]
    if namespace and kind.namespaced:
        parts += ["namespaces", namespace]
    parts.append(kind.plural)
    parts += [part for part in (name, subresource) if part]
    return "/" + "/".join(quote(part, safe="") for part in parts)


def accept_header(kind: Kind[Any], form: str) -> str:
    if not kind.metadata_only:
        return JSON
    partial = "PartialObjectMetadataList" if form == "list" else "PartialObjectMetadata"
    return f"{JSON};as={partial};g=meta.k8s.io;v=v1"


class Named(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    generate_name: str = ""


class _Manifest(msgspec.Struct, frozen=True):
    metadata: Named


def named(manifest: Any) -> Named:
    return msgspec.convert(manifest, _Manifest, from_attributes=True).metadata
