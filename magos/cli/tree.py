"""The tree view: a Project and its Workspaces, each with phase, reason and what it waits for. Pure."""

from collections.abc import Iterable

from magos.api.phases import Phase
from magos.api.project import Project
from magos.api.workspace import Workspace

__all__ = ["project_tree"]

_SIGNS = {Phase.APPLIED: "✔", Phase.READY: "✔", Phase.FAILED: "✘", Phase.VALIDATION_FAILED: "✘"}


def project_tree(name: str, project: Project | None, workspaces: Iterable[Workspace]) -> str:
    """Return the tree of one Project as text, one line an object; a message follows where an object is not settled."""
    lines = [f"Project {name}  {_state(project)}"]
    members = sorted(workspaces, key=lambda workspace: workspace.metadata.name)
    for index, workspace in enumerate(members):
        last = index == len(members) - 1
        lines.append(f"{'└─' if last else '├─'} {_line(workspace)}")
        status = workspace.status
        if status.phase is not Phase.APPLIED and status.message:
            lines.append(f"{'  ' if last else '│ '}    {status.message}")
    if not members:
        lines.append("└─ (no Workspace names this Project)")
    return "\n".join(lines)


def _state(project: Project | None) -> str:
    if project is None:
        return "(does not exist)"
    status = project.status
    return f"{status.phase or 'new'}/{status.reason}" if status.reason else str(status.phase or "new")


def _line(workspace: Workspace) -> str:
    status = workspace.status
    sign = _SIGNS.get(status.phase, "…") if status.phase is not None else "…"
    phase = f"{status.phase or 'new'}{'/' + status.reason if status.reason else ''}"
    revision = status.observed_revision[:7] or "-"
    return (
        f"{sign} Workspace {workspace.metadata.name:<12} {phase:<28} revision {revision}  {workspace.spec.source.path}"
    )
