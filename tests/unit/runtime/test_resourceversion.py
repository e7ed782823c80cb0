"""Claims of magos/runtime/resourceversion.py."""

from hypothesis import given
from hypothesis import strategies as st

from magos.runtime.resourceversion import is_older


@given(st.integers(1, 2**64), st.integers(1, 2**64))
def test_versions_are_ordered_as_numbers(left: int, right: int) -> None:
    assert is_older(str(left), str(right)) == (left < right)


@given(st.text(max_size=6), st.text(max_size=6))
def test_order_is_antisymmetric_for_any_text(left: str, right: str) -> None:
    assert not (is_older(left, right) and is_older(right, left))


def test_opaque_versions_never_make_anyone_wait() -> None:
    assert not is_older("abc", "5")
    assert not is_older("5", "05")
    assert not is_older("0", "5")


def test_nothing_seen_is_older_than_anything() -> None:
    assert is_older("", "1")
    assert not is_older("1", "")
    assert not is_older("", "")
