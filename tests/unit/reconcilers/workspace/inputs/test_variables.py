"""Composition of VariableSets into a run's inputs (spec §6.6, §6.2.8; field cases F49, F50)."""

import asyncio
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from magos.api.kube import Container, EnvVar, PodManifest, PodSpec
from magos.api.meta import ObjectMeta
from magos.api.phases import Phase
from magos.api.project import Project, ProjectSpec
from magos.api.reasons import ReferenceProblem
from magos.api.status import NameReference
from magos.api.variableset import (
    SourceKind,
    UnresolvedReference,
    Variable,
    VariableSet,
    VariableSetSpec,
    VariableSetStatus,
    VariableSource,
)
from magos.local.node.sources import PodSources, environment, expand
from magos.reconcilers.workspace.inputs.layers import Awaiting, Layer, Problem, Unresolved
from magos.reconcilers.workspace.inputs.variables import (
    MANIFEST_BYTES,
    Composition,
    apply_environment,
    compose,
    layers_of,
    plan_environment,
    variables_changed,
)
from tests.unit.reconcilers.model import workspace_manifest
from tests.unit.reconcilers.variablesets import config_map, literal, secret

DB = VariableSource(kind=SourceKind.SECRET, name="db", resource_version="9", content_version="5")
NET = VariableSource(kind=SourceKind.CONFIG_MAP, name="net", resource_version="8", content_version="7")


def layer(name: str, *variables: Variable, sources: Sequence[VariableSource] = ()) -> Layer:
    """A validated set."""
    status = VariableSetStatus(phase=Phase.READY, observed_generation=1, sources=tuple(sources))
    meta = ObjectMeta(name=name, namespace="team-a", generation=1)
    found = VariableSet(metadata=meta, spec=VariableSetSpec(variables=variables), status=status)
    return Layer(name=name, found=found)


def composed(project: Sequence[Layer] = (), workspace: Sequence[Layer] = ()) -> Composition:
    outcome = compose(project, workspace)
    assert isinstance(outcome, Composition), outcome
    return outcome


def names(entries: Sequence[EnvVar]) -> list[str]:
    return [entry.name for entry in entries]


def test_later_sets_win_wholly_and_each_variable_is_in_the_environment_once() -> None:
    p1 = layer("p1", literal("region", "p1"), literal("only", "p1"))
    p2 = layer("p2", secret("region", "db", "region"), sources=[DB])
    w1 = layer("w1", literal("region", "w1"), config_map("cidr", "net", "cidr", optional=True), sources=[NET])
    assert composed([p1, p2], [w1]).environment == (
        EnvVar(name="TF_VAR_only", value="p1"),
        EnvVar(name="TF_VAR_region", value="w1"),
        composed([], [w1]).environment[1],
    )
    secret_wins = composed([p1, p2])
    reference = secret_wins.environment[1].value_from
    assert reference is not None
    assert reference.secret_key_ref is not None
    assert (secret_wins.environment[1].value, reference.secret_key_ref.name) == (None, "db")
    assert secret_wins.redact == ("TF_VAR_region",)
    assert composed([p2, p1]).environment[0] == EnvVar(name="TF_VAR_region", value="p1")
    assert composed([p2, p1]).redact == ()
    assert composed([p1], [p1]).fingerprint == composed([p1]).fingerprint


def test_references_are_handed_on_with_their_optional_flag_and_never_a_value() -> None:
    found = composed(
        [],
        [
            layer(
                "s",
                secret("a", "db", "k", optional=True),
                config_map("b", "net", "k"),
                literal("c", ""),
                sources=[DB, NET],
            )
        ],
    )
    wire = msgspec.json.decode(msgspec.json.encode(plan_environment(found)))
    assert wire == [
        {"name": "TF_VAR_a", "valueFrom": {"secretKeyRef": {"name": "db", "key": "k", "optional": True}}},
        {"name": "TF_VAR_b", "valueFrom": {"configMapKeyRef": {"name": "net", "key": "k"}}},
        {"name": "TF_VAR_c", "value": ""},
        {"name": "MAGOS_REDACT_ENV", "value": "TF_VAR_a"},
    ]
    assert [(u.name, u.source, u.version) for u in found.used][:2] == [
        ("a", "Secret/db k", "5"),
        ("b", "ConfigMap/net k", "7"),
    ]
    assert found.used[2].source == "VariableSet/s"


