"""The list of mutations fits the code: each guard stands exactly once, and the tests that should notice it exist."""

from pathlib import Path

import pytest

from tests.sim.mutations import MUTATIONS, Mutation

_ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.name)
def test_the_guard_of_a_mutation_stands_exactly_once(mutation: Mutation) -> None:
    where = _ROOT / mutation.where
    files = where.rglob("*.py") if where.is_dir() else (where,)
    assert sum(file.read_text("utf-8").count(mutation.old) for file in files) == 1
    assert mutation.new != mutation.old


def test_no_two_mutations_share_a_name() -> None:
    assert len({each.name for each in MUTATIONS}) == len(MUTATIONS)


@pytest.mark.parametrize("test", sorted({test for each in MUTATIONS for test in each.tests}))
def test_the_tests_that_should_notice_exist(test: str) -> None:
    file, _, name = test.partition("::")
    assert (_ROOT / file).is_file() or (_ROOT / file).is_dir()
    if name:
        assert f"def {name.partition('[')[0]}(" in (_ROOT / file).read_text("utf-8")
