"""The cache against a naive model, and the rules that its docstring numbers."""

from collections.abc import Iterable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct, field

from magos.api.meta import Kind, ObjectMeta
from magos.errors import InvariantViolation
from magos.runtime.cache.cache import Cache, Change
from magos.runtime.cache.indexer import Indexer
from magos.runtime.client.watchevents import Undecodable, WatchEvent, WatchType


class Thing(Struct, frozen=True, kw_only=True):
    metadata: ObjectMeta
    teams: tuple[str, ...] = ()
    data: Mapping[str, str] = field(default_factory=dict)


THINGS = Kind(group="", version="v1", plural="things", name="Thing", type=Thing)


def thing(name: str, version: int, *, uid: str = "", teams: tuple[str, ...] = ()) -> Thing:
    metadata = ObjectMeta(name=name, namespace="n", uid=uid or f"uid-{name}", resource_version=str(version))
    return Thing(metadata=metadata, teams=teams)


def event(kind: WatchType, item: Thing, version: int = 0) -> WatchEvent[Thing]:
    return WatchEvent(type=kind, object=item, resource_version=str(version or item.metadata.resource_version))


def by_team(item: Thing) -> Iterable[str]:
    return item.teams


def filled(*items: Thing, version: int = 100) -> Cache[Thing]:
    cache = Cache(THINGS, {"team": by_team})
    cache.replace(items, (), str(version))
    return cache


def bad(name: str, uid: str = "") -> Undecodable:
    return Undecodable(metadata=ObjectMeta(name=name, namespace="n", uid=uid or f"uid-{name}"), problem="p")


def test_a_relist_tells_only_what_differs_deletions_first() -> None:
    kept, moved, gone, reborn = thing("b", 1), thing("c", 2), thing("z", 3), thing("d", 4)
    cache = filled(kept, moved, gone, reborn)
    moved2, reborn2, new = thing("c", 101), thing("d", 102, uid="other"), thing("a", 103)
    changes = cache.replace([kept, moved2, reborn2, new], (), "110")
    assert changes == [
        Change(old=reborn, new=None),
        Change(old=gone, new=None),
        Change(old=None, new=new),
        Change(old=moved, new=moved2),
        Change(old=None, new=reborn2),
    ]
    assert cache.resource_version == "110"
    assert cache.replace([kept, moved2, reborn2, new], (), "90") == []
    assert cache.resource_version == "90"  # only a relist may go back: the server was restored


def test_old_news_neither_roll_back_nor_resurrect() -> None:
    old, new = thing("x", 101), thing("x", 105)
    cache = filled()
    assert len(cache.apply([event(WatchType.ADDED, old), event(WatchType.MODIFIED, new)])) == 2
    assert cache.apply([event(WatchType.ADDED, old), event(WatchType.MODIFIED, new)]) == []
    assert cache.get("n", "x") == new
    cache.apply([event(WatchType.DELETED, new, 106)])
    assert cache.apply([event(WatchType.MODIFIED, new), event(WatchType.DELETED, new, 106)]) == []
    assert len(cache) == 0


def test_another_uid_under_a_name_is_a_deletion_and_a_creation() -> None:
    old, new = thing("x", 101), thing("x", 105, uid="other")
    cache = filled(old)
    assert cache.apply([event(WatchType.MODIFIED, new)]) == [Change(old=old, new=None), Change(old=None, new=new)]


def test_a_deletion_of_the_unknown_is_no_change_but_moves_the_version() -> None:
    cache = filled()
    assert cache.apply([event(WatchType.DELETED, thing("x", 90), 120)]) == []
    assert cache.resource_version == "120"


def test_bookmarks_move_the_version_and_nothing_else() -> None:
    cache = filled(thing("x", 1))
    assert cache.apply([WatchEvent(type=WatchType.BOOKMARK, resource_version="200")]) == []
    assert cache.resource_version == "200"
    cache.apply([WatchEvent(type=WatchType.BOOKMARK, resource_version="150")])
    cache.apply([WatchEvent(type=WatchType.BOOKMARK)])
    assert cache.resource_version == "200"
    assert len(cache) == 1


def test_an_undecodable_object_keeps_its_last_state_while_it_is_the_same() -> None:
    known = thing("x", 1)
    cache = filled(known)
    event_bad: WatchEvent[Thing] = WatchEvent(type=WatchType.MODIFIED, undecodable=bad("x"), resource_version="101")
    assert cache.apply([event_bad]) == []
    assert cache.get("n", "x") == known
    assert ("n", "x") in cache.undecodable
    assert cache.replace([], [bad("x")], "110") == []
    assert cache.replace([], [bad("x", uid="other")], "120") == [Change(old=known, new=None)]
    cache.apply([event(WatchType.MODIFIED, thing("x", 130, uid="other"))])
    assert cache.undecodable == {}
    gone: WatchEvent[Thing] = WatchEvent(type=WatchType.DELETED, undecodable=bad("x"), resource_version="140")
    assert [change.new for change in cache.apply([gone])] == [None]


