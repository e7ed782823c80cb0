"""The drawing beside a log marks its errors, however many there are."""

from hypothesis import given
from hypothesis import strategies as st

from magos.ui.minimap import MARKS, ErrorLines, minimap
from tests.pages.htmlshape import shape_of


def _marks(numbers: "list[int] | range", total: int) -> tuple[int, ...]:
    errors = ErrorLines()
    for number in numbers:
        errors.add(number)
    return errors.marks(total)


def test_every_error_of_a_log_with_few_has_a_mark_that_leads_to_it() -> None:
    marks = _marks([3, 500, 990], 1000)
    assert marks == (3, 500, 990)
    shape = shape_of(f"<div>{minimap(marks, (1, 400), 1000, lambda line: f'/deep/log#L{line}')}</div>")
    links = [each.attributes for each in shape.elements if each.tag == "a"]
    assert [(each["href"], each["aria-label"]) for each in links] == [
        (f"/deep/log#L{line}", f"Error in line {line}") for line in marks
    ]


def test_a_log_without_errors_has_no_drawing() -> None:
    assert minimap((), (1, 1), 1, str) == ""


def test_a_log_of_errors_alone_is_marked_from_its_first_to_its_last_part() -> None:
    marks = _marks(range(1, 1_000_001), 1_000_000)
    assert marks[0] == 1
    assert marks[-1] > 980_000
    assert len(marks) == MARKS


@given(st.sets(st.integers(1, 100_000), max_size=600))
def test_marks_are_errors_and_no_more_than_fit(numbers: set[int]) -> None:
    marks = _marks(sorted(numbers), 100_000)
    assert set(marks) <= numbers
    assert len(marks) <= MARKS
    assert bool(marks) == bool(numbers)
