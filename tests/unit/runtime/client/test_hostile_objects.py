"""Whatever the bytes of one object do to the decoder, only that object suffers."""

import asyncio
import contextlib
import json
from collections.abc import Mapping
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import Struct, field

from magos.api.meta import Kind, ObjectMeta
from magos.runtime.cache.cache import Cache
from magos.runtime.client.client import ApiClient
from magos.runtime.client.codec import DecodeError, decode_event, decode_list, decode_object, decode_status
from magos.runtime.client.errors import ApiError
from magos.runtime.client.interner import Interner
from magos.runtime.client.lines import StreamCorrupt
from magos.runtime.client.transport import HttpRequest, HttpResponse
from magos.runtime.client.watchevents import WatchType
from magos.runtime.controller.endings import End, judge
from magos.runtime.controller.ledger import Ledger, Target
from magos.runtime.controller.queries import QueryRegistry
from magos.runtime.controller.view import Caches
from magos.runtime.decision import UNREADABLE, Create, LiveGet, LiveList, Unreadable
from tests.sim.virtualtime import VirtualClock, run_virtual


class Bag(Struct, frozen=True, kw_only=True):
    metadata: ObjectMeta
    data: Mapping[str, str] = field(default_factory=dict)
    size: int = 0
    share: float = 0.0


BAGS = Kind(group="", version="v1", plural="configmaps", name="ConfigMap", type=Bag)
GOOD = b'{"metadata":{"name":"good","namespace":"n","uid":"g","resourceVersion":"3"},"data":{"a":"b"}}'
DEPTHS = (1_500, 9_000, 100_000)


def nested(depth: int, opening: bytes = b'{"f:a":', closing: bytes = b"}") -> bytes:
    return opening * depth + b"1" + closing * depth


def bag(*, metadata: bytes = b"", rest: bytes = b"", name: bytes = b'"bad"') -> bytes:
    return (
        b'{"metadata":{"name":'
        + name
        + b',"namespace":"n","uid":"u","resourceVersion":"7"'
        + metadata
        + b"}"
        + rest
        + b"}"
    )


def managed(depth: int) -> bytes:
    fields = b',"managedFields":[{"manager":"x","operation":"Update","fieldsType":"FieldsV1","fieldsV1":'
    return bag(metadata=fields + nested(depth) + b'}],"labels":{"team":"a"}', rest=b',"data":{"k":"v"}')


VALUES = {
    "object of 1,500 levels": nested(1_500),
    "object of 9,000 levels": nested(9_000),
    "array of 9,000 levels": nested(9_000, b"[", b"]"),
    "long number": b"9" * 5_000,
    "long negative number": b"-" + b"9" * 400,
    "huge number": b"1e999",
    "fraction": b"1.5",
    "no number": b"NaN",
    "half a word": b"tru",
    "lone surrogate": b'"\\ud800"',
    "swapped surrogates": b'"\\udc00\\ud800"',
    "broken UTF-8": b'"\xff\xfe"',
    "surrogate as UTF-8": b'"\xed\xa0\x80"',
    "control characters": b'"\x00\x01"',
    "unknown escape": b'"\\q"',
    "long text": b'"' + b"x" * 100_000 + b'"',
    "broken UTF-8 inside": b'{"a":"\xff"}',
    "lone surrogate inside": b'{"a":"\\ud800"}',
    "long number inside": b'{"a":' + b"9" * 5_000 + b"}",
    "key twice": b'{"a":"x","a":"y"}',
    "null": b"null",
    "empty object": b"{}",
    "empty array": b"[]",
    "empty text": b'""',
}
INSIDE = st.sampled_from(["labels", "annotations", "finalizers", "generation", "managedFields", "other", "uid"])
OUTSIDE = st.sampled_from(["data", "size", "share", "spec", "status"])


class Hostile(NamedTuple):
    """An object whose name can be read and whose brackets match: keys and names of ``VALUES``, in and behind metadata.

    Named, so that a failure prints a line and not a megabyte.
    """

    inside: tuple[tuple[str, str], ...] = ()
    outside: tuple[tuple[str, str], ...] = ()

    def body(self) -> bytes:
        return bag(metadata=_written(self.inside), rest=_written(self.outside))


