"""Claims of magos/runtime/view.py."""

from datetime import UTC, datetime
from typing import Any

import pytest

from magos.api.kube import CONFIG_MAPS, JOBS, SECRET_METADATA, SECRETS, ConfigMap
from magos.api.meta import Kind, ObjectMeta
from magos.errors import InvariantViolation
from magos.runtime.cache import Cache
from magos.runtime.decision import Fact, LiveGet
from magos.runtime.view import Caches, CacheView


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


def test_facts_are_found_by_the_value_of_their_probe() -> None:
    fact = Fact(value=7, at=datetime(2026, 1, 1, tzinfo=UTC))
    view = CacheView(caches(), facts={LiveGet(CONFIG_MAPS, "ns", "a1"): fact})
    assert view.fact(LiveGet(CONFIG_MAPS, "ns", "a1")) is fact
    assert view.fact(LiveGet(CONFIG_MAPS, "ns", "a2")) is None
    assert (view.stale, view.refusal) == (False, None)
