"""VariableSets: the list, and one set with its variables. Referenced values are not known here."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from magos.api.meta import Condition
from magos.api.project import Project
from magos.api.variableset import SourceKind, Variable, VariableSet, reference_of
from magos.api.workspace import Workspace
from magos.ui import links
from magos.ui.badges import Badge, phase_badge
from magos.ui.times import Moment, moment

CONSUMERS = 100
"""Workspaces and Projects that the page of a set lists of each kind."""


class VariableRow(Struct, frozen=True, kw_only=True):
    """A variable. ``value`` is that of a literal; of a reference it is None."""

    name: str
    kind: str
    source: str
    value: str | None
    problem: str
    state: str
    """What is known of a value without a problem; empty for a literal."""


class Consumer(Struct, frozen=True, kw_only=True):
    """What uses a set."""

    kind: str
    name: str
    path: str


class SetRow(Struct, frozen=True, kw_only=True):
    """A set in the list."""

    namespace: str
    name: str
    path: str
    badge: Badge
    description: str
    variables: int
    unresolved: int
    changed: Moment | None


class SetView(Struct, frozen=True, kw_only=True):
    """The page of a set."""

    row: SetRow
    message: str
    variables: tuple[VariableRow, ...]
    consumers: tuple[Consumer, ...]
    more: int
    conditions: tuple[Condition, ...]


def set_row(found: VariableSet, now: datetime) -> SetRow:
    """Return a set as the list shows it."""
    meta, status = found.metadata, found.status
    return SetRow(
        namespace=meta.namespace,
        name=meta.name,
        path=links.page("variable-sets", meta.namespace, meta.name),
        badge=phase_badge(status.phase),
        description=found.spec.description,
        variables=len(found.spec.variables),
        unresolved=len(status.unresolved_references),
        changed=moment(status.last_reconcile_time, now),
    )


def view(found: VariableSet, projects: Sequence[Project], workspaces: Sequence[Workspace], now: datetime) -> SetView:
    """Return the page of a set; Projects and Workspaces are those of its namespace that the caller may see."""
    name, namespace = found.metadata.name, found.metadata.namespace
    users = [
        Consumer(kind="Project", name=each.metadata.name, path=links.page("projects", namespace, each.metadata.name))
        for each in projects
        if name in {ref.name for ref in each.spec.variable_set_ref}
    ] + [
        Consumer(
            kind="Workspace", name=each.metadata.name, path=links.page("workspaces", namespace, each.metadata.name)
        )
        for each in workspaces
        if name in {ref.name for ref in each.spec.variable_set_ref}
    ]
    checked = found.status.observed_generation == found.metadata.generation
    problems = {(each.kind, each.name, each.key): str(each.reason) for each in found.status.unresolved_references}
    return SetView(
        row=set_row(found, now),
        message=found.status.message,
        variables=tuple(_variable(each, problems, checked=checked) for each in found.spec.variables),
        consumers=tuple(users[:CONSUMERS]),
        more=max(0, len(users) - CONSUMERS),
        conditions=found.status.conditions,
    )


def _variable(variable: Variable, problems: Mapping[tuple[SourceKind, str, str], str], *, checked: bool) -> VariableRow:
    reference = reference_of(variable.value_from)
    if reference is None:
        return VariableRow(
            name=variable.name, kind="Literal", source="", value=variable.value or "", problem="", state=""
        )
    source, key = reference
    optional = " (optional)" if key.optional else ""
    return VariableRow(
        name=variable.name,
        kind=str(source.kind),
        source=f"{source.name}, key {key.key}{optional}",
        value=None,
        problem=problems.get((source.kind, source.name, key.key), "") if checked else "",
        state="not checked yet" if not checked else "optional" if key.optional else "resolved",
    )
