"""Whose permission a Workspace waits for, and what keeps that from being given (spec §6.3, §6.4)."""

from datetime import datetime

from msgspec import Struct

from magos.api.phases import Phase
from magos.api.project import Project
from magos.api.reasons import Reason
from magos.api.rollout import Rollout, RolloutStep
from magos.api.selectors import compile_selector
from magos.api.workspace import Workspace
from magos.explain.account import Account, Attention, clause, command, path_of, subject, time_of


class Around(Struct, frozen=True, kw_only=True):
    """What is explained, with what stands around it."""

    workspace: Workspace
    project: Project | None
    rollout: Rollout | None
    now: datetime


def awaiting_permission(seen: Around, what: str) -> Account:
    """Explain a wait for permission; ``what`` is what would begin with it: ``run X`` or ``the apply of run X``."""
    since = time_of(seen.workspace.status.last_reconcile_time)
    rollout = seen.rollout
    if rollout is not None and rollout.metadata.deletion_timestamp is None:
        return _held_by_rollout(seen, rollout, what, since)
    name, namespace = seen.workspace.spec.project_ref.name, seen.workspace.metadata.namespace
    if seen.project is None:
        return Account(
            attention=Attention.BROKEN,
            sentence=f"{subject(seen.workspace)} cannot begin {what}: its Project {name} does not exist.",
            holder=f"Project {name}",
            since=since,
            next_steps=(
                f"create Project {name} in namespace {namespace}, or correct spec.projectRef of the Workspace",
            ),
        )
    if seen.project.status.reason == Reason.MANAGED_BY_ROLLOUT:
        return Account(
            attention=Attention.BROKEN,
            sentence=f"{subject(seen.workspace)} waits with {what} for Rollout {name}, which is not there any more.",
            holder=f"Rollout {name}",
            since=since,
            next_steps=(f"create Rollout {name} again", "check whether the project controller runs: it takes over"),
        )
    return Account(
        attention=Attention.WAITING,
        sentence=f"{subject(seen.workspace)} waits with {what} for the permission of Project {name}, which gives it to"
        " all members at once.",
        holder=f"Project {name}",
        since=since,
        next_steps=("if this lasts for more than a minute, check whether the project controller runs",),
    )


def _held_by_rollout(seen: Around, rollout: Rollout, what: str, since: datetime | None) -> Account:
    name, workspace = rollout.metadata.name, seen.workspace
    steps = rollout.spec.strategy.steps
    inspect = command("magos", "rollout", "status", name, "--namespace", rollout.metadata.namespace or "default")
    stuck = _stuck(rollout, workspace)
    if stuck is not None:
        told, step = stuck
        return Account(
            attention=Attention.BROKEN,
            sentence=f"{subject(workspace)} waits with {what} for Rollout {name}: {told}.",
            holder=f"Rollout {name}",
            since=since,
            next_steps=(step,),
        )
    mine, current = _step_of(steps, workspace), rollout.status.current_step
    active = steps[current] if current is not None and 0 <= current < len(steps) else None
    message = _about(workspace, clause(rollout.status.message))
    if active is None or current is None:
        told = "it has not said yet which step is active"
    elif mine is not None and mine > current:
        told = f"its step {steps[mine].name} comes after the active step {active.name} ({current + 1} of {len(steps)})"
    elif mine is not None and mine < current:
        told = f"its step {steps[mine].name} comes before the active step {active.name}, and its turn comes again"
    else:
        told = f"its step {active.name} ({current + 1} of {len(steps)}) is active"
    failed = rollout.status.phase is Phase.FAILED
    return Account(
        attention=Attention.WAITING,
        sentence=f"{subject(workspace)} waits with {what} for Rollout {name}: {told}"
        f"{f'; {message}' if message else ''}.",
        holder=f"Rollout {name}{f', step {active.name}' if active is not None else ''}",
        since=since,
        next_steps=(
            ("repair what has failed in the active step, then commit or request a reconcile there",)
            if failed
            else ("look at what the Rollout does",)
        ),
        command=inspect,
    )


def _stuck(rollout: Rollout, workspace: Workspace) -> tuple[str, str] | None:
    """Return why this Rollout never gives permission as things are, and the way out."""
    name, status = rollout.metadata.name, rollout.status
    if not rollout.spec.strategy.steps:
        return "it has no steps and grants nothing", f"add steps to Rollout {name}, or delete it"
    if status.phase is Phase.FAILED and status.reason != Reason.STEP_FAILED:
        return clause(status.message) or "it has failed", f"correct Rollout {name}: its selectors and spec.projectRef"
    if _step_of(rollout.spec.strategy.steps, workspace) is None:
        return (
            f"no step of it selects {path_of(workspace)}",
            f"change the labels of the Workspace, or add a step to Rollout {name} that selects them",
        )
    return None


def _step_of(steps: tuple[RolloutStep, ...], workspace: Workspace) -> int | None:
    """Return the index of the first step that selects the Workspace; a selector that cannot be read selects nothing."""
    for index, step in enumerate(steps):
        try:
            if compile_selector(step.selector).matches(workspace.metadata.labels):
                return index
        except ValueError:
            continue
    return None


def _about(workspace: Workspace, message: str) -> str:
    """Return the part of a Rollout's message that is about this Workspace, else the whole."""
    mine = f"{workspace.metadata.name} waits: "
    _, _, parts = message.partition(": ")
    found = next((part for part in parts.split("; ") if part.startswith(mine)), "")
    return found or message
