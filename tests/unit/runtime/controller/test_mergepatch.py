"""Claims of magos/runtime/controller/mergepatch.py."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct, field

from magos.runtime.controller.mergepatch import merge_patch


class Inner(Struct, frozen=True, omit_defaults=True, rename="camel"):
    run_id: str = ""
    note: str | None = None


class Status(Struct, frozen=True, omit_defaults=True, rename="camel"):
    phase: str = ""
    current_run: Inner | None = None
    steps: tuple[int, ...] = ()
    labels: dict[str, str] = field(default_factory=dict)


def apply(target: Any, patch: Any) -> Any:
    """RFC 7386, section 2, to the letter."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = apply(result.get(key), value)
    return result


_leaves = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "b"])
_values = st.recursive(
    _leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3)
)
_objects = st.dictionaries(st.sampled_from("pqrs"), _values, max_size=4)


def _pruned(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _pruned(item) for key, item in value.items() if item is not None}
    return value


@given(_objects, _objects)
def test_patch_applied_to_observed_gives_desired(observed: dict[str, Any], desired: dict[str, Any]) -> None:
    patch = merge_patch(observed, desired)
    assert apply(_pruned(observed), patch or {}) == _pruned(desired)


@given(_objects, _objects)
def test_patch_is_none_exactly_when_nothing_differs(observed: dict[str, Any], desired: dict[str, Any]) -> None:
    assert (merge_patch(observed, desired) is None) == (_pruned(observed) == _pruned(desired))


@given(_objects, _objects, st.dictionaries(st.sampled_from("uvw"), _leaves, max_size=2))
def test_fields_of_others_survive(observed: dict[str, Any], desired: dict[str, Any], foreign: dict[str, Any]) -> None:
    kept = _pruned(foreign)
    after = apply({**_pruned(observed), **kept}, merge_patch(observed, desired) or {})
    assert {key: after.get(key) for key in kept} == kept


def test_only_differing_fields_are_named_and_removed_ones_are_null() -> None:
    observed = Status(phase="Planning", current_run=Inner(run_id="r1", note="n"), steps=(1, 2))
    desired = Status(phase="Applied", current_run=Inner(run_id="r1"), steps=(1, 2))
    assert merge_patch(observed, desired) == {"phase": "Applied", "currentRun": {"note": None}}


def test_object_without_status_gets_the_whole_one() -> None:
    assert merge_patch(None, Status(phase="Pending")) == {"phase": "Pending"}
    assert merge_patch(Status(), Status(phase="Pending", steps=(1,))) == {"phase": "Pending", "steps": [1]}
    assert merge_patch(None, Status()) is None
