"""Bytes of the Kubernetes API to Structs and back, each byte scanned once unless an object is odd.

Promises:

1. Whatever the bytes of one object do to the decoder (depth, size, numbers, surrogates, broken UTF-8), only that object
   suffers: it comes out as ``Undecodable`` with whatever metadata is readable, and a page or a watch goes on.
2. ``metadata.managedFields``, which anybody may nest as deep as the API server lets him, never makes an object
   undecodable: where the decoder gives up for depth, they are cut out and the rest is decoded.
3. A line that is no event at all, or that does not tell which object it is about, is a ``StreamCorrupt``: a fault of
   the connection, not of an object.
4. A bookmark's object is read for its resourceVersion and nothing else: the server leaves the rest empty or null.

The decoder skips what it does not know by recursion, one level a bracket, and so gives up at the interpreter's limit
(1,000 levels on Python 3.11, 10,000 on 3.12 and 3.13; the API server takes 10,000). Lists and events are then taken
apart by ``jsonspans``, which does not recurse.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Raw, Struct, field

from magos.api.meta import Kind, ListMeta, ObjectMeta, Resource
from magos.runtime.client.errors import Status
from magos.runtime.client.interner import Interner
from magos.runtime.client.jsonspans import elements, members
from magos.runtime.client.lines import StreamCorrupt
from magos.runtime.client.watchevents import ListPage, Undecodable, WatchEvent, WatchType

R = TypeVar("R", bound=Resource)


class DecodeError(ValueError):
    """The bytes do not fit the type, or are no JSON; the text says where, in at most 300 characters."""

    def __init__(self, cause: Exception) -> None:
        text = str(cause) or type(cause).__name__
        super().__init__(text.encode("utf-8", "replace").decode()[:300])


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


_list_decoder = msgspec.json.Decoder(_ListEnvelope)
_list_meta_decoder = msgspec.json.Decoder(ListMeta)
_event_decoder = msgspec.json.Decoder(_EventEnvelope)
_text_decoder = msgspec.json.Decoder(str)
_status_decoder = msgspec.json.Decoder(Status)
_bookmark_decoder = msgspec.json.Decoder(_Bookmark)
_meta_decoders = {
    f'"{each.encode_name}"'.encode(): (each.name, msgspec.json.Decoder(each.type))
    for each in msgspec.structs.fields(ObjectMeta)
}
_encoder = msgspec.json.Encoder()

_OBJECT_TYPES = {WatchType.ADDED.value, WatchType.MODIFIED.value, WatchType.DELETED.value}
_SPECIAL = (b'{"type":"BOOKMARK"', b'{"type":"ERROR"')
_METADATA = b'"metadata"'
_MANAGED_FIELDS = b'"managedFields"'


@cache
def _object_decoder(kind_type: type[Any]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind_type)


@cache
def _typed_event_decoder(kind_type: type[Any]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_TypedEvent[kind_type])  # type: ignore[valid-type]


def decode_object(kind: Kind[R], body: bytes | Raw, interner: Interner | None = None) -> R:
    """Return the object in ``body``; raise ``DecodeError`` naming the path where it does not fit the type."""
    decoder = _object_decoder(kind.type)
    try:
        try:
            decoded: R = decoder.decode(body)
        except RecursionError:
            decoded = decoder.decode(_without_managed_fields(bytes(body)))
        return interner.intern(decoded) if interner else decoded
    except Exception as error:  # promise 1: there is no list of what bytes can do to a decoder
        raise DecodeError(error) from error


def decode_list(kind: Kind[R], body: bytes, interner: Interner | None = None) -> ListPage[R]:
    """Return the page in ``body``, each item decoded on its own; raise ``DecodeError`` if it is no list."""
    metadata, raws = _taken_apart(body)
    items: list[R] = []
    bad: list[Undecodable] = []
    for raw in raws:
        try:
            items.append(decode_object(kind, raw, interner))
        except DecodeError as error:
            bad.append(_undecodable(bytes(raw), error))
    return ListPage(
        items=tuple(items),
        resource_version=metadata.resource_version,
        continue_=metadata.continue_,
        undecodable=tuple(bad),
    )


def _taken_apart(body: bytes) -> tuple[ListMeta, tuple[bytes | Raw, ...]]:
    try:
        envelope = _list_decoder.decode(body)
    except Exception as error:  # noqa: BLE001 - the fault of one item, unless it turns out to be no list
        try:
            parts = {key: (start, end) for key, start, end in members(body)}
            start, end = parts.get(_METADATA, (0, 0))
            metadata = _list_meta_decoder.decode(body[start:end] or b"{}")
            start, end = parts.get(b'"items"', (0, 0))
            empty = body[start:end] in (b"", b"null")
            return metadata, () if empty else tuple(body[first:last] for first, last in elements(body, start))
        except Exception:  # noqa: BLE001 - what was wrong at first says more
            raise DecodeError(error) from error
    return envelope.metadata, envelope.items or ()


def decode_event(kind: Kind[R], line: bytes, interner: Interner | None = None) -> WatchEvent[R]:
    """Return the event in one line of a watch stream; raise ``StreamCorrupt`` if the line is no event at all."""
    if not line.startswith(_SPECIAL):
        try:
            typed = _typed_event_decoder(kind.type).decode(line)
        except Exception:  # noqa: BLE001, S110 - the slow path below finds out what is wrong
            pass
        else:
            if typed.type in _OBJECT_TYPES:
                decoded: R = interner.intern(typed.object) if interner else typed.object
                version = decoded.metadata.resource_version
                return WatchEvent(type=WatchType(typed.type), object=decoded, resource_version=version)
    return _decode_slowly(kind, line, interner)


def _decode_slowly(kind: Kind[R], line: bytes, interner: Interner | None) -> WatchEvent[R]:
    try:
        kind_of_event, body = _envelope(line)
    except Exception as error:
        raise StreamCorrupt(f"a line of the watch of {kind.resource} is not a watch event: {error}") from error
    if kind_of_event == WatchType.ERROR:
        return WatchEvent(type=WatchType.ERROR, status=decode_status(body))
    if kind_of_event == WatchType.BOOKMARK:
        try:
            version = _bookmark_decoder.decode(body).metadata.resource_version
        except Exception:  # noqa: BLE001 - a bookmark without a version moves nothing
            version = ""
        return WatchEvent(type=WatchType.BOOKMARK, resource_version=version)
    known = kind_of_event in _OBJECT_TYPES
    try:
        decoded = decode_object(kind, body, interner)
    except DecodeError as error:
        bad = _undecodable(body, error)
        if known and not bad.metadata.name:
            raise StreamCorrupt(f"an event of the watch of {kind.resource} names no object: {error}") from error
    else:
        version = decoded.metadata.resource_version
        if known:
            return WatchEvent(type=WatchType(kind_of_event), object=decoded, resource_version=version)
        bad = _undecodable(body, DecodeError(ValueError(f"unknown event type {kind_of_event!r}")))
    return WatchEvent(
        type=WatchType(kind_of_event) if known else WatchType.UNKNOWN,
        undecodable=bad,
        resource_version=bad.metadata.resource_version,
    )


def _envelope(line: bytes) -> tuple[str, bytes]:
    """Return type and object of an event, the object as it is written."""
    try:
        envelope = _event_decoder.decode(line)
    except Exception as error:
        parts = {key: (start, end) for key, start, end in members(line)}
        kind_of_event, body = parts.get(b'"type"'), parts.get(b'"object"')
        if kind_of_event is None or body is None:
            raise DecodeError(error) from error
        return _text_decoder.decode(line[slice(*kind_of_event)]), line[slice(*body)]
    return envelope.type, bytes(envelope.object)


def _without_managed_fields(body: bytes) -> bytes:
    for key, start, _ in members(body):
        if key == _METADATA:
            for name, first, last in members(body, start):
                if name == _MANAGED_FIELDS:
                    return body[:first] + b"null" + body[last:]
    return body


def _undecodable(body: bytes, error: DecodeError) -> Undecodable:
    """Return what is readable of the object: each field of its metadata is read on its own."""
    found: dict[str, Any] = {}
    whole = True
    try:
        for key, start, _ in members(body):
            for name, first, last in members(body, start) if key == _METADATA else ():
                known = _meta_decoders.get(name)
                if known is not None:
                    found.pop(known[0], None)
                    try:
                        found[known[0]] = known[1].decode(body[first:last])
                    except Exception:  # noqa: BLE001 - one field of many
                        whole = False
    except ValueError:
        whole = False
    metadata = ObjectMeta(**found)
    return Undecodable(metadata=metadata, problem=str(error), whole=whole and bool(metadata.name))


def decode_status(body: bytes) -> Status:
    """Return the Status in ``body``; any other body (a proxy's page) becomes the message, cut to 512 characters."""
    try:
        return _status_decoder.decode(body)
    except Exception:  # noqa: BLE001 - whatever it is, it is shown as it is
        return Status(message=body[:2048].decode("utf-8", "replace").strip()[:512])


def encode_manifest(kind: Kind[Any], manifest: Any) -> bytes:
    """Return ``manifest`` (a Struct or a mapping) as JSON with ``apiVersion`` and ``kind`` filled in."""
    built = msgspec.to_builtins(manifest)
    if not isinstance(built, Mapping):
        raise TypeError(f"a manifest of {kind.name} is an object, not {type(manifest).__name__}")
    return _encoder.encode({**built, "apiVersion": kind.api_version, "kind": kind.name})
