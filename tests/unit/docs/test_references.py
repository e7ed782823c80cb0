"""References to the specification, and its own to tests: whatever dangles is found, and told by file and line."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.references import BEHAVIOUR, Problem, problems, read_tree

_ROOT = Path(__file__).parents[3]
# Written so that this file itself refers to nothing.
_SIGN, _I, _F = "\u00a7", "I", "F"
_PAGE = f"{BEHAVIOUR}rules.md"
_MUTATIONS = "tests/sim/mutations.py"
GOOD = {
    _PAGE: "\n".join(
        (
            "# Rules",
            "## 6 Controllers",
            "#### 6.2.4 Triggers",
            f"See {_SIGN}6 and [the triggers](#624-triggers).",
            f"### {_I}5 No apply",
            "- `tests/unit/test_gate.py::test_it_opens`, [all](../../tests/unit/test_gate.py), mutation `gate: open`",
            f"### {_F}13 Locks",
        )
    ),
    "magos/gate.py": f'"""The gate (spec {_SIGN}6.2.4, check 3; {_SIGN}6; invariant {_I}5, field case {_F}13)."""',
    "magos/keys.py": f'"""A key (RFC 4253 {_SIGN}6.6)."""',
    "tests/unit/test_gate.py": "def test_it_opens() -> None:\n    pass\n",
    _MUTATIONS: 'MUTATIONS = (Mutation("gate: open", "magos", "a", "b"),)\n',
    "docs/faq.md": "[rules](behaviour/rules.md), [a folder](design), [elsewhere](https://example.org/a#b)\n",
}


def found(changes: Mapping[str, str]) -> list[str]:
    """What is wrong after these files were changed or added."""
    return [str(problem) for problem in problems({**GOOD, **changes}, {"docs/design"}.__contains__)]


def test_references_that_lead_somewhere_are_no_problem() -> None:
    assert found({}) == []


@pytest.mark.parametrize(
    ("path", "text", "told"),
    [
        ("magos/a.py", f"# spec {_SIGN}6.2.5", f"magos/a.py:1: {BEHAVIOUR} has no section 6.2.5"),
        ("magos/a.py", f"\n# spec {_SIGN}6, then {_SIGN}7", f"magos/a.py:2: {BEHAVIOUR} has no section 7"),
        ("magos/a.py", f"# as {_SIGN}6 says", f"magos/a.py:1: write 'spec {_SIGN}6', or name the document it is of"),
        ("magos/a.py", f"# invariant {_I}6", f"magos/a.py:1: {BEHAVIOUR} has no {_I}6"),
        ("magos/a.py", f"# ({_F}14)", f"magos/a.py:1: {BEHAVIOUR} has no {_F}14"),
        ("deploy/a.yaml", f"# spec {_SIGN}8", f"deploy/a.yaml:1: {BEHAVIOUR} has no section 8"),
        ("docs/a.md", f"specification, {_SIGN}8", f"docs/a.md:1: {BEHAVIOUR} has no section 8"),
        ("docs/a.md", "[b](b.md)", "docs/a.md:1: the link b.md leads to no file"),
        (
            "docs/a.md",
            "[b](behaviour/rules.md#there)",
            f"docs/a.md:1: the link behaviour/rules.md#there leads to no heading of {_PAGE}",
        ),
        (f"{BEHAVIOUR}b.md", f"{_SIGN}9", f"{BEHAVIOUR}b.md:1: {BEHAVIOUR} has no section 9"),
        (f"{BEHAVIOUR}b.md", "## 6 Again", f"{BEHAVIOUR}b.md:1: 6 is explained in {_PAGE} already"),
        (f"{BEHAVIOUR}b.md", "`tests/unit/test_b.py`", f"{BEHAVIOUR}b.md:1: there is no tests/unit/test_b.py"),
        (
            f"{BEHAVIOUR}b.md",
            "`tests/unit/test_gate.py::test_it_shuts`",
            f"{BEHAVIOUR}b.md:1: tests/unit/test_gate.py has no test test_it_shuts",
        ),
        (
            f"{BEHAVIOUR}b.md",
            "mutation `gate: shut`",
            f"{BEHAVIOUR}b.md:1: {_MUTATIONS} has no mutation 'gate: shut'",
        ),
    ],
)
def test_a_reference_that_leads_nowhere_is_reported(path: str, text: str, told: str) -> None:
    assert found({path: text}) == [told]


def test_every_reference_to_a_removed_section_is_reported() -> None:
    page = GOOD[_PAGE].replace("#### 6.2.4 Triggers", "#### Triggers")
    told = found({_PAGE: page})
    assert f"magos/gate.py:1: {BEHAVIOUR} has no section 6.2.4" in told
    assert f"{_PAGE}:4: the link #624-triggers leads to no heading of {_PAGE}" in told


def test_nothing_dangles_in_this_repository() -> None:
    files = read_tree(_ROOT)
    assert len([path for path in files if path.startswith(BEHAVIOUR)]) > 10, "the specification was not read"
    assert problems(files, lambda path: (_ROOT / path).exists()) == []


def test_problems_are_reported_by_file_and_line() -> None:
    assert str(Problem("magos/a.py", 3, "what is wrong")) == "magos/a.py:3: what is wrong"
