"""Rollouts: the list, and one Rollout as a pipeline of steps."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from magos.api.meta import Condition
from magos.api.phases import Phase
from magos.api.rollout import Rollout
from magos.api.selectors import Selector, compile_selector
from magos.api.workspace import Workspace
from magos.explain import Attention
from magos.ui import links
from magos.ui.badges import Badge, attention_of, phase_badge, workspace_badge
from magos.ui.links import Commit
from magos.ui.times import Moment, moment

MEMBERS = 50
"""Members that a step lists."""


class StepState(StrEnum):
    """How a step stands."""

    DONE = "done"
    ACTIVE = "active"
    WAITING = "waiting"


class Member(Struct, frozen=True, kw_only=True):
    """A Workspace of a step. ``message`` is that of one that failed."""

    name: str
    path: str
    badge: Badge
    commit: Commit | None
    message: str


class StepView(Struct, frozen=True, kw_only=True):
    """A column of the pipeline."""

    number: int
    name: str
    state: StepState
    tone: str
    waits: str
    """What the step waits for, in words."""
    members: tuple[Member, ...]
    more: int
    travelling: Commit | None
    """The commit that is promoted, in the one step where it is."""


class RolloutRow(Struct, frozen=True, kw_only=True):
    """A Rollout in the list."""

    namespace: str
    name: str
    path: str
    badge: Badge
    reason: str
    message: str
    done: int
    total: int
    tones: tuple[str, ...]
    """One for each step, for the dots."""


class RolloutView(Struct, frozen=True, kw_only=True):
    """The page of a Rollout."""

    row: RolloutRow
    project_path: str
    steps: tuple[StepView, ...]
    unselected: tuple[Member, ...]
    conditions: tuple[Condition, ...]
    changed: Moment | None


def rollout_row(rollout: Rollout) -> RolloutRow:
    """Return a Rollout as the list shows it."""
    meta, status = rollout.metadata, rollout.status
    total = len(rollout.spec.strategy.steps)
    return RolloutRow(
        namespace=meta.namespace,
        name=meta.name,
        path=links.page("rollouts", meta.namespace, meta.name),
        badge=phase_badge(status.phase),
        reason=status.reason,
        message=status.message,
        done=min(status.current_step or 0, total),
        total=total,
        tones=tuple(_tone(rollout, _state(rollout, index)) for index in range(total)),
    )


def view(rollout: Rollout, members: Sequence[Workspace], now: datetime) -> RolloutView:
    """Return the page of a Rollout; ``members`` are the Workspaces of its Project that the caller may see."""
    columns, rest = assigned(rollout, members)
    travelling = _travelling(rollout, columns)
    at = min(rollout.status.current_step or 0, len(columns) - 1)
    return RolloutView(
        row=rollout_row(rollout),
        project_path=links.page("projects", rollout.metadata.namespace, rollout.spec.project_ref),
        steps=tuple(
            StepView(
                number=index + 1,
                name=step.name,
                state=_state(rollout, index),
                tone=_tone(rollout, _state(rollout, index)),
                waits=_waits(rollout, index, column),
                members=tuple(map(_member, column[:MEMBERS])),
                more=max(0, len(column) - MEMBERS),
                travelling=travelling if index == at else None,
            )
            for index, (step, column) in enumerate(zip(rollout.spec.strategy.steps, columns, strict=True))
        ),
        unselected=tuple(map(_member, rest)),
        conditions=rollout.status.conditions,
        changed=moment(rollout.status.last_reconcile_time, now),
    )


def assigned(rollout: Rollout, members: Sequence[Workspace]) -> tuple[list[list[Workspace]], list[Workspace]]:
    """Return the members of each step, and those of none; a member belongs to the first step that selects it."""
    columns: list[list[Workspace]] = [[] for _ in rollout.spec.strategy.steps]
    selectors: list[Selector | None] = []
    for step in rollout.spec.strategy.steps:
        try:
            selectors.append(compile_selector(step.selector))
        except ValueError:
            selectors.append(None)
    rest: list[Workspace] = []
    for member in members:
        labels = member.metadata.labels
        place = next((i for i, each in enumerate(selectors) if each is not None and each.matches(labels)), None)
        (rest if place is None else columns[place]).append(member)
    return columns, rest


def _state(rollout: Rollout, index: int) -> StepState:
    current = rollout.status.current_step
    if current is None or index > current:
        return StepState.WAITING
    return StepState.DONE if index < current else StepState.ACTIVE


def _tone(rollout: Rollout, state: StepState) -> str:
    if state is StepState.ACTIVE:
        return "bad" if rollout.status.phase is Phase.FAILED else "run"
    return "ok" if state is StepState.DONE else "idle"


def _waits(rollout: Rollout, index: int, members: Sequence[Workspace]) -> str:
    state = _state(rollout, index)
    if state is StepState.ACTIVE and members:
        return _holds(members)
    if state is StepState.DONE:
        return "All members have applied it."
    return "Waits for the steps before it." if members else "No Workspace is selected by this step."


def _holds(members: Sequence[Workspace]) -> str:
    """Return what holds the members of the active step."""
    of = {each: [m.metadata.name for m in members if attention_of(m) is each] for each in Attention}
    if failed := of[Attention.BROKEN]:
        return f"Halted: {failed[0]} failed."
    if gated := of[Attention.NEEDS_YOU]:
        return f"Waits for the approval of {gated[0]}" + (f" and {len(gated) - 1} more." if gated[1:] else ".")
    if running := of[Attention.RUNNING]:
        return f"{len(running)} of {len(members)} run."
    return "Waits for its members to apply it."


def _member(workspace: Workspace) -> Member:
    meta = workspace.metadata
    broken = attention_of(workspace) is Attention.BROKEN
    return Member(
        name=meta.name,
        path=links.page("workspaces", meta.namespace, meta.name),
        badge=workspace_badge(workspace),
        commit=links.commit(workspace.spec.source, workspace.status.observed_revision),
        message=workspace.status.message if broken else "",
    )


def _travelling(rollout: Rollout, columns: Sequence[Sequence[Workspace]]) -> Commit | None:
    """Return the commit that the first step has applied, or works on: what the later steps wait for."""
    if not columns or not columns[0]:
        return None
    first = columns[0][0]
    working = first.status.current_run.revision if first.status.current_run else ""
    applied = first.status.observed_revision
    return links.commit(first.spec.source, applied if rollout.status.current_step else working or applied)
