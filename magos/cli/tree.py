"""The tree view: a Project and its Workspaces, each with phase and reason, and a message unless it is Applied."""

from collections.abc import Iterable, Mapping

from magos.api.phases import Phase
from magos.api.project import PROJECTS, Project
from magos.api.status import CommonStatus
from magos.api.workspace import WORKSPACES, Workspace
from magos.runtime.client.client import ApiClient
from magos.runtime.client.config import load_config
from magos.runtime.client.errors import ApiError
from magos.runtime.client.http import connect
from magos.terminal import one_line

_SIGNS = {Phase.APPLIED: "✔", Phase.READY: "✔", Phase.FAILED: "✘", Phase.VALIDATION_FAILED: "✘"}


async def load_tree(environ: Mapping[str, str], context: str, namespace: str, project: str) -> str | None:
    """Read a Project with a kubeconfig and return its tree; None if neither it nor a Workspace that names it exists."""
    config = load_config(None, context or None, environ=environ)
    client = ApiClient(connect(config, user_agent="magos (cli)"))
    try:
        return await read_tree(client, namespace or config.namespace, project)
    finally:
        await client.aclose()


async def read_tree(client: ApiClient, namespace: str, project: str) -> str | None:
    """Do the same with an open client and a namespace that is not empty."""
    try:
        found = await client.get(PROJECTS, namespace, project)
    except ApiError as error:
        if not error.not_found:
            raise
        found = None
    page = await client.list(WORKSPACES, namespace, field_selector=f"spec.projectRef.name={project}")
    if found is None and not page.items:
        return None
    return project_tree(project, found, page.items)


def project_tree(name: str, project: Project | None, workspaces: Iterable[Workspace]) -> str:
    """Return the tree as text, one line an object, and a line with the message of a Workspace that is not Applied."""
    lines = [f"Project {one_line(name)}  {'(does not exist)' if project is None else phase_and_reason(project.status)}"]
    members = sorted(workspaces, key=lambda workspace: workspace.metadata.name)
    for index, workspace in enumerate(members):
        last = index == len(members) - 1
        lines.append(f"{'└─' if last else '├─'} {_line(workspace)}")
        status = workspace.status
        if status.phase is not Phase.APPLIED and status.message:
            lines.append(f"{'  ' if last else '│ '}    {one_line(status.message)}")
    if not members:
        lines.append("└─ (no Workspace names this Project)")
    return "\n".join(lines)


def phase_and_reason(status: CommonStatus) -> str:
    """Return ``Phase/Reason``, or ``new`` before the controller has written a status."""
    return one_line(f"{status.phase or 'new'}{'/' + status.reason if status.reason else ''}")


def _line(workspace: Workspace) -> str:
    status = workspace.status
    sign = _SIGNS.get(status.phase, "…") if status.phase is not None else "…"
    state = f"{phase_and_reason(status):<28} revision {status.observed_revision[:7] or '-'}"
    return one_line(f"{sign} Workspace {workspace.metadata.name:<12} {state}  {workspace.spec.source.path}")
