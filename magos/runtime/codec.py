"""Bytes of the Kubernetes API to Structs and back, each byte scanned once.

Promises:

1. One object that cannot be decoded never hides the others: it comes out as ``Undecodable`` with whatever metadata is
   readable, so that a watch goes on and a cache can keep what it had.
2. A line that is no event at all is a ``StreamCorrupt``: a fault of the connection, not of an object.
3. A bookmark's object is read for its resourceVersion and nothing else: the server leaves the rest empty or null.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Raw, Struct, field

from magos.api.meta import Kind, ListMeta, ObjectMeta, Resource
from magos.runtime.apistatus import Cause, Status, StatusDetails
from magos.runtime.interner import Interner
from magos.runtime.lines import StreamCorrupt
from magos.runtime.watchevents import ListPage, Undecodable, WatchEvent, WatchType

__all__ = [
    "Cause",
    "ListPage",
    "Status",
    "StatusDetails",
    "StreamCorrupt",
    "Undecodable",
    "WatchEvent",
    "WatchType",
    "decode_event",
    "decode_list",
    "decode_object",
    "decode_status",
    "encode_manifest",
]

R = TypeVar("R", bound=Resource)


class _ListEnvelope(Struct, frozen=True):
    metadata: ListMeta = field(default_factory=ListMeta)
    items: tuple[Raw, ...] | None = None


class _EventEnvelope(Struct, frozen=True):
    type: str
    object: Raw


class _TypedEvent(Struct, Generic[R], frozen=True):
    type: str
    object: R


class _BookmarkMeta(Struct, frozen=True, rename="camel"):
    resource_version: str = ""


class _Bookmark(Struct, frozen=True):
    metadata: _BookmarkMeta


class _Meta(Struct, frozen=True):
    metadata: ObjectMeta


class _Names(Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _NamesOnly(Struct, frozen=True):
    metadata: _Names


_list_decoder = msgspec.json.Decoder(_ListEnvelope)
_event_decoder = msgspec.json.Decoder(_EventEnvelope)
_status_decoder = msgspec.json.Decoder(Status)
_bookmark_decoder = msgspec.json.Decoder(_Bookmark)
_meta_decoder = msgspec.json.Decoder(_Meta)
_names_decoder = msgspec.json.Decoder(_NamesOnly)
_encoder = msgspec.json.Encoder()

_OBJECT_TYPES = {WatchType.ADDED.value, WatchType.MODIFIED.value, WatchType.DELETED.value}
_SPECIAL = (b'{"type":"BOOKMARK"', b'{"type":"ERROR"')


@cache
def _object_decoder(kind_type: type[Any]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind_type)


@cache
def _typed_event_decoder(kind_type: type[Any]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_TypedEvent[kind_type])  # type: ignore[valid-type]


def decode_object(kind: Kind[R], body: bytes | Raw, interner: Interner | None = None) -> R:
    """Return the object in ``body``; raise ``msgspec.MsgspecError`` naming the path where it does not fit the type."""
    decoded: R = _object_decoder(kind.type).decode(body)
    return interner.intern(decoded) if interner else decoded


def decode_list(kind: Kind[R], body: bytes, interner: Interner | None = None) -> ListPage[R]:
    """Return the page in ``body``, each item decoded on its own; raise ``msgspec.MsgspecError`` if it is no list."""
    envelope = _list_decoder.decode(body)
    items: list[R] = []
    bad: list[Undecodable] = []
    for raw in envelope.items or ():
        try:
            items.append(decode_object(kind, raw, interner))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            bad.append(_undecodable(raw, error))
    return ListPage(
        items=tuple(items),
        resource_version=envelope.metadata.resource_version,
        continue_=envelope.metadata.continue_,
        undecodable=tuple(bad),
    )


def decode_event(kind: Kind[R], line: bytes, interner: Interner | None = None) -> WatchEvent[R]:
    """Return the event in one line of a watch stream; raise ``StreamCorrupt`` if the line is no event at all."""
    if not line.startswith(_SPECIAL):
        try:
            typed = _typed_event_decoder(kind.type).decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            pass  # the slow path below finds out what is wrong
        else:
            if typed.type in _OBJECT_TYPES:
                decoded: R = interner.intern(typed.object) if interner else typed.object
                version = decoded.metadata.resource_version
                return WatchEvent(type=WatchType(typed.type), object=decoded, resource_version=version)
    return _decode_special(line, kind)


def _decode_special(line: bytes, kind: Kind[R]) -> WatchEvent[R]:
    try:
        envelope = _event_decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise StreamCorrupt(f"a line of the watch of {kind.resource} is not a watch event: {error}") from error
    if envelope.type == WatchType.ERROR:
        return WatchEvent(type=WatchType.ERROR, status=decode_status(bytes(envelope.object)))
    if envelope.type == WatchType.BOOKMARK:
        try:
            version = _bookmark_decoder.decode(envelope.object).metadata.resource_version
        except (msgspec.MsgspecError, UnicodeDecodeError):
            version = ""
        return WatchEvent(type=WatchType.BOOKMARK, resource_version=version)
    try:
        decode_object(kind, envelope.object)
        bad = _undecodable(envelope.object, ValueError(f"unknown event type {envelope.type!r}"))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        bad = _undecodable(envelope.object, error)
    known = envelope.type in _OBJECT_TYPES
    return WatchEvent(
        type=WatchType(envelope.type) if known else WatchType.UNKNOWN,
        undecodable=bad,
        resource_version=bad.metadata.resource_version,
    )


def _undecodable(raw: Raw, error: Exception) -> Undecodable:
    try:
        return Undecodable(metadata=_meta_decoder.decode(raw).metadata, problem=str(error))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        pass
    try:
        names = _names_decoder.decode(raw).metadata
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return Undecodable(metadata=ObjectMeta(), problem=str(error))
    metadata = ObjectMeta(
        name=names.name, namespace=names.namespace, uid=names.uid, resource_version=names.resource_version
    )
    return Undecodable(metadata=metadata, problem=str(error))


def decode_status(body: bytes) -> Status:
    """Return the Status in ``body``; any other body (a proxy's page) becomes the message, cut to 512 characters."""
    try:
        return _status_decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return Status(message=body[:2048].decode("utf-8", "replace").strip()[:512])


def encode_manifest(kind: Kind[Any], manifest: Any) -> bytes:
    """Return ``manifest`` (a Struct or a mapping) as JSON with ``apiVersion`` and ``kind`` filled in."""
    built = msgspec.to_builtins(manifest)
    if not isinstance(built, Mapping):
        raise TypeError(f"a manifest of {kind.name} is an object, not {type(manifest).__name__}")
    return _encoder.encode({**built, "apiVersion": kind.api_version, "kind": kind.name})
