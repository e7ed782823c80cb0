"""What a Struct cannot be turned into is an error of the generator, never a silent gap in a CRD."""

import pytest
from msgspec import Struct

from magos.api.schema.docstrings import field_docs
from magos.api.schema.structural import object_schema, unused_rules
from magos.api.workspace import WorkspaceStatus


class Undocumented(Struct):
    """A Struct whose field lacks its docstring."""

    name: str


class Union(Struct):
    """A Struct with a type that has no place in a CRD."""

    value: str | int = ""
    """Text or number."""


class Floating(Struct):
    """A Struct with a number that JSON cannot hold exactly."""

    value: float = 0.0
    """A number."""


def test_a_field_without_description_is_refused() -> None:
    with pytest.raises(LookupError, match=r"Undocumented\.name has no docstring"):
        object_schema(Undocumented)


@pytest.mark.parametrize("struct", [Union, Floating])
def test_a_type_that_has_no_place_in_a_crd_is_refused(struct: type) -> None:
    with pytest.raises(TypeError, match="a CRD has no place for"):
        object_schema(struct)


def test_a_rule_about_a_field_that_does_not_exist_is_found() -> None:
    unused = unused_rules(frozenset({WorkspaceStatus}))
    assert "Source.repo_url" in unused
    assert "Source" in unused
    assert "CommonStatus.message" not in unused


def test_descriptions_are_inherited() -> None:
    docs = field_docs(WorkspaceStatus)
    assert docs["phase"] == "The stage that the object has reached. Absent until its controller has seen it."
    assert docs["observed_revision"].startswith("Commit of")
