"""The Terraform inputs of a run: VariableSets laid over each other, as environment and as fingerprint (spec §6.6).

1. A Project's sets come first in their order, then the Workspace's; the later definition of a variable wins wholly,
   whatever its kind. There is one environment entry a variable.
2. Text is handed on unchanged. The kubelet expands ``$(NAME)`` in literals and turns ``$$`` into ``$``, so every dollar
   sign is doubled. References are handed on as references; no value of a Secret is ever seen here.
3. Nothing is composed from sets that are missing, unresolved or not validated yet: the outcome says which they are.
4. Everything is a function of the sets as they are; equal sets give an equal fingerprint, in whatever order their
   variables are written. No variables at all give the empty fingerprint.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from magos.api.kube import EnvVar, EnvVarSource, KeySelector
from magos.api.phases import Phase
from magos.api.project import Project
from magos.api.reasons import ReferenceProblem
from magos.api.runnerpod import REDACT
from magos.api.variablelimits import ENTRY_BYTES, PREFIX
from magos.api.variableset import VARIABLESETS, SourceKind, ValueSourceKey, Variable, VariableSet, reference_of
from magos.api.workspace import UsedVariable, UsedVariableSet, Workspace
from magos.ids import digest_of, short_hash
from magos.reconcilers.workspace.inputs.layers import Awaiting, Layer, Problem, Unresolved

MANIFEST_BYTES = 1024 * 1024
"""What the variables may take in a Job or a status: an object of more than 1.5 MiB is not stored."""

_VERSION_DIGITS = 16


class _Effective(Struct, frozen=True, kw_only=True):
    """The definition of a variable that wins, the set it stands in and the version of what it refers to."""

    set: str
    variable: Variable
    version: str = ""


class Composition(Struct, frozen=True, kw_only=True):
    """The inputs of a run.

    ``environment`` has one ``TF_VAR_`` entry a variable, ``redact`` the names of those that come from Secrets, ``used``
    what status and history say of each: its name, where it comes from, and the version of that. ``sets`` are all sets
    that were looked into, also those of which nothing was taken.
    """

    variables: tuple[Variable, ...] = ()
    environment: tuple[EnvVar, ...] = ()
    redact: tuple[str, ...] = ()
    fingerprint: str = ""
    used: tuple[UsedVariable, ...] = ()
    sets: tuple[UsedVariableSet, ...] = ()


Outcome: TypeAlias = Composition | Unresolved | Awaiting


def layers_of(
    workspace: Workspace, project: Project | None, find: Callable[[str], VariableSet | None]
) -> tuple[tuple[Layer, ...], tuple[Layer, ...]]:
    """Return the sets of the Project and those of the Workspace; ``find`` gives a set of the namespace by name."""
    inherited = project.spec.variable_set_ref if project is not None else ()
    own = workspace.spec.variable_set_ref
    return tuple(Layer(name=ref.name, found=find(ref.name)) for ref in inherited), tuple(
        Layer(name=ref.name, found=find(ref.name)) for ref in own
    )


def compose(project_sets: Sequence[Layer], workspace_sets: Sequence[Layer]) -> Outcome:
    """Return the inputs of a run, or why there are none yet. What is certainly wrong is told before what is unknown."""
    layers = tuple({layer.name: layer for layer in (*project_sets, *workspace_sets)}.values())
    problems = tuple(problem for layer in layers for problem in _problems(layer))
    if problems:
        return Unresolved(problems=problems)
    lagging = tuple(layer.name for layer in layers if layer.found is not None and not _validated(layer.found))
    if lagging:
        return Awaiting(sets=lagging)
    composition = replace(_composition(_effective(project_sets, workspace_sets)), sets=_used_sets(layers, project_sets))
    oversize = _oversize(composition)
    return Unresolved(problems=(oversize,)) if oversize is not None else composition


def variables_changed(outcome: Outcome, stored: str, *, project_known: bool) -> bool:
    """Tell whether the inputs differ from those with fingerprint ``stored``.

    Inputs that are incomplete are no change, and neither is a Project that is merely missing: its sets are unknown.
    """
    return project_known and isinstance(outcome, Composition) and outcome.fingerprint != stored


def sets_changed(outcome: Outcome, stored: Iterable[UsedVariableSet], *, project_known: bool) -> bool:
    """Tell whether the sets differ from ``stored``, also where the variables that are taken from them do not."""
    return project_known and isinstance(outcome, Composition) and outcome.sets != tuple(stored)


def plan_environment(composition: Composition) -> tuple[EnvVar, ...]:
    """Return what the stage ``terraform`` of a plan gets: the variables, and which of them to mask."""
    return (*composition.environment, *_redact(composition.redact))


def apply_environment(
    project_sets: Sequence[Layer], workspace_sets: Sequence[Layer], planned: Iterable[UsedVariable]
) -> tuple[EnvVar, ...]:
    """Return what the stage ``terraform`` of an apply gets: the variables that are as they were for the plan.

    Whatever has changed since, or is new, is left out: the plan file carries the values it was made with. Nothing is
    refused here, because the plan is complete whatever has become of the sets. What the plan got from a Secret is
    masked even where the variable is left out, because its old value is in the plan.
    """
    before = frozenset(planned)
    now = _composition(_effective(project_sets, workspace_sets))
    kept = tuple(entry for entry, used in zip(now.environment, now.used, strict=True) if used in before)
    secret = {PREFIX + used.name for used in before if used.source.startswith(f"{SourceKind.SECRET}/")}
    return (*kept, *_redact(tuple(sorted(secret))))


def _effective(project_sets: Sequence[Layer], workspace_sets: Sequence[Layer]) -> tuple[_Effective, ...]:
    """Lay the sets over each other; a variable stands where its winning definition stands."""
    winning: dict[str, _Effective] = {}
    for layer in (*project_sets, *workspace_sets):
        if layer.found is None:
            continue
        versions = {ValueSourceKey(each.kind, each.name): each.content_version for each in layer.found.status.sources}
        for variable in layer.found.spec.variables:
            reference = reference_of(variable.value_from)
            winning.pop(variable.name, None)
            winning[variable.name] = _Effective(
                set=layer.name,
                variable=variable,
                version=versions.get(reference[0], "") if reference is not None else "",
            )
    return tuple(winning.values())


def _composition(effective: Sequence[_Effective]) -> Composition:
    return Composition(
        variables=tuple(each.variable for each in effective),
        environment=tuple(_entry(each.variable) for each in effective),
        redact=tuple(PREFIX + each.variable.name for each in effective if _is_secret(each.variable)),
        fingerprint=_fingerprint(effective),
        used=tuple(map(_used, effective)),
    )


def _used_sets(layers: Sequence[Layer], inherited: Sequence[Layer]) -> tuple[UsedVariableSet, ...]:
    """Return each set by name; its digest is the fingerprint that it would give alone, equal for all who use it."""
    shared = {layer.name for layer in inherited}
    return tuple(
        UsedVariableSet(name=layer.name, digest=_fingerprint(_effective((layer,), ())), inherited=layer.name in shared)
        for layer in sorted(layers, key=lambda one: one.name)
    )


def _entry(variable: Variable) -> EnvVar:
    """Return the environment entry of one variable; ``optional`` goes on to whoever resolves the reference."""
    name = PREFIX + variable.name
    found = reference_of(variable.value_from)
    if found is None:
        return EnvVar(name=name, value=(variable.value or "").replace("$", "$$"))
    source, reference = found
    selector = KeySelector(name=source.name, key=reference.key, optional=reference.optional)
    if source.kind is SourceKind.SECRET:
        return EnvVar(name=name, value_from=EnvVarSource(secret_key_ref=selector))
    return EnvVar(name=name, value_from=EnvVarSource(config_map_key_ref=selector))


def _used(each: _Effective) -> UsedVariable:
    """Return the reference and its version; for a literal the set it stands in and a short hash of the text."""
    found = reference_of(each.variable.value_from)
    if found is None:
        text = each.variable.value or ""
        return UsedVariable(
            name=each.variable.name,
            source=f"{VARIABLESETS.name}/{each.set}",
            version=short_hash(text, _VERSION_DIGITS),
        )
    source, reference = found
    return UsedVariable(
        name=each.variable.name, source=f"{source.kind}/{source.name} {reference.key}", version=each.version
    )


def _fingerprint(effective: Sequence[_Effective]) -> str:
    """Digest (name, kind, source name, key, content version or literal) of all variables, ordered by name."""
    if not effective:
        return ""
    rows = []
    for each in sorted(effective, key=lambda one: one.variable.name):
        found = reference_of(each.variable.value_from)
        if found is None:
            rows.append((each.variable.name, "literal", "", "", each.variable.value or ""))
        else:
            source, reference = found
            rows.append((each.variable.name, str(source.kind), source.name, reference.key, each.version))
    return digest_of(msgspec.json.encode(rows))


def _is_secret(variable: Variable) -> bool:
    found = reference_of(variable.value_from)
    return found is not None and found[0].kind is SourceKind.SECRET


def _redact(names: tuple[str, ...]) -> tuple[EnvVar, ...]:
    return (EnvVar(name=REDACT, value=",".join(names)),) if names else ()


def _validated(found: VariableSet) -> bool:
    return found.status.phase is not None and found.status.observed_generation == found.metadata.generation


def _problems(layer: Layer) -> tuple[Problem, ...]:
    found = layer.found
    if found is None:
        return (Problem(set=layer.name, reason=str(ReferenceProblem.RESOURCE_NOT_FOUND)),)
    if not _validated(found) or found.status.phase is Phase.READY:
        return ()
    unresolved = tuple(
        Problem(set=layer.name, kind=str(each.kind), name=each.name, key=each.key, reason=str(each.reason))
        for each in found.status.unresolved_references
    )
    return unresolved or (Problem(set=layer.name, reason=found.status.message.rstrip(".") or found.status.reason),)


def _oversize(composition: Composition) -> Problem | None:
    """A Job or a status that cannot be stored is refused here, where the reason can be told."""
    redact = len(REDACT) + 2 + sum(len(name) + 1 for name in composition.redact)
    size = max(len(msgspec.json.encode(composition.environment)), len(msgspec.json.encode(composition.used)))
    if size <= MANIFEST_BYTES and redact <= ENTRY_BYTES:
        return None
    return Problem(
        set="",
        reason=f"the {len(composition.variables)} variables together are larger than a Job can carry"
        f" ({MANIFEST_BYTES} bytes): put large inputs into a file of the repository",
    )
