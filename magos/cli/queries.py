"""What the commands read from the cluster, with a kubeconfig only."""

from collections.abc import Mapping

from magos.api.project import PROJECTS
from magos.api.workspace import WORKSPACES
from magos.cli.tree import project_tree
from magos.runtime.client.client import ApiClient, ApiError
from magos.runtime.client.config import load_config
from magos.runtime.client.http import connect

__all__ = ["load_tree"]


async def load_tree(environ: Mapping[str, str], context: str, namespace: str, project: str) -> str | None:
    """Return the tree of a Project; None if neither it nor a Workspace that names it exists."""
    config = load_config(None, context or None, environ=environ)
    client = ApiClient(connect(config, user_agent="magos (cli)"))
    namespace = namespace or config.namespace
    try:
        try:
            found = await client.get(PROJECTS, namespace, project)
        except ApiError as error:
            if not error.not_found:
                raise
            found = None
        page = await client.list(WORKSPACES, namespace, field_selector=f"spec.projectRef.name={project}")
    finally:
        await client.aclose()
    members = page.complete(WORKSPACES)
    if found is None and not members:
        return None
    return project_tree(project, found, members)
