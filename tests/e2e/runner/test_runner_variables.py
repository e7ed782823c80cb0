"""Variables of every type from plan to apply: planned values stay, ephemeral ones are given again, secrets masked."""

import json
import re

import pytest

from magos.api.result import Outcome
from magos.api.runnerpod import Stage
from tests.e2e.runner.pod import NEXT, Workspace, apply, plan

# Type, value as JSON or as an expression of the tools, the value that comes out.
TYPES = {
    "tags": ("map(string)", '{ env = "prod", "a/b" = "$${x}" }', {"env": "prod", "a/b": "${x}"}),
    "ports": ("set(number)", "[443, 80, 443]", [80, 443]),
    "shape": (
        "object({ name = string, size = optional(number, 3), inner = object({ on = bool, list = list(string) }) })",
        '{"name": "ü\\n", "inner": {"on": true, "list": ["a,b", ""]}}',
        {"name": "ü\n", "size": 3, "inner": {"on": True, "list": ["a,b", ""]}},
    ),
    "rules": ("list(object({ port = number }))", "[{ port = 1 }, { port = 0.1 }]", [{"port": 1}, {"port": 0.1}]),
    "pair": ("tuple([string, bool])", '["x", false]', ["x", False]),
    "free": ("any", '{"a": [1, null]}', {"a": [1, None]}),
    "empty": ("map(string)", "{}", {}),
    "text": ("string", '{"not": "an object"}', '{"not": "an object"}'),
    "large": ("number", "123456789012345678901234567890", 123456789012345678901234567890),
    "flag": ("bool", "true", True),
}
_EPHEMERAL = ("tags", "ports", "shape", "rules", "free", "flag")


def declared(names: dict[str, str], *, ephemeral: bool = False) -> str:
    """Declare variables: name to the kind of its type."""
    mark = "  ephemeral = true\n" if ephemeral else ""
    return "".join(f'variable "{name}" {{\n  type = {TYPES[kind][0]}\n{mark}}}\n' for name, kind in names.items())


def writing(path: str, names: dict[str, str]) -> str:
    """A resource whose creation writes the variables as JSON to ``path``."""
    content = ", ".join(f"{name} = var.{name}" for name in names)
    return (
        'resource "terraform_data" "writer" {\n  provisioner "local-exec" {\n'
        f'    command = "printf %s \\"$VALUES\\" > {path}"\n'
        f"    environment = {{ VALUES = jsonencode({{ {content} }}) }}\n  }}\n}}\n"
    )


def values(names: dict[str, str]) -> dict[str, str]:
    return {f"TF_VAR_{name}": TYPES[kind][1] for name, kind in names.items()}


def test_an_apply_uses_the_planned_value_of_every_type_although_none_is_given_as_planned(workspace: Workspace) -> None:
    seen = workspace.folder / "seen.json"
    names = {name: name for name in TYPES}
    workspace.commit({"main.tf": workspace.backend + declared(names) + writing(str(seen), names)})
    _, planned = plan(workspace, **values(names))
    assert planned.result is Outcome.SUCCEEDED, planned.message
    rotated = dict.fromkeys(values(names), "rotated beyond what the type allows")
    pod, applied = apply(workspace, planned, **rotated)
    assert applied.result is Outcome.SUCCEEDED, pod.log
    assert json.loads(seen.read_text()) == {name: value for name, (_, _, value) in TYPES.items()}
    assert "rotated" not in pod.log
    _, unchanged = plan(workspace, NEXT, **values(names))
    assert (unchanged.result, unchanged.has_changes) == (Outcome.SUCCEEDED, False)


def test_ephemeral_variables_of_every_type_reach_the_apply_as_they_are_then(workspace: Workspace) -> None:
    seen = workspace.folder / "seen.json"
    names = {name: name for name in _EPHEMERAL}
    kept = {"kept": "shape"}
    text = declared(names, ephemeral=True) + declared(kept) + writing(str(seen), {**names, **kept})
    workspace.commit({"main.tf": workspace.backend + text})
    _, planned = plan(workspace, **values({**names, **kept}))
    assert planned.result is Outcome.SUCCEEDED, planned.message
    fresh = {**values({**names, **kept}), "TF_VAR_ports": "[22]", "TF_VAR_flag": "false", "TF_VAR_kept": "{}"}
    pod, applied = apply(workspace, planned, **fresh)
    assert applied.result is Outcome.SUCCEEDED, pod.log
    expected = {name: TYPES[kind][2] for name, kind in {**names, **kept}.items()}
    assert json.loads(seen.read_text()) == {**expected, "ports": [22], "flag": False}


