"""The generated files are up to date, small enough, and say what the Structs say."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from magos.api.labels import is_label_key, is_label_value
from magos.api.phases import Phase
from magos.api.schema import patterns
from magos.api.schema.__main__ import generated, main
from magos.api.schema.crd import DEFINITIONS, manifest
from magos.api.schema.structural import JsonSchema
from magos.api.variableset import SourceKind
from magos.api.workspace import Workspace

_ROOT = Path(__file__).parents[3]
_SAMPLES = sorted((_ROOT / "samples").rglob("*.yaml"))
_TYPES = {definition.kind.name: definition.kind.type for definition in DEFINITIONS}


def _schemas(schema: JsonSchema) -> Iterator[JsonSchema]:
    yield schema
    for entry in schema.get("properties", {}).values():
        yield from _schemas(entry)
    for part in ("items", "additionalProperties"):
        if part in schema:
            yield from _schemas(schema[part])


def _root(plural: str) -> JsonSchema:
    definition = next(d for d in DEFINITIONS if d.kind.plural == plural)
    schema: JsonSchema = manifest(definition)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


_PLURALS = [definition.kind.plural for definition in DEFINITIONS]


def test_the_generated_files_are_up_to_date() -> None:
    assert main(["--check", f"--root={_ROOT}"]) == 0


def test_a_changed_and_a_leftover_file_are_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"--root={tmp_path}"]) == 0
    assert main(["--check", f"--root={tmp_path}"]) == 0
    (tmp_path / "crds" / "old.yaml").touch()
    (tmp_path / "docs" / "spec" / "phases.md").write_text("mine")
    assert main(["--check", f"--root={tmp_path}"]) == 1
    errors = capsys.readouterr().err
    assert "crds/old.yaml" in errors
    assert "docs/spec/phases.md" in errors
    assert main([f"--root={tmp_path}"]) == 0
    assert not (tmp_path / "crds" / "old.yaml").exists()


def test_generating_is_deterministic() -> None:
    assert generated() == generated()


@pytest.mark.parametrize("plural", _PLURALS)
def test_each_crd_fits_into_an_annotation(plural: str) -> None:
    definition = next(d for d in DEFINITIONS if d.kind.plural == plural)
    assert len(json.dumps(manifest(definition))) < 200_000


@pytest.mark.parametrize("plural", _PLURALS)
def test_every_kind_has_the_same_phases_and_requires_a_spec(plural: str) -> None:
    root = _root(plural)
    assert root["required"] == ["spec"]
    assert root["properties"]["status"]["properties"]["phase"]["enum"] == [str(phase) for phase in Phase]
    conditions = root["properties"]["status"]["properties"]["conditions"]
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]


@pytest.mark.parametrize("plural", _PLURALS)
def test_a_rule_of_ours_is_never_drowned_by_a_schema_keyword(plural: str) -> None:
    for schema in _schemas(_root(plural)):
        spoken = " ".join(rule["message"] for rule in schema.get("x-kubernetes-validations", ()))
        if "must be" in spoken or "required" in spoken:
            assert "enum" not in schema
            assert "pattern" not in schema
            assert "minimum" not in schema
            assert "minLength" not in schema


@pytest.mark.parametrize("plural", _PLURALS)
def test_no_default_stands_inside_a_list(plural: str) -> None:
    lists = [schema for schema in _schemas(_root(plural)) if schema["type"] == "array"]
    assert lists
    assert not [entry for schema in lists for entry in _schemas(schema["items"]) if "default" in entry]


@pytest.mark.parametrize("plural", _PLURALS)
def test_descriptions_are_sentences_that_state_the_default(plural: str) -> None:
    for schema in _schemas(_root(plural)):
        description = schema.get("description", "")
        assert not description or len(description.split()) > 2, description  # kubectl explain shows no default itself
        if "default" in schema:
            assert re.search(rf"Default: '?{re.escape(str(schema['default']))}['.]", description, re.IGNORECASE)


@pytest.mark.parametrize("path", _SAMPLES, ids=lambda path: path.name)
def test_samples_are_of_the_kinds_they_say(path: Path) -> None:
    for document in yaml.safe_load_all(path.read_text()):
        if document["apiVersion"] == "magosproject.io/v1alpha1":
            msgspec.convert(document, _TYPES[document["kind"]])


def test_samples_fit_each_other() -> None:
    objects: dict[str, list[Any]] = {}
    for path in _SAMPLES:
        for document in yaml.safe_load_all(path.read_text()):
            objects.setdefault(document["kind"], []).append(document)
    assert set(_TYPES) <= set(objects)
    workspaces = [msgspec.convert(item, Workspace) for item in objects["Workspace"]]
    projects = {item["metadata"]["name"] for item in objects["Project"]}
    assert {workspace.spec.project_ref.name for workspace in workspaces} == projects
    for rollout in objects["Rollout"]:
        assert rollout["metadata"]["name"] in projects
        assert [step["name"] for step in rollout["spec"]["strategy"]["steps"]] == ["dev", "staging", "prod"]
    assert sorted(w.metadata.labels["stage"] for w in workspaces) == ["dev", "prod", "staging"]
    held = {
        (str(kind), item["metadata"]["name"], key)
        for kind in SourceKind
        for item in objects[str(kind)]
        for key in item["data"]
    }
    variables = [v for item in objects["VariableSet"] for v in item["spec"]["variables"] if "valueFrom" in v]
    wanted = {
        (kind, reference["name"], reference["key"])
        for variable in variables
        for kind, field in (("Secret", "secretKeyRef"), ("ConfigMap", "configMapKeyRef"))
        if (reference := variable["valueFrom"].get(field))
    }
    assert wanted == held


@given(text=st.text(alphabet=st.sampled_from("aZ0_.-/ é"), max_size=70))
def test_labels_mean_the_same_in_cel_and_in_python(text: str) -> None:
    unfit = re.search(patterns.NOT_A_LABEL_VALUE, text, re.ASCII)
    assert is_label_value(text) == (len(text) <= 63 and unfit is None)
    fit = re.search(patterns.LABEL_KEY.removesuffix("$") + r"\Z", text, re.ASCII)
    assert is_label_key(text) == (fit is not None and text.find("/") <= 253)
