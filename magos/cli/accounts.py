"""How things stand with a Workspace, read from the cluster and told in words."""

from magos.api.meta import ObjectMeta
from magos.api.project import PROJECTS, Project
from magos.api.rollout import ROLLOUTS, Rollout
from magos.api.workspace import Workspace
from magos.cli.session import Cluster, Session
from magos.explain import Account, explain
from magos.runtime.client.errors import ApiError


async def account_of(here: Session, cluster: Cluster, workspace: Workspace) -> Account:
    """Return the account of a Workspace with its Project and Rollout as they are now."""
    namespace, name = workspace.metadata.namespace, workspace.spec.project_ref.name
    project = await _project(cluster, namespace, name)
    rollout = await _rollout(cluster, namespace, name)
    return explain(workspace, project, rollout, here.now())


async def _project(cluster: Cluster, namespace: str, name: str) -> Project | None:
    """Return the Project, None if there is none. One that may not be read is not taken for missing."""
    try:
        return await cluster.client.get(PROJECTS, namespace, name)
    except ApiError as error:
        if error.not_found:
            return None
        return Project(metadata=ObjectMeta(name=name, namespace=namespace))


async def _rollout(cluster: Cluster, namespace: str, name: str) -> Rollout | None:
    try:
        return await cluster.client.get(ROLLOUTS, namespace, name)
    except ApiError:
        return None