def _written(parts: tuple[tuple[str, str], ...]) -> bytes:
    return b"".join(b',"%b":%b' % (key.encode(), VALUES[value]) for key, value in parts)


def _parts(keys: st.SearchStrategy[str]) -> st.SearchStrategy[tuple[tuple[str, str], ...]]:
    return st.lists(st.tuples(keys, st.sampled_from(sorted(VALUES))), max_size=3).map(tuple)


HOSTILE = st.builds(Hostile, _parts(INSIDE), _parts(OUTSIDE))
DEEP_FIELDS = Hostile(inside=(("managedFields", "object of 1,500 levels"),))
DEEP_DATA = Hostile(outside=(("data", "object of 9,000 levels"),))


@pytest.mark.parametrize("depth", DEPTHS)
def test_managed_fields_of_any_depth_are_no_trouble(depth: int) -> None:
    body = managed(depth)
    whole = Bag(
        metadata=ObjectMeta(name="bad", namespace="n", uid="u", resource_version="7", labels={"team": "a"}),
        data={"k": "v"},
    )
    assert decode_object(BAGS, body) == whole
    assert decode_list(BAGS, b'{"items":[' + GOOD + b"," + body + b"]}").items[1] == whole
    assert decode_event(BAGS, b'{"type":"MODIFIED","object":' + body + b"}").object == whole


@settings(deadline=None)
@given(HOSTILE, st.integers(0, 2))
@example(DEEP_FIELDS, 1)
@example(DEEP_DATA, 0)
def test_one_object_never_hides_the_others_of_a_page(odd: Hostile, place: int) -> None:
    items = [GOOD, GOOD]
    items.insert(place, odd.body())
    page = decode_list(
        BAGS, b'{"kind":"X","metadata":{"resourceVersion":"9","continue":"t"},"items":[' + b",".join(items) + b"]}"
    )
    assert len(page.items) + len(page.undecodable) == 3
    assert sum(each.metadata.name == "good" for each in page.items) == 2
    assert (page.resource_version, page.continue_) == ("9", "t")
    for bad in page.undecodable:
        assert len(bad.problem) <= 300
        json.dumps(bad.problem, ensure_ascii=False).encode()


@settings(deadline=None)
@given(HOSTILE, st.sampled_from(["ADDED", "MODIFIED", "DELETED"]))
@example(DEEP_FIELDS, "ADDED")
@example(DEEP_DATA, "MODIFIED")
def test_one_object_never_ends_a_watch(odd: Hostile, kind: str) -> None:
    event = decode_event(BAGS, b'{"type":"%b","object":' % kind.encode() + odd.body() + b"}", Interner())
    assert event.type == kind
    found = event.object or event.undecodable
    assert found is not None
    assert found.metadata.name == "bad"


@pytest.mark.parametrize(
    "rest",
    [
        b',"data":' + nested(1_500),
        b',"data":{"a":"\\ud800"}',
        b',"data":{"a":"\xff"}',
        b',"size":' + b"9" * 5_000,
        b',"share":1e999',
        b',"data":5',
    ],
)
def test_what_cannot_be_decoded_keeps_its_name_and_version(rest: bytes) -> None:
    event = decode_event(BAGS, b'{"type":"MODIFIED","object":' + bag(rest=rest) + b"}")
    assert event.object is None
    assert event.undecodable is not None
    assert event.undecodable.metadata == ObjectMeta(name="bad", namespace="n", uid="u", resource_version="7")
    assert event.undecodable.whole
    assert event.resource_version == "7"
    with pytest.raises(DecodeError):
        decode_object(BAGS, bag(rest=rest))


@pytest.mark.parametrize("labels", [nested(1_500), b'{"a":"\\ud800"}', b'{"a":"\xff"}', b'{"a":1}'])
def test_labels_that_cannot_be_read_are_told_apart_from_none(labels: bytes) -> None:
    page = decode_list(BAGS, b'{"items":[' + bag(metadata=b',"labels":' + labels) + b"]}")
    assert [(bad.metadata.name, bad.metadata.labels, bad.whole) for bad in page.undecodable] == [("bad", {}, False)]


