"""The tree view: a Project, the steps of its Rollout, and its Workspaces with phase, reason and what they wait for."""

from collections.abc import Iterable, Sequence

from magos.api.phases import Phase
from magos.api.project import PROJECTS, Project
from magos.api.rollout import ROLLOUTS, Rollout
from magos.api.status import CommonStatus
from magos.api.workspace import WORKSPACES, Workspace
from magos.reconcilers.rollout.cohorts import UnparsableSelector, divide
from magos.runtime.client.client import ApiClient
from magos.runtime.client.errors import ApiError
from magos.terminal import one_line

_SIGNS = {Phase.APPLIED: "✔", Phase.READY: "✔", Phase.FAILED: "✘", Phase.VALIDATION_FAILED: "✘"}
_WHERE = {-1: "  done", 0: "  active", 1: "  waits"}
_OUTSIDE = "(in no step: these never run)"


async def read_tree(client: ApiClient, namespace: str, project: str) -> str | None:
    """Return the tree of a Project; None if neither it nor its Rollout nor a Workspace that names it exists."""
    try:
        found = await client.get(PROJECTS, namespace, project)
    except ApiError as error:
        if not error.not_found:
            raise
        found = None
    try:
        rollout = await client.get(ROLLOUTS, namespace, project)
    except ApiError:  # whoever may not read Rollouts sees the tree without steps
        rollout = None
    members = await members_of(client, namespace, project)
    if found is None and rollout is None and not members:
        return None
    return project_tree(project, found, members, rollout)


async def members_of(client: ApiClient, namespace: str, project: str) -> tuple[Workspace, ...]:
    """Return the Workspaces that name this Project."""
    page = await client.list_all(WORKSPACES, namespace)
    return tuple(each for each in page.items if each.spec.project_ref.name == project)


def project_tree(
    name: str, project: Project | None, workspaces: Iterable[Workspace], rollout: Rollout | None = None
) -> str:
    """Return the tree as text, one line an object, and a line with the message of a Workspace that is not Applied."""
    head = f"Project {one_line(name)}  {'(does not exist)' if project is None else phase_and_reason(project.status)}"
    members = sorted(workspaces, key=lambda workspace: workspace.metadata.name)
    if rollout is None:
        return "\n".join([head, *_members(members, "└─ (no Workspace names this Project)")])
    return "\n".join([head, *_indented(_rollout_lines(rollout, members), last=True)])


def rollout_tree(rollout: Rollout, workspaces: Iterable[Workspace]) -> str:
    """Return the steps of a Rollout with their Workspaces as text."""
    return "\n".join(_rollout_lines(rollout, list(workspaces)))


def phase_and_reason(status: CommonStatus) -> str:
    """Return ``Phase/Reason``, or ``new`` before the controller has written a status."""
    return one_line(f"{status.phase or 'new'}{'/' + status.reason if status.reason else ''}")


def _rollout_lines(rollout: Rollout, members: Sequence[Workspace]) -> list[str]:
    lines = [f"Rollout {one_line(rollout.metadata.name)}  {phase_and_reason(rollout.status)}"]
    if rollout.status.phase is not Phase.APPLIED and rollout.status.message:
        lines.append(f"      {one_line(rollout.status.message)}")
    try:
        divided = divide(rollout.spec.strategy.steps, members)
    except UnparsableSelector as error:
        return [*lines, f"└─ {one_line(str(error))}", *_indented(_members(members, ""), last=True)]
    groups = [
        [_step_line(rollout, index, step.name), *_members(step.cohort, "└─ (no Workspace)")]
        for index, step in enumerate(divided.steps)
    ]
    if divided.unselected:
        groups.append([_OUTSIDE, *_members(divided.unselected, "")])
    if not groups:
        return [*lines, "└─ (no steps: no Workspace runs)"]
    for group in groups:
        lines += _indented(group, last=group is groups[-1])
    return lines


def _step_line(rollout: Rollout, index: int, name: str) -> str:
    current = rollout.status.current_step
    where = "" if current is None else _WHERE[(index > current) - (index < current)]
    return one_line(f"Step {name} ({index + 1} of {len(rollout.spec.strategy.steps)}){where}")


def _indented(lines: Sequence[str], *, last: bool) -> list[str]:
    """Put lines below a line above: the first of them as a branch, the others beside its stem."""
    first, *others = lines or [""]
    return [f"{'└─' if last else '├─'} {first}", *(f"{'  ' if last else '│ '} {line}" for line in others)]


def _members(members: Sequence[Workspace], none: str) -> list[str]:
    lines: list[str] = []
    for index, workspace in enumerate(members):
        last = index == len(members) - 1
        lines.append(f"{'└─' if last else '├─'} {_line(workspace)}")
        status = workspace.status
        if status.phase is not Phase.APPLIED and status.message:
            lines.append(f"{'  ' if last else '│ '}    {one_line(status.message)}")
    return lines or [none]


def _line(workspace: Workspace) -> str:
    status = workspace.status
    sign = _SIGNS.get(status.phase, "…") if status.phase is not None else "…"
    state = f"{phase_and_reason(status):<28} revision {status.observed_revision[:7] or '-'}"
    return one_line(f"{sign} Workspace {workspace.metadata.name:<12} {state}  {workspace.spec.source.path}")
