"""Decides for each variable of a set whether it has a value that Terraform can get (spec §6.5)."""

from collections.abc import Mapping, Sequence
from typing import assert_never

from msgspec import Struct

from magos.api.reasons import ReferenceProblem
from magos.api.variablelimits import ENTRY_BYTES, TOTAL_BYTES, entry_size
from magos.api.variableset import (
    KeyReference,
    UnresolvedReference,
    ValueSourceKey,
    Variable,
    VariableSet,
    VariableSource,
    reference_of,
)
from magos.reconcilers.variableset.valuesources import Content, ContentCache, ValueSourceReport

_LONGEST_LIST = 720
"""Characters of a message that a list of problems may take; the rest says what to do about them."""


class Resolution(Struct, frozen=True, kw_only=True):
    """What the references of a set resolve to.

    ``unusable`` are sentences about variables that have a value which no environment can carry; ``absent`` counts the
    optional references without a value.
    """

    total: int
    resolved: int
    absent: int
    unresolved: tuple[UnresolvedReference, ...]
    unusable: tuple[str, ...]
    sources: tuple[VariableSource, ...]

    @property
    def good(self) -> bool:
        """True if nothing that is required lacks a usable value."""
        return not self.unresolved and not self.unusable

    @property
    def message(self) -> str:
        """What status says; never a value."""
        if self.good:
            optional = f" Optional references without a value: {self.absent}." if self.absent else ""
            return f"{self.resolved} of {self.total} variables have a value.{optional}"
        problems = [f"{each.kind}/{each.name} {each.key}: {each.reason}" for each in self.unresolved]
        return f"{_listed([*problems, *self.unusable])}. {' '.join(self._hints())}"

    def _hints(self) -> list[str]:
        reasons = {each.reason for each in self.unresolved}
        hints = []
        if reasons - {ReferenceProblem.FORBIDDEN}:
            hints.append("Create what is missing, or mark the reference optional.")
        if ReferenceProblem.FORBIDDEN in reasons:
            hints.append("Forbidden: allow the variableset controller to get the Secret or ConfigMap (RBAC).")
        if self.unusable:
            hints.append("Put large or binary inputs into a file that the configuration reads.")
        return hints


def resolve(found: VariableSet, current: ContentCache) -> Resolution:
    """Return the resolution of a set; ``current`` has every source that the set refers to."""
    reports = {source: known.report for source, known in current.items()}
    unresolved: dict[UnresolvedReference, None] = {}
    unusable: list[str] = []
    resolved = absent = total = 0
    for variable in found.spec.variables:
        answer = _look_up(variable, reports)
        match answer:
            case UnresolvedReference():
                unresolved[answer] = None
            case str():
                unusable.append(f"variable {variable.name}: {answer}")
            case int():
                resolved += 1
                total += entry_size(variable.name, answer)
            case None:
                absent += 1
            case _:
                assert_never(answer)
    if total > TOTAL_BYTES:
        unusable.append(
            f"the variables together take more than {TOTAL_BYTES} bytes, which is more than the environment of a"
            " process should hold"
        )
    return Resolution(
        total=len(found.spec.variables),
        resolved=resolved,
        absent=absent,
        unresolved=tuple(unresolved),
        unusable=tuple(unusable),
        sources=_sources(found, current),
    )


def _look_up(
    variable: Variable, reports: Mapping[ValueSourceKey, ValueSourceReport]
) -> UnresolvedReference | str | int | None:
    """Return the size of a usable value, what is wrong with it, or None if it is optional and missing."""
    if variable.value is not None:
        content = Content(digest=b"", size=len(variable.value.encode()), text="\0" not in variable.value)
        return _usable(variable.name, content)
    found = reference_of(variable.value_from)
    if found is None:
        return "exactly one of value, valueFrom.secretKeyRef and valueFrom.configMapKeyRef must be set"
    source, reference = found
    report = reports[source]
    if report.forbidden:
        return _unresolved(source, reference, ReferenceProblem.FORBIDDEN)
    present = report.contents.get(reference.key)
    if present is not None:
        return _usable(variable.name, present)
    if reference.optional:
        return None
    missing = ReferenceProblem.KEY_NOT_FOUND if report.found else ReferenceProblem.RESOURCE_NOT_FOUND
    return _unresolved(source, reference, missing)


def _usable(name: str, content: Content) -> int | str:
    if not content.text:
        return "its value is not text: it has a NUL byte or is not UTF-8"
    if entry_size(name, content.size) > ENTRY_BYTES:
        return f"its value is longer than the {ENTRY_BYTES} bytes that an environment variable may have"
    return content.size


def _unresolved(source: ValueSourceKey, reference: KeyReference, reason: ReferenceProblem) -> UnresolvedReference:
    return UnresolvedReference(kind=source.kind, name=source.name, key=reference.key, reason=reason)


def _sources(found: VariableSet, current: ContentCache) -> tuple[VariableSource, ...]:
    """Return what was read; of a source that may not be read now, what was known before still stands."""
    before = {ValueSourceKey(each.kind, each.name): each for each in found.status.sources}
    sources: list[VariableSource] = []
    for source, known in current.items():
        if known.report.found:
            version, content = known.report.resource_version, known.content_version
            sources.append(
                VariableSource(kind=source.kind, name=source.name, resource_version=version, content_version=content)
            )
        elif known.report.forbidden and source in before:
            sources.append(before[source])
    return tuple(sources)


def _listed(problems: Sequence[str]) -> str:
    """Join as many problems as there is room for, at least one, and say how many are left out."""
    shown: list[str] = []
    for problem in problems:
        if shown and sum(map(len, shown)) + 2 * len(shown) + len(problem) > _LONGEST_LIST:
            break
        shown.append(problem)
    rest = len(problems) - len(shown)
    return "; ".join(shown) + (f"; and {rest} more" if rest else "")
