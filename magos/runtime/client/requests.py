"""What is asked of the API server: where an object is found, in which form, and with which options."""

from typing import Any, TypedDict
from urllib.parse import quote

import msgspec

from magos.api.meta import Kind
from magos.runtime.client.interner import Interner
from magos.runtime.client.transport import Lane
from magos.runtime.decision import Propagation

JSON = "application/json"


class CallOptions(TypedDict, total=False):
    """Per-call options: the connection class, and the deadline of the whole exchange in seconds."""

    lane: Lane
    timeout: float


class WriteOptions(CallOptions, total=False):
    """Options of a write: ``subresource`` such as ``status``."""

    subresource: str


class DeleteOptions(CallOptions, total=False):
    """Options of a deletion. ``uid`` and ``resource_version`` are preconditions; a difference is a conflict."""

    uid: str
    resource_version: str
    propagation: Propagation
    grace_seconds: int | None


class ListQuery(CallOptions, total=False):
    """Parameters of a list. ``resource_version`` empty asks for a consistent read; ``limit`` 0 for everything."""

    selector: str
    field_selector: str
    limit: int
    continue_: str
    resource_version: str
    interner: Interner | None


class WatchQuery(CallOptions, total=False):
    """Parameters of a watch; ``timeout_seconds`` is when the server ends it, ``timeout`` bounds only its opening."""

    namespace: str
    selector: str
    field_selector: str
    resource_version: str
    timeout_seconds: int
    interner: Interner | None


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
