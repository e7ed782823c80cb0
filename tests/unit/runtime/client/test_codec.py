"""Bytes to events and back: any chunking, any garbage, one bad object among good ones."""

import contextlib
import itertools
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct, field

from magos.api.meta import Kind, ObjectMeta
from magos.runtime.client import lines
from magos.runtime.client.codec import (
    decode_event,
    decode_list,
    decode_object,
    decode_status,
    encode_manifest,
)
from magos.runtime.client.interner import Interner
from magos.runtime.client.lines import LineSplitter, StreamCorrupt
from magos.runtime.client.watchevents import WatchType


class Bag(Struct, frozen=True, kw_only=True, omit_defaults=True):
    metadata: ObjectMeta
    data: Mapping[str, str] = field(default_factory=dict)


BAGS = Kind(group="", version="v1", plural="configmaps", name="ConfigMap", type=Bag)
GROUPED = Kind(group="example.com", version="v2", plural="bags", name="Bag", type=Bag)


def line(kind: str, item: Any) -> bytes:
    return msgspec.json.encode({"type": kind, "object": item})


def item(name: str = "x", version: str = "5", **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "n", "uid": "u", "resourceVersion": version}, **more}


@given(
    texts=st.lists(st.text(st.characters(blacklist_characters="\n\r", blacklist_categories=["Cs"])), max_size=8),
    cuts=st.lists(st.integers(0, 200), max_size=12),
)
def test_any_chunking_gives_the_same_lines(texts: list[str], cuts: list[int]) -> None:
    stream = b"".join(text.encode() + b"\n" for text in texts)
    bounds = sorted({min(cut, len(stream)) for cut in cuts} | {0, len(stream)})
    splitter = LineSplitter()
    got: list[bytes] = []
    for start, end in itertools.pairwise(bounds):
        got += splitter.feed(stream[start:end])
    assert got == [text.encode() for text in texts if text.encode().strip()]
    assert not splitter.pending


def test_a_cut_stream_is_noticed_and_an_endless_line_is_corrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    splitter = LineSplitter()
    assert splitter.feed(b'{"type"') == []
    assert splitter.pending
    monkeypatch.setattr(lines, "LINE_LIMIT", 10)
    with pytest.raises(StreamCorrupt):
        splitter.feed(b"x" * 20)


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED"])
def test_an_object_event_carries_its_object_and_version(kind: str) -> None:
    event = decode_event(BAGS, line(kind, item(data={"a": "b"}, unknown={"field": [1]})))
    assert event.type == kind
    assert event.object is not None
    assert event.object.data == {"a": "b"}
    assert event.resource_version == "5"
    assert event.undecodable is None


def test_a_bookmark_is_read_for_its_version_only() -> None:
    body = {
        "kind": "ConfigMap",
        "metadata": {"resourceVersion": "77", "creationTimestamp": None, "labels": None, "name": 3},
        "data": 4,
    }
    event = decode_event(BAGS, line("BOOKMARK", body))
    assert (event.type, event.object, event.resource_version) == (WatchType.BOOKMARK, None, "77")


def test_a_bookmark_with_blanks_or_another_order_is_still_a_bookmark() -> None:
    text = b'{ "object": {"metadata": {"resourceVersion": "9"}}, "type": "BOOKMARK" }'
    assert decode_event(BAGS, text).type is WatchType.BOOKMARK