def test_without_variables_there_is_nothing() -> None:
    assert composed() == Composition()
    assert plan_environment(composed()) == ()


# --- literals reach Terraform as they were written -------------------------------------------------------------------

TEXTS = st.text(st.one_of(st.sampled_from("$(){}AB \n\"',\\["), st.characters(exclude_categories=["Cs"])), max_size=60)


def received(entries: Sequence[EnvVar]) -> dict[str, str]:
    """What a container gets, by the pod runner's kubelet rules."""
    container = Container(name="terraform", image="x", env=tuple(entries))
    pod = PodManifest(metadata=ObjectMeta(name="p", namespace="n"), spec=PodSpec(containers=(container,)))

    async def refused(method: str, path: str, body: object) -> object:
        raise AssertionError((method, path, body))

    sources = PodSources(None, refused, "n")  # type: ignore[arg-type]
    return asyncio.run(environment(pod, container, sources, {"A": "expanded", "B": "$(A)"}))


@given(text=TEXTS)
def test_a_literal_survives_the_expansion_of_the_kubelet(text: str) -> None:
    [entry] = composed([], [layer("s", literal("x", text))]).environment
    assert entry.value is not None
    assert expand(entry.value, {"A": "expanded", "TF_VAR_x": "self", text: "whole"}) == text


@given(texts=st.lists(TEXTS, min_size=2, max_size=6))
def test_literals_do_not_see_each_other(texts: list[str]) -> None:
    variables = [literal(f"v{n}", f"$(TF_VAR_v{n - 1})" + text) for n, text in enumerate(texts)]
    found = received(composed([], [layer("s", *variables)]).environment)
    assert {name: value for name, value in found.items() if name.startswith("TF_VAR_")} == {
        f"TF_VAR_{variable.name}": variable.value for variable in variables
    }


@pytest.mark.parametrize(
    "text",
    ['["a, b","c \\"q\\""]', '{"k":"v"}', "007", "two\nlines\n", " blank ", "$(HOME)", "$$(HOME)", "$", "a$", "$$", ""],
)
def test_odd_strings_are_not_parsed(text: str) -> None:
    assert received(composed([], [layer("s", literal("x", text))]).environment)["TF_VAR_x"] == text


# --- fingerprint -----------------------------------------------------------------------------------------------------


def moved(source: VariableSource, version: str) -> VariableSource:
    return replace(source, resource_version="99", content_version=version)


def test_the_fingerprint_moves_with_what_terraform_would_see_and_with_nothing_else() -> None:
    variables = (secret("a", "db", "k"), config_map("b", "net", "k"), literal("c", "1"))
    base = composed([layer("p", *variables, sources=[DB, NET])]).fingerprint

    def of(*changed: Variable, sources: Sequence[VariableSource] = (DB, NET), name: str = "p") -> str:
        return composed([layer(name, *changed, sources=sources)]).fingerprint

    assert base.startswith("sha256:")
    assert of(*reversed(variables)) == base
    assert of(*variables, name="other") == base
    assert of(*variables, sources=[replace(DB, resource_version="77"), NET]) == base
    different = [
        of(*variables, sources=[moved(DB, "6"), NET]),
        of(*variables, sources=[DB, moved(NET, "6")]),
        of(*variables, sources=[NET]),
        of(*variables[:2], literal("c", "2")),
        of(*variables[:2], literal("c", "")),
        of(*variables[:2]),
        of(*variables[:2], literal("d", "1")),
        of(secret("a", "db", "other"), *variables[1:]),
        of(secret("a", "net", "k"), *variables[1:]),
        of(config_map("a", "db", "k"), *variables[1:]),
        of(*variables, literal("e", "")),
    ]
    assert base not in different
    assert len(set(different)) == len(different)


