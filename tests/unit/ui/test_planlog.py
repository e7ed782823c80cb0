"""The changes of a plan are read out of what OpenTofu prints, whatever else stands in the log."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magos.api.workspace import PlanSummary
from magos.ui import plan
from magos.ui.planlog import LONGEST, MOST_ADDRESSES, MOST_LINES, MOST_TEXT, Action, PlanLog, Reader
from tests.pages import states

COUNTS = PlanSummary(add=1, change=2, destroy=3, no_changes=False)


def _read(log: bytes, size: int = 1000) -> PlanLog:
    reader = Reader("[cut]")
    for start in range(0, len(log), size):
        reader.feed(log[start : start + size])
    return reader.finish()


def _of(output: str) -> PlanLog:
    return _read(states.plan_log(output))


def _blocks(*lines: str) -> PlanLog:
    return _of("\n".join(lines))


def _listed(read: PlanLog) -> list[tuple[str, str]]:
    return [(str(each.action), each.address) for each in read.changes]


MIXED = [
    ("import", "terraform_data.adopted"),
    ("replace", "terraform_data.again"),
    ("update", "terraform_data.changed"),
    ("forget", "terraform_data.dropped"),
    ("destroy", 'terraform_data.each["c\\"d"]'),
    ("destroy", "terraform_data.gone"),
    ("update", "terraform_data.hidden"),
    ("move", "terraform_data.named to terraform_data.renamed"),
    ("output", "left"),
    ("output", "read"),
    ("output", "shown"),
]


@pytest.mark.parametrize("name", ["mixed", "colour"])
@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_every_kind_of_change_is_read_with_its_address_with_and_without_colours(name: str, size: int) -> None:
    assert _listed(_read(states.plan_log(states.PLANS[name]), size)) == MIXED


def test_plans_that_create_and_destroy_everything_are_read() -> None:
    created, destroyed = _of(states.PLANS["create"]), _of(states.PLANS["destroy"])
    assert created.found == {Action.CREATE: 8, Action.OUTPUT: 2}
    assert destroyed.found == {Action.DESTROY: 8, Action.OUTPUT: 2}
    assert ("create", 'terraform_data.each["a b"]') in _listed(created)


def test_a_block_holds_the_lines_of_its_address_and_no_others() -> None:
    found = {each.address: each for each in _of(states.PLANS["mixed"]).changes}
    forgotten = found["terraform_data.dropped"].lines
    assert (forgotten[0], forgotten[-1]) == ('  . resource "terraform_data" "dropped" {', "}")
    replaced = found["terraform_data.again"].lines
    assert replaced[0] == '-/+ resource "terraform_data" "again" {'
    assert '          + "two",' in replaced
    assert found["terraform_data.named to terraform_data.renamed"].lines[-1] == "    }"
    assert found["shown"].lines == ('  ~ shown = "first" -> "second"',)
    assert "(known after apply)" in found["read"].lines[0]
    assert not any("Refreshing" in line or line.startswith("Plan:") for each in found.values() for line in each.lines)


def test_the_text_of_an_attribute_is_no_header_and_does_not_end_its_block() -> None:
    (changed,) = (each for each in _of(states.PLANS["mixed"]).changes if each.address == "terraform_data.changed")
    assert "          +   # terraform_data.fake will be destroyed" in changed.lines
    assert changed.lines[-1] == "    }"


@pytest.mark.parametrize(
    ("header", "action", "address"),
    [
        ("a.b is tainted, so must be replaced", "replace", "a.b"),
        ("a.b is tainted, so it must be replaced", "replace", "a.b"),
        ("a.b will be replaced, as requested", "replace", "a.b"),
        ("a.b will be replaced due to changes in replace_triggered_by", "replace", "a.b"),
        ("a.b (deposed object 12ab) will be destroyed", "destroy", "a.b (deposed object 12ab)"),
        ("a.b will no longer be managed by Terraform, but will not be destroyed", "forget", "a.b"),
        ('a.b["c will be created"] will be destroyed', "destroy", 'a.b["c will be created"]'),
        ('a.b["c must be replaced"] will be created', "create", 'a.b["c must be replaced"]'),
        ('a.b["x"] has moved to a.c["y"]', "move", 'a.b["x"] to a.c["y"]'),
        ("module.m[0].a.b will be updated in-place", "update", "module.m[0].a.b"),
    ],
)
def test_the_words_at_the_end_of_a_header_tell_the_action(header: str, action: str, address: str) -> None:
    assert _listed(_blocks(f"  # {header}", '  + resource "a" "b" {', "    }")) == [(action, address)]


@pytest.mark.parametrize("header", ["will be read during apply", "has changed", "has been deleted"])
def test_what_is_only_read_or_has_changed_before_is_no_change_of_the_plan(header: str) -> None:
    read = _blocks("  # a.b will be created", "  + one", f"  # a.c {header}", "  two", "  # (config unknown)")
    assert [each.lines for each in read.changes] == [("  + one",)]


def test_only_the_stage_of_the_tool_is_read() -> None:
    log = b"=== fetch ===\n  # a.b will be destroyed\n=== terraform ===\n=== job ===\n  # a.c will be destroyed\n"
    assert _read(log).found == {}


def test_more_than_is_kept_is_counted() -> None:
    many = [line for index in range(MOST_ADDRESSES + 7) for line in (f"  # a.b[{index}] will be created", "  + x")]
    read = _blocks(*many)
    assert (len(read.changes), read.found[Action.CREATE]) == (MOST_ADDRESSES, MOST_ADDRESSES + 7)
    assert plan.view(read, None).left_out == 7
    (long,) = _blocks("  # a.b will be created", *(["      + x"] * (MOST_LINES + 5))).changes
    assert (len(long.lines), long.left_out) == (MOST_LINES, 5)


_WORDS = st.sampled_from(
    ["  # ", "a.b", " will be destroyed", " has moved to ", " must be replaced", "Changes to Outputs:", "  + o = ",
     "=== terraform ===", "=== job ===", "Plan: ", "\n", "\x1b[1m", "\x1b[", "\r", "}", "<script>", "\u202e", "x" * 600]
)  # fmt: skip


@given(st.lists(st.one_of(_WORDS, _WORDS, st.text(max_size=20))), st.integers(1, 50))
def test_every_log_gives_a_bounded_answer_that_does_not_depend_on_its_chunks(parts: list[str], size: int) -> None:
    log = ("=== terraform ===\n" + "".join(parts)).encode(errors="replace")
    read = _read(log, size)
    assert read == _read(log, len(log))
    assert len(read.changes) <= MOST_ADDRESSES
    for each in read.changes:
        assert len(each.lines) <= MOST_LINES
        assert all(len(line) <= LONGEST for line in (each.address, *each.lines))
    assert Counter(each.action for each in read.changes) == read.found
    for group in plan.view(read, COUNTS).groups:
        for entry in group.entries:
            assert "<script" not in entry.address + "".join(line.html for line in entry.lines)


def test_the_text_of_all_lines_is_bounded() -> None:
    lines = [line for index in range(20) for line in (f"  # a.b[{index}] will be created", *(["y" * 400] * 199))]
    read = _read(b"=== terraform ===\n" + "\n".join(lines).replace("\ny", "\n  y").encode())
    assert sum(len(line) for each in read.changes for line in each.lines) <= MOST_TEXT
    assert sum(len(each.lines) + each.left_out for each in read.changes) == 20 * 199


def test_destroys_come_first_and_open_and_the_others_closed() -> None:
    groups = plan.view(_of(states.PLANS["mixed"]), COUNTS).groups
    assert [str(group.action) for group in groups] == [str(action) for action in Action if action != "create"]
    assert [entry.open for entry in groups[0].entries] == [True, True]
    assert not any(entry.open for group in groups[1:] for entry in group.entries)


def test_counts_that_agree_with_the_log_are_not_commented_and_others_are() -> None:
    assert plan.view(_of(states.PLANS["mixed"]), COUNTS).differs == ""
    forged = states.PLANS["mixed"].replace("Plan: 1 to import", "  # a.fake will be destroyed\n\nPlan: 1 to import")
    said = plan.view(_of(forged), COUNTS).differs
    assert "4 to destroy, 2 to change and 1 to add, and the plan itself of 3, 2 and 1" in said
    assert "Trust the plan itself" in said


def test_a_log_without_changes_says_why_unless_the_plan_has_none() -> None:
    nothing = PlanSummary(add=0, change=0, destroy=0, no_changes=True)
    assert plan.view(_of("No changes."), nothing) == plan.PlanView()
    assert "no changes by address" in plan.view(_of("something else"), COUNTS).problem
    cut = _read(states.plan_log(states.PLANS["mixed"]) + b"[cut]\n")
    assert "is cut" in plan.view(cut, COUNTS).problem
    assert plan.view(cut, COUNTS).groups == ()
    assert plan.view("The pod is gone.", COUNTS).problem == "The pod is gone."
