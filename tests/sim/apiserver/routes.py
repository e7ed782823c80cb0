"""From a request to its answer: paths, verbs, content types and representations."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import msgspec

from magos.runtime.client.transport import HttpRequest, HttpResponse
from magos.runtime.clock import Clock
from tests.sim.apiserver import problems
from tests.sim.apiserver.reads import Reader, partial_object
from tests.sim.apiserver.resources import Json, ResourceType
from tests.sim.apiserver.selectors import matcher
from tests.sim.apiserver.watch import WatchRequest
from tests.sim.apiserver.writes import Writer

__all__ = ["Route", "Router", "answer", "problem_response"]

_PATCHES = ("application/merge-patch+json",)


@dataclass(frozen=True, kw_only=True)
class Route:
    """What a path names; ``name`` is empty for a collection."""

    resource: ResourceType
    namespace: str
    name: str
    subresource: str

    @property
    def key(self) -> tuple[str, str]:
        """The store's key."""
        return (self.namespace, self.name)


def answer(code: int, body: Any) -> HttpResponse:
    """Return a JSON answer."""
    headers = {"content-type": "application/json"}
    return HttpResponse(status=code, headers=headers, body=msgspec.json.encode(body))


def problem_response(problem: problems.Problem) -> HttpResponse:
    """Return the answer for a problem, with Retry-After where it has one."""
    response = answer(problem.code, problem.status)
    if problem.retry_after:
        headers = {**response.headers, "retry-after": str(problem.retry_after)}
        response = msgspec.structs.replace(response, headers=headers)
    return response


@dataclass(frozen=True, kw_only=True)
class Router:
    """Answers requests from the store's reader and writer."""

    resources: tuple[ResourceType, ...]
    reader: Reader
    writer: Writer
    clock: Clock

    def handle(self, request: HttpRequest) -> HttpResponse:
        """Return the answer to any request but a watch."""
        try:
            return self._dispatch(self.route(request.path), request)
        except problems.Problem as problem:
            return problem_response(problem)

    def watch_request(self, request: HttpRequest) -> WatchRequest:
        """Return what a watch asks for; raise a problem where that cannot be served."""
        route, query = self.route(request.path), dict(request.query)
        version = query.get("resourceVersion", "")
        if version and not version.isdecimal():
            raise problems.bad_request(f"resourceVersion: Invalid value: {version!r}: invalid")
        return WatchRequest(
            resource=route.resource,
            namespace=route.namespace,
            wanted=matcher(query.get("labelSelector", ""), query.get("fieldSelector", "")),
            version=version,
            seconds=float(query.get("timeoutSeconds", "0")) or self.writer.rng.uniform(1800, 3600),
            bookmarks=query.get("allowWatchBookmarks") in ("1", "true"),
            partial=_partial(request),
        )

    def route(self, path: str) -> Route:
        """Return what the path names or raise 404."""
        parts = [unquote(part) for part in path.strip("/").split("/")]
        if parts[:2] == ["api", "v1"]:
            group, version, rest = "", "v1", parts[2:]
        elif parts[0] == "apis" and len(parts) > 3:
            group, version, rest = parts[1], parts[2], parts[3:]
        else:
            raise problems.no_such_resource()
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        plural, name, subresource = (*rest, "", "")[:3]
        for resource in self.resources:
            if (resource.group, resource.version, resource.plural) == (group, version, plural):
                return Route(resource=resource, namespace=namespace, name=name, subresource=subresource)
        raise problems.no_such_resource()

    def _dispatch(self, route: Route, request: HttpRequest) -> HttpResponse:
        if route.subresource and not (route.subresource == "status" and route.resource.has_status):
            raise problems.no_such_resource()
        if route.name and route.resource.namespaced and not route.namespace:
            raise problems.no_such_resource()
        match request.method:
            case "GET":
                return self._read(route, request)
            case "POST" if not route.name:
                return self._create(route, request)
            case "PUT" if route.name:
                body = _body(request)
                return self._object(
                    request, 200, self.writer.update(route.resource, route.key, body, route.subresource)
                )
            case "PATCH" if route.name:
                return self._patch(route, request)
            case "DELETE" if route.name:
                return self._delete(route, request)
        raise problems.Problem(
            405, "MethodNotAllowed", "the server does not allow this method on the requested resource"
        )

    def _read(self, route: Route, request: HttpRequest) -> HttpResponse:
        if route.name:
            return self._object(request, 200, self.reader.get(route.resource, route.key))
        listed = self.reader.list(route.resource, route.namespace, dict(request.query))
        if _partial(request):
            items = [partial_object(item) for item in listed["items"]]
            listed = {
                **listed,
                "kind": "PartialObjectMetadataList",
                "apiVersion": "meta.k8s.io/v1",
                "items": items,
            }
        return answer(200, listed)

    def _create(self, route: Route, request: HttpRequest) -> HttpResponse:
        body = _body(request)
        self._check_namespace(route, body)
        created = self.writer.create(route.resource, route.namespace, body, self.clock.now())
        return self._object(request, 201, created)

    def _check_namespace(self, route: Route, body: Json) -> None:
        if not route.resource.namespaced:
            return
        if not route.namespace:
            raise problems.bad_request("an object of this resource needs a namespace in its path")
        namespaces = next(resource for resource in self.resources if resource.resource == "namespaces")
        found = self.reader.store.get(namespaces, ("", route.namespace))
        if found is None:
            raise problems.not_found("namespaces", route.namespace)
        if "deletionTimestamp" in found["metadata"]:
            name = (body.get("metadata") or {}).get("name", "")
            why = f"unable to create new content in namespace {route.namespace} because it is being terminated"
            raise problems.forbidden(route.resource.resource, name, why, "NamespaceTerminating")

    def _patch(self, route: Route, request: HttpRequest) -> HttpResponse:
        if request.content_type not in _PATCHES:
            raise problems.unsupported_media_type(request.content_type)
        body = _body(request)
        return self._object(request, 200, self.writer.patch(route.resource, route.key, body, route.subresource))

    def _delete(self, route: Route, request: HttpRequest) -> HttpResponse:
        options = msgspec.json.decode(request.body, type=dict[str, Any]) if request.body else {}
        left = self.writer.delete(route.resource, route.key, options, self.clock.now())
        if left is not None:
            return self._object(request, 200, left)
        return answer(200, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})

    def _object(self, request: HttpRequest, code: int, item: Mapping[str, Any]) -> HttpResponse:
        return answer(code, partial_object(dict(item)) if _partial(request) else item)


def _partial(request: HttpRequest) -> bool:
    return ";as=PartialObjectMetadata" in request.accept


def _body(request: HttpRequest) -> Json:
    if request.method in ("POST", "PUT") and request.content_type != "application/json":
        raise problems.unsupported_media_type(request.content_type)
    try:
        return msgspec.json.decode(request.body, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise problems.bad_request(f"the object provided is unrecognized: {error}") from error
