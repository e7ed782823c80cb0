"""Each limit of ``magos.bounds`` has a test of its name, and no name occurs twice."""

import re
from pathlib import Path

import pytest

from magos.bounds import ALL, Bound

_NAMES = [
    name
    for path in Path(__file__).parents[1].rglob("test_*.py")
    for name in re.findall(r"^(?:async )?def test_bound_(\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE)
]


@pytest.mark.parametrize("bound", ALL, ids=[bound.name for bound in ALL])
def test_every_limit_has_exactly_one_test_of_its_name(bound: Bound) -> None:
    assert _NAMES.count(bound.name) == 1


def test_every_test_of_a_limit_has_its_limit() -> None:
    assert set(_NAMES) == {bound.name for bound in ALL}
    assert len({bound.name for bound in ALL}) == len(ALL)