def test_an_object_that_an_index_stumbles_over_is_in_quarantine_and_harms_no_other() -> None:
    def stumbling(item: Thing) -> Iterable[str]:
        if "bad" in item.teams:
            raise KeyError("bad")
        return item.teams

    cache: Cache[Thing] = Cache(THINGS, {"team": stumbling})
    first, second = thing("a", 1), thing("b", 2, teams=("bad",))
    assert cache.replace([first, second], (), "100") == [Change(old=None, new=first)]
    assert "index 'team': KeyError" in cache.undecodable["n", "b"].problem
    worse, better = thing("a", 101, teams=("bad",)), thing("b", 102, teams=("x",))
    changes = cache.apply([event(WatchType.MODIFIED, worse), event(WatchType.MODIFIED, better)])
    assert changes == [Change(old=None, new=better)]
    assert (cache.get("n", "a"), list(cache.undecodable)) == (first, [("n", "a")])
    reborn = thing("a", 103, uid="other", teams=("bad",))
    assert cache.apply([event(WatchType.MODIFIED, reborn)]) == [Change(old=first, new=None)]
    assert cache.apply([event(WatchType.DELETED, reborn, 104)]) == []
    assert (len(cache), cache.undecodable) == (1, {})


def test_each_version_of_an_undecodable_object_is_news_once() -> None:
    def version(number: int, name: str = "x") -> Undecodable:
        metadata = ObjectMeta(name=name, namespace="n", uid="u", resource_version=str(number))
        return Undecodable(metadata=metadata, problem="p")

    cache = filled()
    cache.replace([], [version(1), version(2, "y")], "100")
    assert [bad.metadata.name for bad in cache.quarantine.drain()] == ["x", "y"]
    cache.replace([], [version(1), version(2, "y")], "101")
    assert cache.quarantine.drain() == ()
    cache.apply([WatchEvent(type=WatchType.MODIFIED, undecodable=version(102), resource_version="102")])
    assert [bad.metadata.resource_version for bad in cache.quarantine.drain()] == ["102"]
    cache.replace([], [version(102)], "110")
    assert (list(cache.undecodable), cache.quarantine.drain()) == ([("n", "x")], ())


def test_lists_are_in_the_order_of_keys_and_restricted_to_a_namespace() -> None:
    other = Thing(metadata=ObjectMeta(name="a", namespace="m", uid="o", resource_version="1"))
    b, a = thing("b", 1), thing("a", 2)
    cache = filled(b, other, a)
    assert cache.list() == (other, a, b)
    assert cache.list("n") == (a, b)
    cache.apply([event(WatchType.DELETED, a, 101)])
    assert cache.list("n") == (b,)
    assert cache.list("m") == (other,)


def test_an_undeclared_index_is_an_error_that_names_the_declared_ones() -> None:
    with pytest.raises(InvariantViolation, match="team"):
        filled().by_index("nope", "x")


steps = st.lists(
    st.tuples(
        st.sampled_from(["put", "delete", "repeat", "relist", "bookmark"]),
        st.sampled_from("abcd"),
        st.lists(st.sampled_from(["red", "blue", "green"]), max_size=3).map(tuple),
        st.booleans(),
    ),
    max_size=40,
)


@given(steps)
def test_cache_and_indices_equal_the_model_after_any_history(
    history: list[tuple[str, str, tuple[str, ...], bool]],
) -> None:
    cache = filled(version=1)
    model: dict[str, Thing] = {}
    told: dict[str, Thing] = {}
    sent: list[WatchEvent[Thing]] = []
    version = 1
    for action, name, teams, new_uid in history:
        version += 1
        changes: list[Change[Thing]] = []
        if action == "put":
            uid = f"{name}{version}" if new_uid or name not in model else model[name].metadata.uid
            model[name] = thing(name, version, uid=uid, teams=teams)
            sent.append(event(WatchType.MODIFIED, model[name]))
            changes = cache.apply(sent[-1:])
        elif action == "delete" and name in model:
            sent.append(event(WatchType.DELETED, model.pop(name), version))
            changes = cache.apply(sent[-1:])
        elif action == "repeat":
            assert cache.apply(sent) == []
        elif action == "relist":
            changes = cache.replace(reversed(model.values()), (), str(version))
            assert changes == []
        elif action == "bookmark":
            cache.apply([WatchEvent(type=WatchType.BOOKMARK, resource_version=str(version))])
        for change in changes:
            key = (change.new or change.old or thing("", 0)).metadata.name
            assert told.pop(key, None) == change.old
            if change.new is not None:
                told[key] = change.new
        assert told == model
        assert {item.metadata.name: item for item in cache.list()} == model
        fresh: Indexer[Thing] = Indexer({"team": by_team})
        for item in model.values():
            fresh.update(("n", item.metadata.name), None, item)
        assert cache.indices() == fresh.snapshot()
        for team in ("red", "blue", "green"):
            filed = [item for _, item in sorted(model.items()) if team in item.teams]
            assert list(cache.by_index("team", team)) == filed
