"""What a Rollout says about itself (spec §6.4, §14.2). Names are listed in full up to ten, then counted."""

from collections.abc import Callable, Iterable, Sequence

from magos.api.phases import GRANTABLE, RUNNING, TERMINAL, WITH_PLAN, Phase
from magos.api.reasons import INTERRUPTIONS, Reason
from magos.api.workspace import Workspace
from magos.reconcilers.revisions import applied_revision
from magos.reconcilers.rollout.cohorts import Cohorts, label_of
from magos.reconcilers.rollout.memberstate import MemberState, gated, member_state
from magos.reconcilers.rollout.promotion import Obstacle

MOST_NAMES = 10


def listed(items: Sequence[str]) -> str:
    """Return ``a, b, c``; of more than ten the rest is counted."""
    shown = ", ".join(items[:MOST_NAMES])
    more = len(items) - MOST_NAMES
    return f"{shown} and {more} more" if more > 0 else shown


def begun(rollout: str) -> str:
    """Say what a Rollout begins with: one of the same name may have been there before."""
    return (
        f"Rollout {rollout} begins at the first step. From an earlier Rollout of this name it takes over nothing but"
        " the permission that members carry, and takes that back outside the active step."
    )


def none_selected(cohorts: Cohorts, project: str) -> str:
    """Name the steps that select no member."""
    names = label_of(cohorts.steps[index].name for index in cohorts.empty)
    return (
        f"Steps {names} select no Workspace of Project {project}; no member is granted until they do."
        " Correct the selectors or label the Workspaces."
    )


def unselected(members: Sequence[Workspace]) -> str:
    """Name the members that are in no step."""
    noun = "member is in no step and never runs" if len(members) == 1 else "members are in no step and never run"
    return f"{len(members)} {noun}: {_names(members)}. Change their labels, or add steps that select them."


def failed(cohorts: Cohorts, active: int) -> str:
    """Name the failed members with phase and reason, and the steps that wait for them."""
    bad = [each for each in cohorts.steps[active].cohort if member_state(each) is MemberState.FAILED]
    causes = [f"{each.metadata.name} {each.status.phase}/{each.status.reason}" for each in bad]
    later = [step.name for step in cohorts.steps[active + 1 :] if step.cohort]
    halted = f" Until then {label_of(later)} {'waits' if len(later) == 1 else 'wait'}." if later else ""
    return f"Step {cohorts.label(active)}: {listed(causes)}. {_advice(bad)}{halted}"


def _advice(bad: Sequence[Workspace]) -> str:
    taken = [each for each in bad if each.status.reason in INTERRUPTIONS]
    repair = "fix the cause and commit it, request a reconcile, or wait for the next try."
    if not taken:
        return f"{repair[0].upper()}{repair[1:]}"
    if len(taken) < len(bad):
        return f"Infrastructure ended the runs of {_names(taken)}; for the others {repair}"
    return (
        "Infrastructure ended these runs, not their configuration: look at the nodes, then request a reconcile, or wait"
        " for the next try."
    )


def progressing(cohorts: Cohorts, active: int, obstacles: Sequence[Obstacle]) -> str:
    """Name the members of the active step that run, are gated, or wait, and say for what."""
    stopped = {obstacle.member.metadata.name for obstacle in obstacles}
    cohort = [each for each in cohorts.steps[active].cohort if each.metadata.name not in stopped]
    groups: tuple[tuple[str, Callable[[Workspace], bool]], ...] = (
        ("running", lambda each: each.status.phase in RUNNING),
        ("gated", gated),
        ("about to repeat an interrupted plan", _repeats),
        ("waiting", lambda each: each.status.phase in GRANTABLE and not gated(each) and not _repeats(each)),
        ("with new work", lambda each: each.status.phase in TERMINAL and member_state(each) is MemberState.URGENT),
    )
    parts = [f"{word} {_names(found)}" for word, test in groups if (found := [each for each in cohort if test(each)])]
    parts += [_obstacle(obstacle) for obstacle in obstacles[:MOST_NAMES]]
    if len(obstacles) > MOST_NAMES:
        parts.append(f"{len(obstacles) - MOST_NAMES} more wait for earlier steps")
    return f"Step {cohorts.label(active)} of {len(cohorts.steps)}: {'; '.join(parts) or 'no member has begun'}."


def _repeats(member: Workspace) -> bool:
    return member.status.phase is Phase.PENDING and member.status.reason == Reason.INTERRUPTED


def _obstacle(obstacle: Obstacle) -> str:
    name = obstacle.member.metadata.name
    if obstacle.variable_set:
        old = "; if its plan is older than that, request a reconcile of it" if _planned(obstacle.member) else ""
        return (
            f"{name} waits: VariableSet {obstacle.variable_set}, as its run takes it, is not yet applied by"
            f" {_names(obstacle.behind)}{old}"
        )
    if not obstacle.revision and obstacle.behind:
        return (
            f"{name} waits: RefWatcher has not detected its revision yet (is it running?), and"
            f" {_names(obstacle.behind)} must apply it first"
        )
    if not obstacle.behind:
        return (
            f"{name} waits: the workspace controller has not recorded"
            f" {f'revision {obstacle.revision} for its run' if obstacle.revision else 'its run'} yet (is it running?)"
        )
    behind = [f"{each.metadata.name} ({applied_revision(each) or 'nothing'} applied)" for each in obstacle.behind]
    return f"{name} waits: revision {obstacle.revision} not yet applied by {listed(behind)}"


def _planned(member: Workspace) -> bool:
    return member.status.phase in WITH_PLAN


def _names(members: Iterable[Workspace]) -> str:
    return listed([each.metadata.name for each in members])
