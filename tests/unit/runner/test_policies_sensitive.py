"""What a plan marks as sensitive is found wherever it stands, and nothing else is."""

import contextlib

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from magos.runner.sensitive import sensitive_values

leaves = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=12)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


def texts(value: object) -> set[str]:
    if isinstance(value, dict):
        return set().union(*map(texts, value.values()))
    if isinstance(value, list):
        return set().union(*map(texts, value))
    return {value} if isinstance(value, str) else set()


def found(document: object) -> frozenset[str]:
    return sensitive_values(msgspec.json.encode(document))


@given(values)
def test_everything_below_a_true_marker_is_found(value: object) -> None:
    change = {"before": None, "after": value, "before_sensitive": False, "after_sensitive": True}
    assert texts(value) <= found({"resource_changes": [{"change": change}]})


@given(values)
def test_nothing_is_found_where_nothing_is_marked(value: object) -> None:
    change = {"before": value, "after": value, "before_sensitive": {}, "after_sensitive": False}
    assert not found({"resource_changes": [{"change": change}]}) - found(value)


@given(values, st.binary(max_size=60))
def test_markers_of_another_shape_do_no_harm(value: object, junk: bytes) -> None:
    found({"after": value, "after_sensitive": [{"x": True}], "values": 1, "sensitive_values": {"a": value}})
    with contextlib.suppress(ValueError):
        sensitive_values(junk)


def test_each_place_of_a_plan_is_looked_at() -> None:
    plan = {
        "variables": {"token": {"value": {"key": "variable-secret"}}, "open": {"value": "open-variable"}},
        "configuration": {
            "root_module": {"variables": {"token": {"sensitive": True, "default": "default-secret"}, "open": {}}}
        },
        "planned_values": {
            "outputs": {"o": {"sensitive": True, "value": "output-secret"}, "p": {"sensitive": False, "value": "open"}},
            "root_module": {
                "child_modules": [
                    {
                        "resources": [
                            {
                                "values": {"list": ["open", "list-secret"], "number": 12345, "flag": True},
                                "sensitive_values": {"list": [False, True], "number": True, "flag": True},
                            }
                        ]
                    }
                ]
            },
        },
        "prior_state": {"values": {"outputs": {"o": {"sensitive": True, "value": "prior-secret"}}}},
        "resource_drift": [{"change": {"before": {"a": "drift-secret", "b": "open"}, "before_sensitive": {"a": True}}}],
        "output_changes": {"o": {"after": "change-secret", "after_sensitive": True}},
    }
    assert found(plan) == {
        "variable-secret",
        "default-secret",
        "output-secret",
        "list-secret",
        "12345",
        "prior-secret",
        "drift-secret",
        "change-secret",
    }


def test_values_nested_deeply_are_found() -> None:
    deep: object = "deep-secret"
    for _ in range(300):
        deep = [deep]
    assert found({"after": deep, "after_sensitive": True}) == {"deep-secret"}
