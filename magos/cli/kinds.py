"""The four kinds as the command line lists them: how they may be called, and their columns."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from magos.api.conditions import ConditionType, find
from magos.api.meta import Kind
from magos.api.project import PROJECTS, Project
from magos.api.rollout import ROLLOUTS, Rollout
from magos.api.status import CommonStatus
from magos.api.variableset import VARIABLESETS, VariableSet
from magos.api.workspace import WORKSPACES, Workspace
from magos.cli.printing import age
from magos.errors import ConfigurationError


class Columns(Struct, frozen=True, kw_only=True):
    """A kind in a table. ``wide`` stands behind the others with ``-o wide`` alone."""

    kind: Kind[Any]
    short: str
    header: tuple[str, ...]
    cells: Callable[[Any, datetime], tuple[str, ...]]
    wide_header: tuple[str, ...]
    wide_cells: Callable[[Any], tuple[str, ...]]

    @property
    def names(self) -> tuple[str, ...]:
        """What a person may call the kind."""
        return (self.kind.plural, self.kind.name.lower(), self.short, self.kind.resource)

    def row(self, each: Any, now: datetime, *, wide: bool) -> tuple[str, ...]:
        """Return the cells of one object."""
        return (*self.cells(each, now), *(self.wide_cells(each) if wide else ()))

    def headings(self, *, wide: bool) -> tuple[str, ...]:
        """Return the names of the columns."""
        return (*self.header, *(self.wide_header if wide else ()))


def columns_of(text: str) -> Columns:
    """Return the kind that a person calls ``text``; raises ``ConfigurationError`` that lists what there is."""
    found = next((each for each in ALL if text.lower() in each.names), None)
    if found is None:
        known = ", ".join(f"{each.kind.plural} ({each.short})" for each in ALL)
        raise ConfigurationError(f"{text!r} is not a kind of Magos: it has {known}")
    return found


def raw(kind: Kind[Any]) -> Kind[Any]:
    """Return the kind with objects as the server sends them, for output that leaves nothing out."""
    return Kind(group=kind.group, version=kind.version, plural=kind.plural, name=kind.name, type=dict)


def _count(number: int | None) -> str:
    return "" if number is None else str(number)


def _state(status: CommonStatus) -> tuple[str, str]:
    ready = find(status.conditions, ConditionType.READY)
    return str(status.phase or ""), ready.status if ready is not None else ""


def _workspace(each: Workspace, now: datetime) -> tuple[str, ...]:
    status, meta = each.status, each.metadata
    revision = status.observed_revision[:7]
    return (
        meta.name,
        *_state(status),
        status.reason,
        each.spec.project_ref.name,
        revision,
        age(meta.creation_timestamp, now),
    )


def _workspace_wide(each: Workspace) -> tuple[str, ...]:
    status = each.status
    trigger = str(status.current_run_trigger or "")
    return (status.current_run_id, trigger, status.next_reconcile_time or "", each.spec.source.path, status.message)


def _project(each: Project, now: datetime) -> tuple[str, ...]:
    meta, status = each.metadata, each.status
    return (meta.name, *_state(status), status.reason, _count(status.members), age(meta.creation_timestamp, now))


def _rollout(each: Rollout, now: datetime) -> tuple[str, ...]:
    meta, status = each.metadata, each.status
    steps = len(each.spec.strategy.steps)
    step = "" if status.current_step is None else f"{min(status.current_step, steps)}/{steps}"
    return (meta.name, *_state(status), status.reason, each.spec.project_ref, step, age(meta.creation_timestamp, now))


def _variable_set(each: VariableSet, now: datetime) -> tuple[str, ...]:
    meta, status = each.metadata, each.status
    variables = _count(status.resolved_variables)
    return (meta.name, *_state(status), status.reason, variables, age(meta.creation_timestamp, now))


def _message(each: Any) -> tuple[str, ...]:
    return (each.status.message,)


ALL: Sequence[Columns] = (
    Columns(
        kind=WORKSPACES,
        short="ws",
        header=("NAME", "PHASE", "READY", "REASON", "PROJECT", "REVISION", "AGE"),
        cells=_workspace,
        wide_header=("RUN", "TRIGGER", "NEXT", "PATH", "MESSAGE"),
        wide_cells=_workspace_wide,
    ),
    Columns(
        kind=PROJECTS,
        short="mproj",
        header=("NAME", "PHASE", "READY", "REASON", "MEMBERS", "AGE"),
        cells=_project,
        wide_header=("MESSAGE",),
        wide_cells=_message,
    ),
    Columns(
        kind=ROLLOUTS,
        short="mro",
        header=("NAME", "PHASE", "READY", "REASON", "PROJECT", "STEP", "AGE"),
        cells=_rollout,
        wide_header=("MESSAGE",),
        wide_cells=_message,
    ),
    Columns(
        kind=VARIABLESETS,
        short="vset",
        header=("NAME", "PHASE", "READY", "REASON", "VARIABLES", "AGE"),
        cells=_variable_set,
        wide_header=("MESSAGE",),
        wide_cells=_message,
    ),
)
