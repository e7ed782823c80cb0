"""``$(NAME)`` in a container's environment expands as Kubernetes documents it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magos.api.kube import PodManifest, PodSpec
from magos.api.meta import ObjectMeta
from magos.local.node.sources import PodConfigError, expand, pod_field


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)/bin", "x/bin"),
        ("$$(A)", "$(A)"),
        ("$(MISSING)", "$(MISSING)"),
        ("$(A", "$(A"),
        ("$$$(A)", "$x"),
        ("cost: 5$", "cost: 5$"),
        ("$(A)$(B)", "xy"),
    ],
)
def test_references_expand_as_documented(text: str, expected: str) -> None:
    assert expand(text, {"A": "x", "B": "y"}) == expected


@given(st.text().filter(lambda text: "$" not in text))
def test_text_without_a_dollar_is_left_alone(text: str) -> None:
    assert expand(text, {"A": "x"}) == text


@given(st.text(alphabet="$()AB", max_size=12))
def test_an_expanded_value_is_not_expanded_again(text: str) -> None:
    """What a variable holds is data: a reference inside it stays as it is."""
    once = expand(text, {"A": "$(B)", "B": "!"})
    assert once.count("!") == expand(text, {"B": "!"}).count("!")


def test_an_unknown_field_reference_names_the_field() -> None:
    pod = PodManifest(metadata=ObjectMeta(name="p"), spec=PodSpec(containers=()))
    with pytest.raises(PodConfigError, match=r"spec\.priority"):
        pod_field(pod, "spec.priority")
