"""The version of Go that builds the programs."""

from hypothesis import given
from hypothesis import strategies as st

from magos.local.programs.golang import parse_go_version


@given(st.lists(st.integers(0, 999), min_size=1, max_size=3), st.sampled_from(["linux/amd64", "linux/arm64"]))
def test_the_version_of_go_is_read_from_its_own_words(numbers: list[int], machine: str) -> None:
    text = f"go version go{'.'.join(map(str, numbers))} {machine}\n"
    assert parse_go_version(text) == tuple(numbers)


def test_a_go_without_a_number_has_no_version() -> None:
    assert parse_go_version("go version devel +abc linux/amd64") is None
