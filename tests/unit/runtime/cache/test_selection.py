"""Claims of magos/runtime/cache/selection.py: it selects what the vocabulary's own selectors select."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magos.api.selectors import LabelSelector, LabelSelectorRequirement, compile_selector
from magos.runtime.cache.selection import Selection

KEYS = st.sampled_from(["a", "team", "example.com/env"])
VALUES = st.sampled_from(["", "x", "prod", "in", "a-1"])
LABELS = st.dictionaries(KEYS, VALUES)
REQUIREMENTS = st.one_of(
    st.builds(
        LabelSelectorRequirement,
        key=KEYS,
        operator=st.sampled_from(["In", "NotIn"]),
        values=st.lists(VALUES, min_size=1, max_size=3, unique=True).map(tuple),
    ),
    st.builds(LabelSelectorRequirement, key=KEYS, operator=st.sampled_from(["Exists", "DoesNotExist"])),
)
SELECTORS = st.builds(
    LabelSelector, match_labels=LABELS, match_expressions=st.lists(REQUIREMENTS, max_size=3).map(tuple)
)


@given(SELECTORS, LABELS)
def test_the_text_of_a_selector_selects_what_the_selector_does(selector: LabelSelector, labels: dict[str, str]) -> None:
    compiled = compile_selector(selector)
    assert Selection(str(compiled)).selects(labels) is compiled.matches(labels)


@pytest.mark.parametrize(
    ("text", "labels", "selected"),
    [
        ("", {}, True),
        ("a==x", {"a": "x"}, True),
        ("a == x , !b", {"a": "x"}, True),
        ("a!=x", {}, True),
        ("a!=x", {"a": "x"}, False),
        ("a in (x, y),b", {"a": "y"}, False),
        ("a notin(x)", {"a": "x"}, False),
    ],
)
def test_other_ways_of_writing_mean_the_same(text: str, labels: dict[str, str], selected: bool) -> None:
    assert Selection(text).selects(labels) is selected


@given(st.text(max_size=20), LABELS)
def test_what_is_not_understood_excludes_nobody_by_an_error(text: str, labels: dict[str, str]) -> None:
    assert Selection(text).selects(labels) in (True, False)
