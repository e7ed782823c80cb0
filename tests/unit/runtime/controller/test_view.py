"""Claims of magos/runtime/controller/view.py."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from magos.api.kube import CONFIG_MAPS, JOBS, SECRET_METADATA, SECRETS, ConfigMap
from magos.api.meta import Kind, ObjectMeta, Resource
from magos.errors import InvariantViolation
from magos.runtime.cache.cache import Cache
from magos.runtime.client.watchevents import Undecodable, WatchEvent, WatchType
from magos.runtime.controller.view import Caches, CacheView
from magos.runtime.decision import LiveGet, QueryAnswer, Unreadable


def caches() -> Caches:
    cache: Cache[ConfigMap] = Cache(CONFIG_MAPS, {"initial": lambda item: (item.metadata.name[0],)})
    items = [ConfigMap(metadata=ObjectMeta(name=name, namespace="ns", uid=name)) for name in ("b1", "a1", "a2")]
    cache.replace(items, (), "1")
    return Caches({CONFIG_MAPS: cache, SECRET_METADATA: Cache(SECRET_METADATA)})


def test_a_view_reads_the_caches_in_the_order_of_keys() -> None:
    view = CacheView(caches())
    assert [each.metadata.name for each in view.list(CONFIG_MAPS)] == ["a1", "a2", "b1"]
    assert [each.metadata.name for each in view.by_index(CONFIG_MAPS, "initial", "a")] == ["a1", "a2"]
    assert view.get(CONFIG_MAPS, "ns", "b1") is not None
    assert view.get(CONFIG_MAPS, "other", "b1") is None
    assert view.list(CONFIG_MAPS, "other") == ()


@pytest.mark.parametrize("kind", [JOBS, SECRETS])
def test_reading_what_nobody_watches_is_an_error_and_never_empty(kind: Kind[Any]) -> None:
    with pytest.raises(InvariantViolation, match="watches only: configmaps, secrets; declare an informer"):
        CacheView(caches()).get(kind, "ns", "x")


def test_answers_are_found_by_the_value_of_their_query() -> None:
    answer = QueryAnswer(value=7, at=datetime(2026, 1, 1, tzinfo=UTC))
    view = CacheView(caches(), answers={LiveGet(CONFIG_MAPS, "ns", "a1"): answer})
    assert view.answer(LiveGet(CONFIG_MAPS, "ns", "a1")) is answer
    assert view.answer(LiveGet(CONFIG_MAPS, "ns", "a2")) is None
    assert (view.stale, view.refusal) == (False, None)


def odd(
    name: str, namespace: str = "ns", *, whole: bool = True, labels: Mapping[str, str] | None = None
) -> Undecodable:
    metadata = ObjectMeta(name=name, namespace=namespace, uid=name, resource_version="5", labels=labels or {})
    return Undecodable(metadata=metadata, problem="odd", whole=whole)


def with_odd(*bad: Undecodable) -> CacheView:
    cache: Cache[ConfigMap] = Cache(CONFIG_MAPS, {"team": _by_team, "data": _by_data})
    names = [("ns", "a1"), ("other", "b1")]
    items = [
        ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace, uid=name, labels={"team": "x"}), data={"k": "v"})
        for namespace, name in names
    ]
    cache.replace(items, bad, "1")
    return CacheView(Caches({CONFIG_MAPS: cache}))


def _by_team(item: Resource) -> Iterable[str]:
    yield f"{item.metadata.namespace}/{item.metadata.labels.get('team', '')}"


def _by_data(item: ConfigMap) -> Iterable[str]:
    yield f"{item.metadata.namespace}/{item.data['k']}"


def test_an_object_that_cannot_be_decoded_is_neither_shown_nor_taken_for_gone() -> None:
    view = with_odd(odd("bad"))
    for read in (
        lambda: view.get(CONFIG_MAPS, "ns", "bad"),
        lambda: view.list(CONFIG_MAPS, "ns"),
        lambda: view.list(CONFIG_MAPS),
    ):
        with pytest.raises(Unreadable, match=r"ConfigMap ns/bad exists but cannot be read \(odd\)"):
            read()


def test_others_are_shown_as_ever() -> None:
    view = with_odd(odd("bad"))
    assert view.get(CONFIG_MAPS, "ns", "a1") is not None
    assert view.get(CONFIG_MAPS, "ns", "missing") is None
    assert len(view.list(CONFIG_MAPS, "other")) == 1
    assert len(view.by_index(CONFIG_MAPS, "data", "other/v")) == 1


def test_an_index_of_metadata_knows_where_an_undecodable_object_is_filed() -> None:
    view = with_odd(odd("bad", labels={"team": "y"}))
    assert len(view.by_index(CONFIG_MAPS, "team", "ns/x")) == 1
    with pytest.raises(Unreadable):
        view.by_index(CONFIG_MAPS, "team", "ns/y")


@pytest.mark.parametrize(
    ("bad", "index"),
    [(odd("bad"), "data"), (odd("bad", whole=False), "team"), (odd("", "", whole=False), "data")],
    ids=["the index needs more", "labels unreadable", "nothing readable"],
)
def test_any_other_index_is_in_doubt_for_the_whole_namespace(bad: Undecodable, index: str) -> None:
    view = with_odd(bad)
    for value in ("ns/v", "ns/x", "ns/whatever"):
        with pytest.raises(Unreadable):
            view.by_index(CONFIG_MAPS, index, value)


def test_what_was_filed_before_it_became_undecodable_is_not_shown_as_it_was() -> None:
    view = with_odd()
    cache = view._caches.of(CONFIG_MAPS)
    cache.apply([WatchEvent(type=WatchType.MODIFIED, undecodable=odd("a1", labels={"team": "y"}))])
    assert len(cache.by_index("team", "ns/x")) == 1
    with pytest.raises(Unreadable):
        view.by_index(CONFIG_MAPS, "team", "ns/x")
