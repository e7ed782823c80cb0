"""Which variables a file of the repository sets, and which of several files wins."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magos.runner.varfiles import overriding, read_by_itself, variables_set

NAMES = st.from_regex(r"[a-z][a-z0-9_-]{0,8}", fullmatch=True)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


def expression(value: object) -> str:
    """A value as a literal of the tools."""
    if isinstance(value, dict):
        return "{\n" + "".join(f"  {name} = {expression(inner)}\n" for name, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(expression, value)) + "]"
    return json.dumps(value).replace("${", "$${").replace("%{", "%%{")


@given(st.dictionaries(NAMES, VALUES, max_size=4), st.sampled_from(["", "# x = 1\n", "/* y = \n 2 */ ", "// z = 3\n"]))
def test_the_variables_of_a_file_are_those_it_assigns_at_the_top_in_both_forms(
    values: dict[str, object], comment: str
) -> None:
    text = "".join(f"{comment}{name} = {expression(value)}\n" for name, value in values.items())
    assert variables_set("a.auto.tfvars", text.encode()) == set(values)
    assert variables_set("a.auto.tfvars.json", json.dumps(values).encode()) == set(values)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('a = "b = ${"c = \\"d\\""}"\ne = 1', {"a", "e"}),
        ('a = <<-EOT\n  b = 1\n  EOT\nc = "x"', {"a", "c"}),
        ("a = <<EOT\nb = 1\nEOT", {"a"}),
        ('"a" = 1\n"b"=2', {"a", "b"}),
        ('a = "$${b"\nc = "%%{d"\n', {"a", "c"}),
        ("a = { b = 1, c = { d = 2 } }\ne = [\n  { f = 1 },\n]\n", {"a", "e"}),
        ('a = "unfinished\nb = 1', {"a"}),
        ("a == 1", set()),
        ("\r\n\ta =1\r\nb= 2", {"a", "b"}),
    ],
)
def test_what_only_looks_like_an_assignment_is_none(text: str, expected: set[str]) -> None:
    assert variables_set("terraform.tfvars", text.encode()) == expected


@pytest.mark.parametrize("content", [b"\xff\xfe", b"[1]", b"{", b""])
def test_what_is_no_file_of_variables_sets_none(content: bytes) -> None:
    assert variables_set("terraform.tfvars.json", content) == frozenset()


@given(st.text(max_size=60))
def test_any_text_is_read_to_its_end(text: str) -> None:
    variables_set("terraform.tfvars", text.encode("utf-8", "replace"))


def test_files_are_read_in_the_order_of_the_tools_and_the_last_one_wins() -> None:
    names = ["b.auto.tfvars.json", "terraform.tfvars.json", "a.auto.tfvars", "main.tf", "terraform.tfvars", "x.tfvars"]
    order = ["terraform.tfvars", "terraform.tfvars.json", "a.auto.tfvars", "b.auto.tfvars.json"]
    assert read_by_itself(names) == order
    files = [(name, b'{"v": 1}' if name.endswith(".json") else b"v = 1\nother = 2") for name in order]
    assert overriding(files, ["v", "unset"]) == {"v": "b.auto.tfvars.json"}
