"""Claims of magos/runtime/client/jsonspans.py, held against the standard library's decoder."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magos.runtime.client.jsonspans import elements, members

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(['"', "\\", '{"', "]}", "[,:"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=25,
)
STYLES = st.sampled_from([(",", ":"), (", ", ": "), (" ,\n\t", " :\r\n")])


def written(value: Any, style: tuple[str, str], *, ascii_only: bool) -> bytes:
    return json.dumps(value, separators=style, ensure_ascii=ascii_only).encode()


@given(value=st.dictionaries(st.text(max_size=5), VALUES, max_size=6), style=STYLES, ascii_only=st.booleans())
def test_members_are_the_values_of_an_object(value: dict[str, Any], style: tuple[str, str], ascii_only: bool) -> None:
    text = written(value, style, ascii_only=ascii_only)
    assert {json.loads(key): json.loads(text[start:end]) for key, start, end in members(text)} == value


@given(value=st.lists(VALUES, max_size=6), style=STYLES)
def test_elements_are_the_values_of_an_array(value: list[Any], style: tuple[str, str]) -> None:
    text = written(value, style, ascii_only=False)
    assert [json.loads(text[start:end]) for start, end in elements(text)] == value


@given(value=st.dictionaries(st.text(max_size=5), VALUES, max_size=4), inside=st.lists(VALUES, max_size=4))
def test_an_inner_value_is_taken_apart_in_place(value: dict[str, Any], inside: list[Any]) -> None:
    text = json.dumps({**value, "inside": inside}).encode()
    (at,) = [start for key, start, _ in members(text) if key == b'"inside"']
    assert [json.loads(text[start:end]) for start, end in elements(text, at)] == inside


@given(value=st.lists(VALUES, min_size=1, max_size=4) | st.dictionaries(st.text(), VALUES, min_size=1), data=st.data())
def test_what_is_cut_or_goes_on_is_an_error_and_never_a_shorter_text(value: Any, data: st.DataObject) -> None:
    text = json.dumps(value).encode()
    parts = elements if isinstance(value, list) else members
    with pytest.raises(ValueError, match=r"at byte|inside a value"):
        list(parts(text[: data.draw(st.integers(0, len(text) - 1))]))
    with pytest.raises(ValueError, match="goes on behind its end"):
        list(parts(text + data.draw(st.sampled_from([b"x", b"]", b"}", b"{}"]))))


@given(st.binary(max_size=60))
def test_any_other_bytes_are_a_value_error(text: bytes) -> None:
    for parts in (elements, members):
        try:
            list(parts(text))
        except ValueError:
            continue


@pytest.mark.parametrize("depth", [10, 1_500, 100_000])
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"f:a":', b"}")])
def test_depth_is_no_trouble(depth: int, opening: bytes, closing: bytes) -> None:
    deep = opening * depth + b"1" + closing * depth
    text = b'{"deep":' + deep + b',"name":"x"}'
    assert [(key, text[start:end]) for key, start, end in members(text)] == [(b'"deep"', deep), (b'"name"', b'"x"')]
