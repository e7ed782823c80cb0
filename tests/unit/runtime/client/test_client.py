"""The client over a transport that is written down: what is sent, and how each answer is judged."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from msgspec import Struct, field

from magos.api.meta import Kind, ObjectMeta
from magos.runtime.client.client import ApiClient
from magos.runtime.client.errors import ApiError
from magos.runtime.client.transport import HttpRequest, HttpResponse, HttpStream, Lane, TransportError
from magos.runtime.decision import Propagation


class Bag(Struct, frozen=True, kw_only=True, omit_defaults=True):
    metadata: ObjectMeta
    data: Mapping[str, str] = field(default_factory=dict)


BAGS = Kind(group="example.com", version="v1", plural="bags", name="Bag", type=Bag)
CORE = Kind(group="", version="v1", plural="nodes", name="Node", type=Bag, namespaced=False)
PARTIAL = Kind(group="", version="v1", plural="secrets", name="Secret", type=Bag, metadata_only=True)
OK = HttpResponse(status=200, body=b'{"metadata":{"name":"x","resourceVersion":"7"}}')


class Written:
    """A transport that answers in turn and remembers what it was asked."""

    def __init__(self, *answers: HttpResponse | TransportError) -> None:
        self.answers = list(answers)
        self.asked: list[HttpRequest] = []

    async def request(self, request: HttpRequest) -> HttpResponse:
        self.asked.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, TransportError):
            raise answer
        return answer

    @asynccontextmanager
    async def stream(self, request: HttpRequest) -> AsyncIterator[HttpStream]:
        answer = await self.request(request)

        async def chunks() -> AsyncIterator[bytes]:
            yield answer.body

        yield HttpStream(status=answer.status, headers=answer.headers, chunks=chunks())

    async def aclose(self) -> None:
        pass


def failure(code: int, reason: str = "", **more: Any) -> HttpResponse:
    body = {"kind": "Status", "code": code, "reason": reason, "message": "because", **more}
    return HttpResponse(status=code, body=msgspec.json.encode(body))


def refused(answer: HttpResponse | TransportError, *, write: bool = True) -> ApiError:
    """Return the error that the answer becomes."""
    client = ApiClient(Written(answer))
    call = client.patch(BAGS, "n", "x", {}) if write else client.get(BAGS, "n", "x")
    with pytest.raises(ApiError) as caught:
        asyncio.run(call)
    return caught.value


def test_paths_queries_and_bodies_are_written_as_the_api_wants_them() -> None:
    transport = Written(OK, OK, OK, OK, OK, OK)
    client = ApiClient(transport)

    async def main() -> None:
        await client.get(BAGS, "n", "a/b?c")
        await client.get(CORE, "ignored", "x")
        await client.create(BAGS, Bag(metadata=ObjectMeta(name="x", namespace="n"), data={"a": "b"}))
        await client.patch(BAGS, "n", "x", {"status": {"a": None}}, subresource="status", lane=Lane.LEASE, timeout=2.0)
        await client.delete(BAGS, "n", "x", uid="u", propagation=Propagation.FOREGROUND, grace_seconds=0)
        await client.on(Lane.EVENTS, timeout=5.0).get(PARTIAL, "n", "x")

    asyncio.run(main())
    got, core, create, patch, delete, partial = transport.asked
    assert got.path == "/apis/example.com/v1/namespaces/n/bags/a%2Fb%3Fc"
    assert core.path == "/api/v1/nodes/x"
    assert (create.method, create.path, create.content_type) == (
        "POST",
        "/apis/example.com/v1/namespaces/n/bags",
        "application/json",
    )
    assert msgspec.json.decode(create.body) == {
        "apiVersion": "example.com/v1",
        "kind": "Bag",
        "metadata": {"name": "x", "namespace": "n"},
        "data": {"a": "b"},
    }
    assert (patch.method, patch.path) == ("PATCH", "/apis/example.com/v1/namespaces/n/bags/x/status")
    assert patch.content_type == "application/merge-patch+json"
    assert (patch.body, patch.lane, patch.timeout) == (b'{"status":{"a":null}}', Lane.LEASE, 2.0)
    assert msgspec.json.decode(delete.body) == {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "preconditions": {"uid": "u"},
        "propagationPolicy": "Foreground",
        "gracePeriodSeconds": 0,
    }
    assert partial.accept == "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    assert (partial.lane, partial.timeout) == (Lane.EVENTS, 5.0)


QUESTIONS = ("not_found", "already_exists", "conflict", "unauthorized", "forbidden", "invalid", "gone", "transient")


@pytest.mark.parametrize(
    ("answer", "is_", "permanent"),
    [
        (failure(404, "NotFound"), {"not_found"}, False),
        (failure(409, "AlreadyExists"), {"already_exists"}, False),
        (failure(409, "Conflict"), {"conflict"}, False),
        (failure(422, "Invalid", details={"causes": [{"field": "metadata.uid"}]}), {"conflict"}, False),
        (failure(422, "Invalid", details={"causes": None}), {"invalid"}, True),
        (failure(400, "BadRequest"), {"invalid"}, True),
        (failure(401, "Unauthorized"), {"unauthorized"}, False),
        (failure(403, "Forbidden"), {"forbidden"}, True),
        (failure(405, "MethodNotAllowed"), set(), True),
        (failure(410, "Expired"), {"gone"}, False),
        (failure(429, "TooManyRequests"), {"transient"}, False),
        (failure(500, "InternalError"), {"transient"}, False),
        (failure(504, "Timeout"), {"transient"}, False),
        (TransportError("reset", sent=True), {"transient"}, False),
    ],
)
def test_each_refusal_answers_the_questions_callers_ask(
    answer: HttpResponse | TransportError, is_: set[str], permanent: bool
) -> None:
    error = refused(answer)
    assert {question for question in QUESTIONS if getattr(error, question)} == is_
    assert error.permanent == permanent
    assert str(error).startswith("patch Bag n/x: ")


@pytest.mark.parametrize(
    ("answer", "unknown"),
    [
        (failure(500), True),
        (failure(504), True),
        (failure(429), False),
        (failure(409), False),
        (TransportError("reset", sent=True), True),
        (TransportError("refused", sent=False), False),
    ],
)
def test_only_a_write_that_may_have_happened_has_an_unknown_outcome(
    answer: HttpResponse | TransportError, unknown: bool
) -> None:
    assert refused(answer).unknown_outcome == unknown
    assert not refused(answer, write=False).unknown_outcome


def test_retry_after_comes_from_the_header_or_the_status() -> None:
    assert refused(failure(429)).retry_after is None
    assert refused(failure(429, details={"retryAfterSeconds": 3})).retry_after == 3.0
    header = HttpResponse(status=503, headers={"retry-after": "9"}, body=b"<html>busy</html>")
    assert refused(header).retry_after == 9.0
    assert "<html>busy</html>" in str(refused(header))


def test_an_answer_that_does_not_fit_is_an_error_that_says_so() -> None:
    error = refused(HttpResponse(status=200, body=b'{"metadata":{"name":5}}'))
    assert error.reason == "Undecodable"
    assert not error.transient
    assert "$.metadata.name" in str(error)


def page(name: str, token: str = "") -> HttpResponse:
    body = {"metadata": {"resourceVersion": "9", "continue": token}, "items": [{"metadata": {"name": name}}]}
    return HttpResponse(status=200, body=msgspec.json.encode(body))


def test_a_whole_list_is_read_in_pages_and_begun_anew_if_one_expired() -> None:
    transport = Written(page("a", "t"), page("b"), page("a", "t"), failure(410, "Expired"), page("whole"))
    client = ApiClient(transport)
    first = asyncio.run(client.list_all(BAGS, "n", selector="a=b"))
    assert [item.metadata.name for item in first.items] == ["a", "b"]
    second = asyncio.run(client.list_all(BAGS))
    assert [item.metadata.name for item in second.items] == ["whole"]
    assert [dict(request.query) for request in transport.asked] == [
        {"labelSelector": "a=b", "limit": "500"},
        {"labelSelector": "a=b", "limit": "500", "continue": "t"},
        {"limit": "500"},
        {"limit": "500", "continue": "t"},
        {},
    ]


def test_a_watch_raises_what_its_opening_was_refused_with() -> None:
    async def main(answer: HttpResponse) -> list[str]:
        async with ApiClient(Written(answer)).watch(BAGS, namespace="n", resource_version="5") as batches:
            return [event.type.value async for batch in batches for event in batch]

    with pytest.raises(ApiError, match=r"watch bags\.example\.com in n: Expired: because") as caught:
        asyncio.run(main(failure(410, "Expired")))
    assert caught.value.gone
    with pytest.raises(ApiError, match="in the middle of an event") as caught:
        asyncio.run(main(HttpResponse(status=200, body=b'{"type":"ADDED"')))
    assert caught.value.transient
    with pytest.raises(ApiError, match="not a watch event") as caught:
        asyncio.run(main(HttpResponse(status=200, body=b"<html>\n")))
    assert caught.value.transient
    assert asyncio.run(main(HttpResponse(status=200, body=b'{"type":"BOOKMARK","object":{"metadata":{}}}\n'))) == [
        "BOOKMARK"
    ]


def test_a_log_is_asked_for_as_the_api_wants_it_and_a_refusal_is_an_error() -> None:
    transport = Written(HttpResponse(status=200, body=b"one\n"), HttpResponse(status=200), failure(400, "BadRequest"))
    client = ApiClient(transport)

    async def main() -> bytes:
        async with client.pod_log("n", "p", "fetch") as chunks:
            found = b"".join([chunk async for chunk in chunks])
        since = "2026-12-01T16:39:28Z"
        async with client.pod_log("n", "p", "job", follow=True, since=since, timestamps=True):
            pass
        with pytest.raises(ApiError, match=r"read the log of container job of .*: BadRequest: because"):
            async with client.pod_log("n", "p", "job"):
                pass
        return found

    assert asyncio.run(main()) == b"one\n"
    plain, full, _ = transport.asked
    assert (plain.method, plain.path, plain.query) == (
        "GET",
        "/api/v1/namespaces/n/pods/p/log",
        (("container", "fetch"),),
    )
    assert plain.lane is Lane.WATCH
    assert dict(full.query) == {
        "container": "job",
        "follow": "true",
        "sinceTime": "2026-12-01T16:39:28Z",
        "timestamps": "true",
    }


def test_a_log_whose_connection_breaks_is_a_passing_error() -> None:
    class Breaking(Written):
        @asynccontextmanager
        async def stream(self, request: HttpRequest) -> AsyncIterator[HttpStream]:
            async def chunks() -> AsyncIterator[bytes]:
                yield b"one"
                raise TransportError("reset", sent=True)

            yield HttpStream(status=200, headers={}, chunks=chunks())

    async def main() -> None:
        async with ApiClient(Breaking()).pod_log("n", "p", "job") as chunks:
            assert [chunk async for chunk in chunks]

    with pytest.raises(ApiError, match="no answer from the API server: reset") as caught:
        asyncio.run(main())
    assert caught.value.transient