def test_an_error_event_carries_the_status() -> None:
    event = decode_event(BAGS, line("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "old"}))
    assert event.status is not None
    assert (event.status.code, event.status.reason) == (410, "Expired")


@pytest.mark.parametrize(
    "bad",
    [
        item(data="not a mapping"),
        item(data={"a": 1}),
        {**item(), "metadata": {**item()["metadata"], "generation": "seven"}},
        {**item(), "metadata": {**item()["metadata"], "labels": {"a": 1}}},
    ],
)
def test_an_object_that_does_not_fit_keeps_its_name_and_version(bad: dict[str, Any]) -> None:
    event = decode_event(BAGS, line("MODIFIED", bad))
    assert event.type is WatchType.MODIFIED
    assert event.object is None
    assert event.undecodable is not None
    assert (event.undecodable.metadata.namespace, event.undecodable.metadata.name) == ("n", "x")
    assert event.undecodable.metadata.uid == "u"
    assert event.resource_version == "5"
    assert event.undecodable.problem


def test_an_unknown_event_type_still_moves_the_version() -> None:
    event = decode_event(BAGS, line("SURPRISE", item(version="9")))
    assert event.type is WatchType.UNKNOWN
    assert event.object is None
    assert event.resource_version == "9"


@pytest.mark.parametrize("text", [b"<html>", b"[]", b'{"type": "ADDED"}', b'{"object": {}}', b"\xff\xfe"])
def test_a_line_that_is_no_event_is_a_corrupt_stream(text: bytes) -> None:
    with pytest.raises(StreamCorrupt):
        decode_event(BAGS, text)


@given(st.binary(max_size=60))
def test_no_line_raises_anything_but_a_corrupt_stream(text: bytes) -> None:
    with contextlib.suppress(StreamCorrupt):
        decode_event(BAGS, text)


def test_one_bad_item_does_not_hide_the_others_of_a_list() -> None:
    body = msgspec.json.encode(
        {"metadata": {"resourceVersion": "9", "continue": "t"}, "items": [item("a"), item("b", data=1), item("c")]}
    )
    page = decode_list(BAGS, body)
    assert [each.metadata.name for each in page.items] == ["a", "c"]
    assert [bad.metadata.name for bad in page.undecodable] == ["b"]
    assert (page.resource_version, page.continue_) == ("9", "t")
    assert decode_list(BAGS, b'{"metadata":{"resourceVersion":"1"},"items":null}').items == ()


@given(st.binary(max_size=80))
def test_any_error_body_becomes_a_status(body: bytes) -> None:
    assert len(decode_status(body).message) <= max(512, len(body))


def test_manifests_name_their_version_and_kind() -> None:
    manifest = Bag(metadata=ObjectMeta(name="x", generate_name="g", resource_version="3"))
    assert msgspec.json.decode(encode_manifest(GROUPED, manifest)) == {
        "apiVersion": "example.com/v2",
        "kind": "Bag",
        "metadata": {"name": "x", "generateName": "g", "resourceVersion": "3"},
    }
    assert msgspec.json.decode(encode_manifest(BAGS, {"metadata": {}, "kind": "Wrong"}))["kind"] == "ConfigMap"
    with pytest.raises(TypeError):
        encode_manifest(BAGS, ["list"])


words = st.text(max_size=12)


@given(
    st.lists(
        st.fixed_dictionaries(
            {"labels": st.dictionaries(words, words, max_size=3), "data": st.dictionaries(words, words)}
        ),
        max_size=6,
    )
)
def test_interning_changes_no_value_and_shares_equal_parts(bodies: list[dict[str, Any]]) -> None:
    interner = Interner(capacity=4)
    for body in bodies:
        raw = msgspec.json.encode(
            {"metadata": {"name": "x", "namespace": "team", "labels": body["labels"]}, "data": body["data"]}
        )
        assert decode_object(BAGS, raw, interner) == decode_object(BAGS, raw)


def test_interned_objects_share_namespace_and_labels() -> None:
    interner = Interner()
    raw = msgspec.json.encode({"metadata": {"namespace": "some-team", "labels": {"app": "magos", "x": "yy"}}})
    first, second = (decode_object(BAGS, raw, interner) for _ in range(2))
    assert first.metadata.namespace is second.metadata.namespace
    assert first.metadata.labels is second.metadata.labels


class Colour(StrEnum):
    RED = "red"


class Painted(Struct, frozen=True, kw_only=True):
    metadata: ObjectMeta
    name: str = ""
    colour: Colour = Colour.RED


def test_interning_keeps_enum_members_apart_from_their_texts() -> None:
    kind = Kind(group="", version="v1", plural="painted", name="Painted", type=Painted)
    interner = Interner()
    for body in ({"metadata": {"namespace": "red"}}, {"metadata": {}, "name": "red", "colour": "red"}) * 2:
        item = decode_object(kind, msgspec.json.encode(body), interner)
        assert item.colour is Colour.RED
        assert type(item.name) is str
        assert type(item.metadata.namespace) is str
