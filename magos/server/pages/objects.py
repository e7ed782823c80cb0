"""The pages of one Project, one Rollout and one VariableSet."""

from collections.abc import Sequence

from starlette.responses import Response

from magos.api.project import PROJECTS
from magos.api.rollout import ROLLOUTS
from magos.api.status import API_VERSION
from magos.api.variableset import VARIABLESETS
from magos.api.workspace import WORKSPACES, Workspace
from magos.server.pages.lists import STREAMED
from magos.server.pages.visit import Visit
from magos.ui import projects, rollouts, variablesets
from magos.ui.links import query
from magos.ui.shell import Live


async def project(visit: Visit) -> Response:
    """Show a Project."""
    cluster = visit.context.cluster
    found = await visit.found(PROJECTS, cluster.projects)
    around = projects.Surroundings(
        members=await _members(visit, found.metadata.name),
        rollout=cluster.rollouts.cache.get(visit.namespace, found.metadata.name),
        explained=visit.account,
        now=visit.context.clock.now(),
        root=visit.root,
    )
    return visit.page("project", projects.view(found, around), live=_live(visit, found.metadata.name, around.members))


async def rollout(visit: Visit) -> Response:
    """Show a Rollout."""
    found = await visit.found(ROLLOUTS, visit.context.cluster.rollouts)
    members = await _members(visit, found.spec.project_ref)
    view = rollouts.view(found, members, visit.context.clock.now())
    return visit.page("rollout", view, live=_live(visit, found.spec.project_ref, members))


async def variable_set(visit: Visit) -> Response:
    """Show a VariableSet."""
    cluster = visit.context.cluster
    found = await visit.found(VARIABLESETS, cluster.variable_sets)
    view = variablesets.view(
        found,
        await visit.beside(PROJECTS, cluster.projects, visit.namespace),
        await visit.beside(WORKSPACES, cluster.workspaces, visit.namespace),
        visit.context.clock.now(),
    )
    stream = query(f"/apis/{API_VERSION}/variablesets/events", namespace=visit.namespace)
    return visit.page("variable-set", view, live=Live(stream=stream, name=visit.name))


async def _members(visit: Visit, project_name: str) -> tuple[Workspace, ...]:
    listed = await visit.beside(WORKSPACES, visit.context.cluster.workspaces, visit.namespace)
    return tuple(each for each in listed if each.spec.project_ref.name == project_name)


def _live(visit: Visit, project_name: str, members: Sequence[Workspace]) -> Live:
    stream = query(f"/apis/{API_VERSION}/workspaces/events", namespace=visit.namespace, projectRef=project_name)
    return Live(stream=stream if len(members) <= STREAMED else "")
