"""The typed client of the Kubernetes API: Kinds in, Structs out, over any ``Transport``.

Rules:

1. Every answer that is not a success becomes an ``ApiError`` that names the verb, the object and the server's words.
2. Nothing is retried here. The transport repeats what is safe to repeat; everything else is decided again by who asked.
3. Every body has an explicit content type; partial changes are JSON merge patches and nothing else.
4. A conditional write carries ``metadata.resourceVersion`` (or ``metadata.uid``); a difference is a conflict.
5. Metadata-only kinds are asked for as ``PartialObjectMetadata`` and in no other way: a server that cannot do so
   answers 406, it never sends the whole object.

``lane`` and ``timeout`` (seconds, for the whole exchange) can be given with each call; ``on`` fixes other defaults, and
who is asked right before the bytes of a write leave (``may_write``).
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Any, TypeVar, Unpack

import msgspec

from magos.api.kube import PODS
from magos.api.meta import Kind, Resource
from magos.runtime.client.codec import (
    DecodeError,
    decode_event,
    decode_list,
    decode_object,
    decode_status,
    encode_manifest,
)
from magos.runtime.client.errors import ApiError, Status
from magos.runtime.client.interner import Interner
from magos.runtime.client.lines import LineSplitter, StreamCorrupt
from magos.runtime.client.requests import (
    JSON,
    CallOptions,
    DeleteOptions,
    ListQuery,
    WatchQuery,
    WriteOptions,
    accept_header,
    named,
    object_path,
)
from magos.runtime.client.transport import HttpRequest, HttpResponse, HttpStream, Lane, Transport, TransportError
from magos.runtime.client.watchevents import ListPage, Undecodable, WatchEvent
from magos.runtime.decision import UNREADABLE

R = TypeVar("R", bound=Resource)

MERGE_PATCH = "application/merge-patch+json"

PAGE_SIZE = 500
"""Objects per page of a list."""

_ERROR_BODY_LIMIT = 1 << 20


class ApiClient:
    """Reads and writes objects with the identity of its transport. Raises ``ApiError`` and nothing else."""

    def __init__(
        self,
        transport: Transport,
        *,
        lane: Lane | None = None,
        timeout: float = 30.0,
        may_write: Callable[[], bool] | None = None,
    ) -> None:
        self._transport = transport
        self._lane = lane
        self._timeout = timeout
        self._may_write = may_write

    def on(
        self, lane: Lane | None = None, *, timeout: float | None = None, may_write: Callable[[], bool] | None = None
    ) -> "ApiClient":
        """Return a client over the same transport with other defaults; None keeps what this one has."""
        return ApiClient(
            self._transport,
            lane=self._lane if lane is None else lane,
            timeout=self._timeout if timeout is None else timeout,
            may_write=self._may_write if may_write is None else may_write,
        )

    async def get(self, kind: Kind[R], namespace: str, name: str, **options: Unpack[CallOptions]) -> R:
        """Return one object as it is now (a consistent read); an ``ApiError`` with ``not_found`` if there is none."""
        request = self._request(
            "GET", object_path(kind, namespace, name), Lane.READ, options, accept=accept_header(kind, "object")
        )
        what = f"get {kind.ref(namespace, name)}"
        return _decoded(kind, await self._answer(request, what), what)

    async def list(self, kind: Kind[R], namespace: str = "", **query: Unpack[ListQuery]) -> ListPage[R]:
        """Return one page of a namespace's objects (of all namespaces if empty)."""
        pairs = {
            "labelSelector": query.get("selector", ""),
            "fieldSelector": query.get("field_selector", ""),
            "limit": str(query.get("limit", 0) or ""),
            "continue": query.get("continue_", ""),
            "resourceVersion": query.get("resource_version", ""),
        }
        path = object_path(kind, namespace)
        request = self._request("GET", path, Lane.READ, query, accept=accept_header(kind, "list"), query=pairs)
        what = f"list {kind.resource}{f' in {namespace}' if namespace else ''}"
        response = await self._answer(request, what)
        try:
            return decode_list(kind, response.body, query.get("interner"))
        except DecodeError as error:
            raise _unreadable(what, error) from error

    async def list_all(
        self, kind: Kind[R], namespace: str = "", *, selector: str = "", field_selector: str = ""
    ) -> ListPage[R]:
        """Return a consistent list of everything, read in pages; starts over without paging if a page expired."""
        items: list[R] = []
        bad: list[Undecodable] = []
        token = ""
        while True:
            try:
                page = await self.list(
                    kind,
                    namespace,
                    selector=selector,
                    field_selector=field_selector,
                    limit=PAGE_SIZE,
                    continue_=token,
                )
            except ApiError as error:
                if not (token and error.gone):
                    raise
                return await self.list(kind, namespace, selector=selector, field_selector=field_selector)
            items += page.items
            bad += page.undecodable
            token = page.continue_
            if not token:
                return ListPage(items=tuple(items), resource_version=page.resource_version, undecodable=tuple(bad))

    def watch(
        self, kind: Kind[R], **query: Unpack[WatchQuery]
    ) -> AbstractAsyncContextManager[AsyncIterator[tuple[WatchEvent[R], ...]]]:
        """Open a watch with bookmarks; it yields a batch per chunk received and ends when the server ends it.

        Opening raises ``ApiError`` for any refusal. While iterating, a broken connection or a corrupt stream raises a
        transient ``ApiError``; an ERROR event is yielded like any other.
        """
        return self._watch(kind, query)

    @asynccontextmanager
    async def _watch(self, kind: Kind[R], query: WatchQuery) -> AsyncIterator[AsyncIterator[tuple[WatchEvent[R], ...]]]:
        namespace = query.get("namespace", "")
        pairs = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "labelSelector": query.get("selector", ""),
            "fieldSelector": query.get("field_selector", ""),
            "resourceVersion": query.get("resource_version", ""),
            "timeoutSeconds": str(query.get("timeout_seconds", 0) or ""),
        }
        path = object_path(kind, namespace)
        # The element type of a watch is the object, so the Accept header asks for the object form.
        request = self._request("GET", path, Lane.WATCH, query, accept=accept_header(kind, "object"), query=pairs)
        what = f"watch {kind.resource}{f' in {namespace}' if namespace else ''}"
        try:
            async with self._transport.stream(request) as stream:
                if stream.status != 200:
                    raise _refusal(what, await _error_response(stream), write=False)
                async with aclosing(_events(kind, stream, query.get("interner"))) as events:
                    yield events
        except TransportError as error:
            raise _no_answer(what, error, write=False) from error
        except StreamCorrupt as error:
            raise ApiError(f"{what}: {error}") from error

    @asynccontextmanager
    async def pod_log(
        self,
        namespace: str,
        pod: str,
        container: str,
        *,
        follow: bool = False,
        since: str = "",
        timestamps: bool = False,
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open what a container has printed, in chunks; with ``follow`` it goes on until the container ends.

        ``since`` is an RFC 3339 time before which lines are left out. Opening raises ``ApiError`` for any refusal
        (400 while the container has not started), iterating a transient one where the connection breaks.
        """
        pairs = {
            "container": container,
            "follow": "true" if follow else "",
            "sinceTime": since,
            "timestamps": "true" if timestamps else "",
        }
        path = object_path(PODS, namespace, pod, "log")
        request = self._request("GET", path, Lane.WATCH, {}, accept="*/*", query=pairs)
        what = f"read the log of container {container} of {PODS.ref(namespace, pod)}"
        try:
            async with self._transport.stream(request) as stream:
                if stream.status != 200:
                    raise _refusal(what, await _error_response(stream), write=False)
                yield stream.chunks
        except TransportError as error:
            raise _no_answer(what, error, write=False) from error

    async def create(self, kind: Kind[R], manifest: Any, **options: Unpack[WriteOptions]) -> R:
        """Create ``manifest`` (a Struct or a mapping) in the namespace its metadata names; return what was stored."""
        metadata = named(manifest)
        namespace, name = metadata.namespace, metadata.name
        subresource = options.get("subresource", "")
        path = object_path(kind, namespace, name if subresource else "", subresource)
        what = f"create {kind.ref(namespace, name or metadata.generate_name)}"
        return await self._write(kind, ("POST", path, JSON), encode_manifest(kind, manifest), (what, options))

    async def replace(self, kind: Kind[R], manifest: Any, **options: Unpack[WriteOptions]) -> R:
        """Replace the whole object by ``manifest``; conditional if its metadata has a resourceVersion."""
        metadata = named(manifest)
        path = object_path(kind, metadata.namespace, metadata.name, options.get("subresource", ""))
        what = f"update {kind.ref(metadata.namespace, metadata.name)}"
        return await self._write(kind, ("PUT", path, JSON), encode_manifest(kind, manifest), (what, options))

    async def patch(
        self, kind: Kind[R], namespace: str, name: str, body: Mapping[str, Any], **options: Unpack[WriteOptions]
    ) -> R:
        """Apply ``body`` as a merge patch: mappings merge, None removes a field, lists and scalars replace."""
        path = object_path(kind, namespace, name, options.get("subresource", ""))
        what = f"patch {kind.ref(namespace, name)}"
        return await self._write(kind, ("PATCH", path, MERGE_PATCH), msgspec.json.encode(body), (what, options))

    async def delete(self, kind: Kind[Any], namespace: str, name: str, **options: Unpack[DeleteOptions]) -> None:
        """Ask for deletion; returns once the server accepted it, which may be long before the object is gone."""
        body: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1"}
        pairs = {"uid": options.get("uid", ""), "resourceVersion": options.get("resource_version", "")}
        preconditions = {key: value for key, value in pairs.items() if value}
        if preconditions:
            body["preconditions"] = preconditions
        if "propagation" in options:
            body["propagationPolicy"] = options["propagation"].value
        if options.get("grace_seconds") is not None:
            body["gracePeriodSeconds"] = options["grace_seconds"]
        request = self._request("DELETE", object_path(kind, namespace, name), Lane.WRITE, options)
        request = msgspec.structs.replace(request, body=msgspec.json.encode(body), content_type=JSON)
        await self._answer(request, f"delete {kind.ref(namespace, name)}")

    async def aclose(self) -> None:
        """Close the transport, for every client that shares it."""
        await self._transport.aclose()

    async def _write(
        self, kind: Kind[R], route: tuple[str, str, str], body: bytes, call: tuple[str, WriteOptions]
    ) -> R:
        method, path, content_type = route
        what, options = call
        request = self._request(method, path, Lane.WRITE, options, accept=accept_header(kind, "object"))
        request = msgspec.structs.replace(request, body=body, content_type=content_type)
        return _decoded(kind, await self._answer(request, what), what)

    def _request(
        self,
        method: str,
        path: str,
        lane: Lane,
        options: CallOptions,
        *,
        accept: str = JSON,
        query: Mapping[str, str] | None = None,
    ) -> HttpRequest:
        return HttpRequest(
            method=method,
            path=path,
            query=tuple((key, value) for key, value in (query or {}).items() if value),
            accept=accept,
            lane=options.get("lane", self._lane or lane),
            timeout=options.get("timeout", self._timeout),
            may_send=None if method == "GET" else self._may_write,
        )

    async def _answer(self, request: HttpRequest, what: str) -> HttpResponse:
        write = request.method != "GET"
        try:
            response = await self._transport.request(request)
        except TransportError as error:
            raise _no_answer(what, error, write=write) from error
        if not 200 <= response.status < 300:
            raise _refusal(what, response, write=write)
        return response


async def _events(
    kind: Kind[R], stream: HttpStream, interner: Interner | None
) -> AsyncGenerator[tuple[WatchEvent[R], ...], None]:
    splitter = LineSplitter()
    async for chunk in stream.chunks:
        lines = splitter.feed(chunk)
        if lines:
            yield tuple(decode_event(kind, line, interner) for line in lines)
    if splitter.pending:
        raise StreamCorrupt("the stream ended in the middle of an event")


async def _error_response(stream: HttpStream) -> HttpResponse:
    body = bytearray()
    async for chunk in stream.chunks:
        body += chunk
        if len(body) > _ERROR_BODY_LIMIT:
            break
    return HttpResponse(status=stream.status, headers=stream.headers, body=bytes(body))


def _decoded(kind: Kind[R], response: HttpResponse, what: str) -> R:
    try:
        return decode_object(kind, response.body)
    except DecodeError as error:
        raise _unreadable(what, error) from error


def _refusal(what: str, response: HttpResponse, *, write: bool) -> ApiError:
    answer = decode_status(response.body)
    answer = msgspec.structs.replace(answer, code=response.status)
    words = answer.message or f"HTTP {response.status} without an explanation"
    reason = answer.reason or f"HTTP {response.status}"
    # A server error may strike after the object was stored; 429 and client errors are given before anything is done.
    unknown = write and response.status >= 500
    return ApiError(
        f"{what}: {reason}: {words}", answer=answer, retry_after=_retry_after(response, answer), unknown_outcome=unknown
    )


def _retry_after(response: HttpResponse, answer: Status) -> float | None:
    text = response.headers.get("retry-after", "")
    if text.isdecimal():
        return float(text)
    if answer.details and answer.details.retry_after_seconds > 0:
        return float(answer.details.retry_after_seconds)
    return None


def _no_answer(what: str, error: TransportError, *, write: bool) -> ApiError:
    return ApiError(f"{what}: no answer from the API server: {error}", unknown_outcome=write and error.sent)


def _unreadable(what: str, error: Exception) -> ApiError:
    """A success whose body does not fit our type: the write took place, and asking again gives the same answer."""
    problem = f"the answer does not fit what this version of Magos knows: {error}"
    return ApiError(f"{what}: {problem}", answer=Status(code=200, reason=UNREADABLE, message=problem))