@given(st.lists(st.tuples(st.sampled_from("abc"), TEXTS, st.booleans()), max_size=6))
def test_equal_effective_definitions_have_an_equal_fingerprint_however_they_are_layered(
    rows: list[tuple[str, str, bool]],
) -> None:
    project = [layer(f"p{n}", literal(name, text)) for n, (name, text, own) in enumerate(rows) if not own]
    own = [layer(f"w{n}", literal(name, text)) for n, (name, text, own) in enumerate(rows) if own]
    order = [row for row in rows if not row[2]] + [row for row in rows if row[2]]
    winning = {name: text for name, text, _ in order}
    flat = [layer("flat", *(literal(name, text) for name, text in sorted(winning.items())))] if winning else []
    found = composed(project, own)
    assert found.fingerprint == composed(flat).fingerprint
    assert sorted(names(found.environment)) == sorted(f"TF_VAR_{name}" for name in winning)


def test_an_optional_source_that_appears_is_a_change() -> None:
    before = composed([layer("p", secret("a", "db", "k", optional=True))])
    after = composed([layer("p", secret("a", "db", "k", optional=True), sources=[DB])])
    assert variables_changed(after, before.fingerprint, project_known=True)
    assert not variables_changed(before, before.fingerprint, project_known=True)


def test_incomplete_inputs_and_a_missing_project_are_no_change() -> None:
    full = composed([layer("p", literal("a", "1"))])
    missing = compose([Layer(name="p")], [])
    assert not variables_changed(missing, full.fingerprint, project_known=True)
    assert not variables_changed(composed(), full.fingerprint, project_known=False)
    assert variables_changed(composed(), full.fingerprint, project_known=True)


# --- what is not there yet -------------------------------------------------------------------------------------------


def unresolved(name: str) -> Layer:
    base = layer(name, secret("a", "db", "k")).found
    assert base is not None
    reference = UnresolvedReference(kind=SourceKind.SECRET, name="db", key="k", reason=ReferenceProblem.KEY_NOT_FOUND)
    status = VariableSetStatus(
        phase=Phase.FAILED, observed_generation=1, unresolved_references=(reference,), message="Secret/db k."
    )
    return Layer(name=name, found=replace(base, status=status))


def lagging(name: str) -> Layer:
    found = layer(name, literal("a", "1")).found
    assert found is not None
    return Layer(name=name, found=replace(found, metadata=replace(found.metadata, generation=2)))


def test_missing_and_unresolved_sets_are_listed_with_set_kind_name_key_and_reason() -> None:
    outcome = compose([Layer(name="gone"), unresolved("bad")], [layer("good", literal("a", "1"))])
    assert outcome == Unresolved(
        problems=(
            Problem(set="gone", reason="ResourceNotFound"),
            Problem(set="bad", kind="Secret", name="db", key="k", reason="KeyNotFound"),
        )
    )
    assert outcome.message == (
        "VariableSet gone: ResourceNotFound; VariableSet bad: Secret/db k: KeyNotFound. Create what is missing or mark"
        " the reference optional: it heals by itself."
    )


def test_a_set_that_nobody_has_validated_yet_is_waited_for_unless_another_is_wrong() -> None:
    new = layer("new", literal("a", "1"))
    assert new.found is not None
    new = Layer(name="new", found=replace(new.found, status=VariableSetStatus()))
    outcome = compose([new], [lagging("edited"), layer("good", literal("b", "1"))])
    assert outcome == Awaiting(sets=("new", "edited"))
    assert "variableset controller" in outcome.message
    assert isinstance(compose([new], [unresolved("bad")]), Unresolved)


def test_what_was_wrong_with_an_earlier_generation_does_not_count() -> None:
    old = unresolved("bad").found
    assert old is not None
    outcome = compose([Layer(name="bad", found=replace(old, metadata=replace(old.metadata, generation=2)))], [])
    assert outcome == Awaiting(sets=("bad",))


