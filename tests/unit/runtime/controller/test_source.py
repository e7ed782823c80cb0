"""Claims of magos/runtime/controller/source.py: whom a change wakes, and how urgently."""

import pytest

from magos.api.kube import CONFIG_MAPS, ConfigMap
from magos.api.meta import Kind, ObjectMeta, OwnerReference
from magos.runtime.cache.cache import Change
from magos.runtime.controller.source import own_key, owner_key, usual_priority
from magos.runtime.controller.workqueue import Key
from magos.runtime.decision import Priority

OWNERS = Kind(group="example.com", version="v2", plural="owners", name="Owner", type=ConfigMap)


def child(
    owner: str = "", *, kind: str = "Owner", api_version: str = "example.com/v2", controller: bool = True
) -> ConfigMap:
    owners = (OwnerReference(api_version=api_version, kind=kind, name=owner, uid="u", controller=controller),)
    return ConfigMap(metadata=ObjectMeta(name="c", namespace="ns", owner_references=owners if owner else ()))


def change(old: ConfigMap | None, new: ConfigMap | None, *, initial: bool = False) -> Change[ConfigMap]:
    return Change(old=old, new=new, initial=initial)


def test_an_object_wakes_itself_also_when_it_is_gone() -> None:
    assert own_key(change(None, child())) == own_key(change(child(), None)) == (Key("ns", "c"),)


def test_old_and_new_owner_are_both_woken_once() -> None:
    wakes = owner_key(OWNERS)
    assert wakes(change(child("a"), child("b"))) == (Key("ns", "a"), Key("ns", "b"))
    assert wakes(change(child("a"), child("a"))) == (Key("ns", "a"),)
    assert wakes(change(child("a"), None)) == (Key("ns", "a"),)
    assert wakes(change(None, child())) == ()


@pytest.mark.parametrize(
    ("other", "woken"),
    [
        (child("a", api_version="example.com/v1"), True),  # the version does not matter
        (child("a", api_version="other.com/v2"), False),
        (child("a", api_version="v1"), False),
        (child("a", kind="Other"), False),
        (child("a", controller=False), False),
    ],
)
def test_only_a_controller_of_the_kind_is_woken(other: ConfigMap, *, woken: bool) -> None:
    assert bool(owner_key(OWNERS)(change(None, other))) is woken


def test_an_owner_of_a_core_kind_has_no_group() -> None:
    mapper = owner_key(CONFIG_MAPS)
    assert mapper(change(None, child("a", kind="ConfigMap", api_version="v1"))) == (Key("ns", "a"),)
    assert mapper(change(None, child("a", kind="ConfigMap", api_version="example.com/v1"))) == ()


def test_what_a_list_repeats_waits_behind_what_happened() -> None:
    assert usual_priority(change(None, child(), initial=True)) is Priority.REPLAY
    assert usual_priority(change(None, child())) is Priority.CHANGE
