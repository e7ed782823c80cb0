"""The specification itself: it is complete, and says of everything whether it is there and what proves it."""

import re
from pathlib import Path

import pytest

_BEHAVIOUR = Path(__file__).parents[3] / "docs" / "behaviour"
_NOT_BUILT = "> **Not built yet.**"


def parts(page: str, heading: str) -> dict[str, str]:
    """The texts below the headings that begin with ``heading``, by the first word of the title."""
    text = (_BEHAVIOUR / page).read_text("utf-8")
    pieces = re.split(rf"^{heading} (?=\S+ )", text, flags=re.MULTILINE)[1:]
    return {piece.split()[0]: re.split(r"^#", piece, maxsplit=1, flags=re.MULTILINE)[0] for piece in pieces}


def test_all_invariants_are_there_once_and_in_order() -> None:
    assert list(parts("invariants.md", "###")) == ["I" + str(number) for number in range(1, 30)]


@pytest.mark.parametrize(("name", "text"), parts("invariants.md", "###").items())
def test_an_invariant_names_its_proof_or_says_that_it_is_not_built(name: str, text: str) -> None:
    assert "`tests/" in text or _NOT_BUILT in text, name


@pytest.mark.parametrize(("name", "text"), parts("field-cases.md", "###").items())
def test_a_field_case_names_its_tests_or_says_what_is_missing(name: str, text: str) -> None:
    assert "- Seen: " in text
    assert "- Right: " in text
    assert "`tests/" in text or "Not covered yet." in text or "Not built yet." in text, name


def test_every_page_says_what_it_covers_and_is_in_the_index() -> None:
    index = (_BEHAVIOUR / "README.md").read_text("utf-8")
    for page in sorted(_BEHAVIOUR.glob("*.md")):
        if page.name != "README.md":
            assert f"({page.name})" in index
            first = page.read_text("utf-8").split("\n\n")[1]
            assert first.startswith(("This page covers", "Each case is")), page.name


def test_what_is_not_built_is_marked_in_one_way() -> None:
    for page in sorted(_BEHAVIOUR.glob("*.md")):
        for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
            if line.startswith(">"):
                continue
            assert "**Not built" not in line or page.name == "README.md", f"{page.name}:{number}"