@pytest.mark.parametrize("rotated", [True, False])
def test_the_parts_of_a_structured_secret_are_masked_in_plan_and_apply(workspace: Workspace, rotated: bool) -> None:
    text = (
        'variable "login" {\n  type = object({ user = string, words = set(string) })\n}\n'
        'resource "terraform_data" "a" {\n  input = var.login\n  provisioner "local-exec" {\n'
        '    command = "echo said ${join(" ", var.login.words)} by ${var.login.user}"\n  }\n}\n'
    )
    workspace.commit({"main.tf": workspace.backend + text})
    old = {"user": "robot-7", "words": ["first-word", "second/word"]}
    new = {"user": "robot-8", "words": ["third-word"]} if rotated else old
    planning, planned = plan(workspace, TF_VAR_login=json.dumps(old), MAGOS_REDACT_ENV="TF_VAR_login")
    assert planned.result is Outcome.SUCCEEDED, planned.message
    applying, applied = apply(workspace, planned, TF_VAR_login=json.dumps(new), MAGOS_REDACT_ENV="TF_VAR_login")
    assert applied.result is Outcome.SUCCEEDED, applying.log
    assert "said *** *** by ***" in applying.log
    for log in (planning.log, applying.log):
        assert not [word for word in ("robot-7", "robot-8", "first-word", "second/word", "third-word") if word in log]


def test_a_backend_that_depends_on_an_object_is_found_again_by_the_apply(workspace: Workspace) -> None:
    text = (
        'variable "state" {\n  type = object({ folder = string, names = map(string) })\n}\n'
        'terraform {\n  backend "local" {\n    path = "${var.state.folder}/${var.state.names["main"]}"\n  }\n}\n'
        'resource "terraform_data" "a" {}\n'
    )
    workspace.commit({"main.tf": text})
    state = f'{{ folder = "{workspace.state.parent}", names = {{ main = "{workspace.state.name}" }} }}'
    _, planned = plan(workspace, TF_VAR_state=state)
    assert planned.result is Outcome.SUCCEEDED, planned.message
    pod, applied = apply(workspace, planned, TF_VAR_state='{ folder = "/rotated", names = {} }')
    assert applied.result is Outcome.SUCCEEDED, pod.log
    assert workspace.state.is_file()
    assert "rotated" not in pod.log


def test_files_of_the_repository_beat_variable_sets_and_the_named_file_beats_them_all(workspace: Workspace) -> None:
    """F50: a VariableSet is read as environment, which every file overrides; each letter is set in one place more."""
    declarations = "".join(f'variable "{name}" {{\n  default = "default"\n}}\n' for name in "abcde")
    chosen = ", ".join(f"chosen_{name} = var.{name}" for name in "abcde")
    resource = f'resource "terraform_data" "a" {{\n  input = {{ {chosen} }}\n}}\n'
    workspace.commit(
        {
            "main.tf": workspace.backend + declarations + resource,
            "terraform.tfvars": "".join(f'{name} = "terraform.tfvars"\n' for name in "cde"),
            "any.auto.tfvars": "".join(f'{name} = "auto"\n' for name in "de"),
            "env/prod.tfvars": 'e = "tfvarsPath"\n',
        }
    )
    given = {f"TF_VAR_{name}": "set" for name in "bcde"}
    pod, planned = plan(workspace, MAGOS_TFVARS_FILE="env/prod.tfvars", **given)
    assert planned.result is Outcome.SUCCEEDED, planned.message
    shown = re.findall(r'chosen_(\w) = "([^"]*)"', pod.log)
    expected = {"a": "default", "b": "set", "c": "terraform.tfvars", "d": "auto", "e": "tfvarsPath"}
    assert dict(shown) == expected
    warned = dict(re.findall(r"warning: (\S+) sets the variable (\w)", pod.output[Stage.TERRAFORM]))
    assert warned == {"terraform.tfvars": "c", "any.auto.tfvars": "d", "env/prod.tfvars": "e"}
    # The named file gives e another value than the files that the tool reads by itself.
    pod, applied = apply(workspace, planned, MAGOS_TFVARS_FILE="env/prod.tfvars", **given)
    assert applied.result is Outcome.SUCCEEDED, pod.log
    [resource_] = json.loads(workspace.state.read_text())["resources"]
    values_ = resource_["instances"][0]["attributes"]["input"]["value"]
    assert values_ == {f"chosen_{name}": value for name, value in expected.items()}