def test_an_event_that_names_no_object_is_a_corrupt_stream() -> None:
    for body in (bag(name=b'"\xff"'), bag(name=b"5"), b"{}", nested(1_500)):
        with pytest.raises(StreamCorrupt):
            decode_event(BAGS, b'{"type":"DELETED","object":' + body + b"}")


@given(
    st.binary(max_size=80) | st.builds(lambda depth, cut: nested(depth)[:cut], st.integers(0, 3_000), st.integers(0))
)
def test_no_bytes_raise_anything_else(text: bytes) -> None:
    for body in (text, b'{"type":"ADDED","object":' + text + b"}"):
        with contextlib.suppress(StreamCorrupt):
            decode_event(BAGS, body)
    for body in (text, b'{"items":[' + text + b"]}"):
        with contextlib.suppress(DecodeError):
            decode_list(BAGS, body)
    with contextlib.suppress(DecodeError):
        decode_object(BAGS, text)
    assert isinstance(decode_status(text).message, str)


# --- through the client -----------------------------------------------------------------------------------------------


class Fixed:
    """Answers every request alike."""

    def __init__(self, body: bytes) -> None:
        self._answer = HttpResponse(status=200, body=body)

    async def request(self, _request: HttpRequest) -> HttpResponse:
        return self._answer

    def stream(self, request: HttpRequest) -> contextlib.AbstractAsyncContextManager[object]:  # type: ignore[type-arg,unused-ignore]
        raise NotImplementedError(request.path)

    async def aclose(self) -> None:
        """There is nothing to close."""


def client(body: bytes) -> ApiClient:
    return ApiClient(Fixed(body))  # type: ignore[arg-type]


DEEP = bag(rest=b',"data":' + nested(1_500))


def test_single_reads_and_answers_of_writes_say_that_they_cannot_be_read() -> None:
    async def main() -> None:
        for attempt in (client(DEEP).get(BAGS, "n", "bad"), client(DEEP).patch(BAGS, "n", "bad", {})):
            with pytest.raises(ApiError, match="does not fit") as caught:
                await attempt
            assert caught.value.reason == UNREADABLE

    asyncio.run(main())


def test_live_reads_with_an_unreadable_object_fail_closed() -> None:
    async def main() -> None:
        page = b'{"items":[' + GOOD + b"," + DEEP + b"]}"
        with pytest.raises(Unreadable, match="ConfigMap n/bad exists but cannot be read"):
            (await client(page).list_all(BAGS, "n")).complete(BAGS)
        listed = QueryRegistry(client(page), VirtualClock(), {})
        (fact,) = (await listed.answer((LiveList(BAGS, "n"),))).values()
        assert (fact.value, fact.failure.reason if fact.failure else "") == (None, UNREADABLE)
        got = QueryRegistry(client(DEEP), VirtualClock(), {})
        (fact,) = (await got.answer((LiveGet(BAGS, "n", "bad"),))).values()
        assert (fact.value, fact.failure.reason if fact.failure else "") == (None, UNREADABLE)

    run_virtual(main)


def test_a_write_whose_answer_cannot_be_read_is_looked_up_and_never_told_as_refused() -> None:
    async def main() -> ApiError:
        with pytest.raises(ApiError) as caught:
            await client(DEEP).create(BAGS, {"metadata": {"name": "bad", "namespace": "n"}})
        return caught.value

    cache: Cache[Bag] = Cache(BAGS)
    ledger = Ledger(Caches({BAGS: cache}))
    manifest = Bag(metadata=ObjectMeta(name="bad", namespace="n"))
    stop = judge(asyncio.run(main()), Create(kind=BAGS, manifest=manifest), Target(BAGS, "n", "bad"), ledger)
    assert (stop.end, stop.refusal) == (End.TRANSIENT, None)
    assert [(write.name, write.unknown) for write in ledger.writes] == [("bad", True)]


def test_an_unknown_event_type_and_an_error_of_any_depth_are_taken_as_they_are() -> None:
    event = decode_event(BAGS, b'{"type":"SURPRISE","object":' + managed(1_500) + b"}")
    assert (event.type, event.resource_version) == (WatchType.UNKNOWN, "7")
    status = decode_event(BAGS, b'{"type":"ERROR","object":{"code":410,"details":' + nested(1_500) + b"}}").status
    assert status is not None
    assert msgspec.json.encode(status)
