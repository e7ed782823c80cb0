"""What a Rollout says about itself (spec §6.4, §14.2). Names are listed in full up to ten, then counted."""

from collections.abc import Callable, Iterable, Sequence

from magos.api.phases import GRANTABLE, RUNNING, TERMINAL
from magos.api.workspace import Workspace
from magos.reconcilers.revisions import applied_revision
from magos.reconcilers.rollout.cohorts import Cohorts, label_of
from magos.reconcilers.rollout.memberstate import MemberState, gated, member_state
from magos.reconcilers.rollout.promotion import Obstacle

__all__ = ["MOST_NAMES", "failed", "listed", "none_selected", "progressing", "unselected"]

MOST_NAMES = 10


def listed(items: Sequence[str]) -> str:
    """Return ``a, b, c``; of more than ten the rest is counted."""
    shown = ", ".join(items[:MOST_NAMES])
    more = len(items) - MOST_NAMES
    return f"{shown} and {more} more" if more > 0 else shown


def none_selected(cohorts: Cohorts, project: str) -> str:
    """Say which steps select nobody."""
    names = label_of(cohorts.steps[index].name for index in cohorts.empty)
    return (
        f"Steps {names} select no Workspace of Project {project}; nothing is granted until they do."
        " Correct the selectors or label the Workspaces."
    )


def unselected(members: Sequence[Workspace]) -> str:
    """Say who is in no step."""
    noun = "member is" if len(members) == 1 else "members are"
    return f"{len(members)} {noun} in no step and never run: {_names(members)}. Label them or extend the steps."


def failed(cohorts: Cohorts, active: int) -> str:
    """Say who failed how, and who waits behind."""
    bad = [each for each in cohorts.steps[active].cohort if member_state(each) is MemberState.FAILED]
    causes = [f"{each.metadata.name} {each.status.phase}/{each.status.reason}" for each in bad]
    later = [step.name for step in cohorts.steps[active + 1 :] if step.cohort]
    halted = f" Until then {label_of(later)} {'waits' if len(later) == 1 else 'wait'}." if later else ""
    return (
        f"Step {cohorts.label(active)}: {listed(causes)}. Fix the cause and commit it, request a reconcile,"
        f" or wait for the next try.{halted}"
    )


def progressing(cohorts: Cohorts, active: int, obstacles: Sequence[Obstacle]) -> str:
    """Say who of the active step runs, is gated, or waits, and for what."""
    stopped = {obstacle.member.metadata.name for obstacle in obstacles}
    cohort = [each for each in cohorts.steps[active].cohort if each.metadata.name not in stopped]
    groups: tuple[tuple[str, Callable[[Workspace], bool]], ...] = (
        ("running", lambda each: each.status.phase in RUNNING),
        ("gated", gated),
        ("waiting", lambda each: each.status.phase in GRANTABLE and not gated(each)),
        ("with new work", lambda each: each.status.phase in TERMINAL and member_state(each) is MemberState.URGENT),
    )
    parts = [f"{word} {_names(found)}" for word, test in groups if (found := [each for each in cohort if test(each)])]
    parts += [_obstacle(obstacle) for obstacle in obstacles[:MOST_NAMES]]
    if len(obstacles) > MOST_NAMES:
        parts.append(f"{len(obstacles) - MOST_NAMES} more wait for earlier steps")
    return f"Step {cohorts.label(active)} of {len(cohorts.steps)}: {'; '.join(parts) or 'nobody has begun'}."


def _obstacle(obstacle: Obstacle) -> str:
    name = obstacle.member.metadata.name
    if not obstacle.revision:
        return (
            f"{name} waits: nobody has told yet which revision it is to run ({_names(obstacle.behind)} run before it)"
        )
    if not obstacle.behind:
        return (
            f"{name} waits: its run is not prepared with revision {obstacle.revision} yet"
            " (is the workspace controller running?)"
        )
    behind = [f"{each.metadata.name} ({applied_revision(each) or 'nothing'} applied)" for each in obstacle.behind]
    return f"{name} waits: revision {obstacle.revision} not yet applied by {listed(behind)}"


def _names(members: Iterable[Workspace]) -> str:
    return listed([each.metadata.name for each in members])