def test_a_set_that_failed_otherwise_says_so_in_its_own_words() -> None:
    found = layer("big", literal("a", "1")).found
    assert found is not None
    status = replace(found.status, phase=Phase.FAILED, message="variable a: its value is longer than that.")
    outcome = compose([], [Layer(name="big", found=replace(found, status=status))])
    assert outcome == Unresolved(problems=(Problem(set="big", reason="variable a: its value is longer than that"),))


def test_many_problems_end_with_the_hint() -> None:
    outcome = compose([Layer(name=f"{n}" + "x" * 240) for n in range(64)], [])
    assert isinstance(outcome, Unresolved)
    assert len(outcome.message) <= 1024
    assert "and 62 more" in outcome.message
    assert outcome.message.endswith("it heals by itself.")


def test_more_than_a_job_can_carry_is_refused_before_there_is_a_job() -> None:
    large = [layer(f"s{n}", literal(f"v{n}", "x" * 100_000)) for n in range(11)]
    outcome = compose(large, [])
    assert isinstance(outcome, Unresolved)
    assert f"({MANIFEST_BYTES} bytes)" in outcome.message
    assert isinstance(compose(large[:10], []), Composition)
    many = [layer(f"s{n}", *(secret("v" * 200 + f"{n}x{m}", "db", "k") for m in range(500))) for n in range(2)]
    outcome = compose(many, [])  # the names alone would not fit the list of what to mask
    assert isinstance(outcome, Unresolved)


def test_five_hundred_variables_of_the_longest_names_fit() -> None:
    variables = [secret("v" * 249 + f"{n:04}", "db", "k") for n in range(500)]
    found = composed([], [layer("s", *variables)])
    assert len(found.environment) == len(found.redact) == 500


def test_layers_are_the_projects_sets_and_then_the_workspaces_own() -> None:
    sets = {each.name: each.found for each in (layer("p", literal("a", "p")), layer("w", literal("a", "w")))}
    references = tuple(NameReference(name=name) for name in ("p", "gone"))
    project = Project(metadata=ObjectMeta(name="platform"), spec=ProjectSpec(variable_set_ref=references))
    workspace = workspace_manifest(variable_set_ref=(NameReference(name="w"),))
    inherited, own = layers_of(workspace, project, sets.get)
    assert [(each.name, each.found is None) for each in (*inherited, *own)] == [
        ("p", False),
        ("gone", True),
        ("w", False),
    ]
    assert layers_of(workspace, None, sets.get)[0] == ()


# --- apply -----------------------------------------------------------------------------------------------------------


def test_an_apply_leaves_out_what_changed_since_the_plan_and_gives_the_rest_unchanged() -> None:
    references = (secret("rotated", "db", "k"), config_map("same", "net", "k"))
    variables = (*references, literal("edited", "1"), literal("l", "2"))
    planned = composed([layer("p", *variables, sources=[DB, NET])])
    assert apply_environment([layer("p", *variables, sources=[DB, NET])], [], planned.used) == plan_environment(planned)
    now = layer("p", *references, literal("edited", "9"), literal("l", "2"), literal("new", "3"))
    assert now.found is not None
    status = replace(now.found.status, sources=(moved(DB, "6"), NET))
    entries = apply_environment([Layer(name="p", found=replace(now.found, status=status))], [], planned.used)
    assert names(entries) == ["TF_VAR_same", "TF_VAR_l", "MAGOS_REDACT_ENV"]
    # The plan carries the old value of what was rotated: it is still masked.
    assert entries[-1].value == "TF_VAR_rotated"


def test_an_apply_is_not_stopped_by_sets_that_are_gone_or_broken() -> None:
    planned = composed([layer("p", literal("a", "1")), layer("q", secret("b", "db", "k"), sources=[DB])])
    entries = apply_environment([Layer(name="p"), unresolved("q")], [], planned.used)
    assert names(entries) == ["MAGOS_REDACT_ENV"]
    assert apply_environment([lagging("p")], [], planned.used)[0] == EnvVar(name="TF_VAR_a", value="1")
