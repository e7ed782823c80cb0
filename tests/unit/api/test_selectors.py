"""Label selectors: meaning, refusal and text form."""

import re
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magos.api.labels import is_label_key, is_label_value
from magos.api.selectors import LabelSelector, LabelSelectorRequirement, compile_selector

_KEYS = st.sampled_from(["a", "b", "stage", "example.com/team", "magosproject.io/workspace"])
_VALUES = st.sampled_from(["", "x", "y", "dev", "prod", "a_b.c-D"])
_LABELS = st.dictionaries(_KEYS, _VALUES)
_WITH_VALUES = st.builds(
    LabelSelectorRequirement,
    key=_KEYS,
    operator=st.sampled_from(["In", "NotIn"]),
    values=st.lists(_VALUES, min_size=1, max_size=4).map(tuple),
)
_WITHOUT_VALUES = st.builds(
    LabelSelectorRequirement, key=_KEYS, operator=st.sampled_from(["Exists", "DoesNotExist"]), values=st.just(())
)
_SELECTORS = st.builds(
    LabelSelector,
    match_labels=_LABELS,
    match_expressions=st.lists(_WITH_VALUES | _WITHOUT_VALUES, max_size=4).map(tuple),
)


def _reference(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """The meaning of a selector as the Kubernetes documentation words it."""
    for key, value in selector.match_labels.items():
        if labels.get(key) != value:
            return False
    for expression in selector.match_expressions:
        has = expression.key in labels
        listed = has and labels[expression.key] in expression.values
        meaning = {"In": listed, "NotIn": not listed, "Exists": has, "DoesNotExist": not has}
        if not meaning[expression.operator]:
            return False
    return True


@given(selector=_SELECTORS, labels=_LABELS)
def test_a_selector_means_what_kubernetes_says(selector: LabelSelector, labels: Mapping[str, str]) -> None:
    assert compile_selector(selector).matches(labels) == _reference(selector, labels)


@given(selector=_SELECTORS, data=st.data())
def test_the_text_does_not_depend_on_the_order_of_writing(selector: LabelSelector, data: st.DataObject) -> None:
    shuffled = LabelSelector(
        match_labels=dict(data.draw(st.permutations(list(selector.match_labels.items())))),
        match_expressions=tuple(data.draw(st.permutations(list(selector.match_expressions)))),
    )
    assert str(compile_selector(shuffled)) == str(compile_selector(selector))


@given(selector=_SELECTORS)
def test_requirements_are_sorted_by_key(selector: LabelSelector) -> None:
    keys = [requirement.key for requirement in compile_selector(selector).requirements]
    assert keys == sorted(keys)


@given(labels=_LABELS)
def test_the_empty_selector_selects_everything(labels: Mapping[str, str]) -> None:
    everything = compile_selector(LabelSelector())
    assert everything.everything
    assert everything.matches(labels)
    assert str(everything) == ""


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        (LabelSelector(match_labels={"b": "2", "a": "1"}), "a=1,b=2"),
        (LabelSelector(match_labels={"a": ""}), "a="),
        (LabelSelector(match_expressions=(LabelSelectorRequirement(key="k", operator="Exists"),)), "k"),
        (LabelSelector(match_expressions=(LabelSelectorRequirement(key="k", operator="DoesNotExist"),)), "!k"),
        (
            LabelSelector(
                match_expressions=(LabelSelectorRequirement(key="k", operator="In", values=("b", "a", "b")),)
            ),
            "k in (a,b)",
        ),
        (
            LabelSelector(match_expressions=(LabelSelectorRequirement(key="k", operator="NotIn", values=("a",)),)),
            "k notin (a)",
        ),
        (
            LabelSelector(
                match_labels={"z": "1"}, match_expressions=(LabelSelectorRequirement(key="k", operator="Exists"),)
            ),
            "k,z=1",
        ),
    ],
)
def test_the_text_has_the_grammar_of_kubernetes(selector: LabelSelector, text: str) -> None:
    assert str(compile_selector(selector)) == text


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        (LabelSelector(match_labels={"a b": "x"}), "invalid label key or value: 'a b' is not a label key"),
        (LabelSelector(match_labels={"a": "x y"}), "'x y' is not a value of label 'a'"),
        *(
            (
                LabelSelector(match_expressions=(LabelSelectorRequirement(key="k", operator=operator, values=values),)),
                message,
            )
            for operator, values, message in (
                ("In", (), "In requires at least one value"),
                ("NotIn", (), "NotIn requires at least one value"),
                ("Exists", ("x",), "Exists must not have values"),
                ("DoesNotExist", ("x",), "DoesNotExist must not have values"),
                ("in", ("x",), "must be In, NotIn, Exists or DoesNotExist"),
                ("=", ("x",), "must be In, NotIn, Exists or DoesNotExist"),
                ("In", ("-x",), "'-x' is not a value of label 'k'"),
            )
        ),
    ],
)
def test_nonsense_is_named(selector: LabelSelector, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        compile_selector(selector)


@given(text=st.text(max_size=80))
def test_label_syntax_is_decided_for_any_text(text: str) -> None:
    if is_label_value(text):
        assert len(text) <= 63
        assert text.isascii()
    if is_label_key(text):
        assert is_label_value(text.rpartition("/")[2])


@pytest.mark.parametrize("key", ["a", "A.b_c-1", "example.com/a", "p." * 126 + "p/a", "k" * 63])
def test_label_keys(key: str) -> None:
    assert is_label_key(key)


@pytest.mark.parametrize(
    "key", ["", "-a", "a-", "/a", "a/", "a/b/c", "Example.com/a", "p" * 254 + "/a", "k" * 64, "a\n", "ä", "..a/b"]
)
def test_not_label_keys(key: str) -> None:
    assert not is_label_key(key)
