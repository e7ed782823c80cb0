"""The pages of one Project, one Rollout and one VariableSet."""

from starlette.responses import Response

from magos.api.project import PROJECTS
from magos.api.rollout import ROLLOUTS
from magos.api.variableset import VARIABLESETS
from magos.api.workspace import WORKSPACES, Workspace
from magos.server.pages.following import alone, with_members
from magos.server.pages.visit import Visit
from magos.ui import projects, rollouts, variablesets


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
    live = await with_members(visit, "projects", found, found.metadata.name, around.members)
    return visit.page("project", projects.view(found, around), live=live)


async def rollout(visit: Visit) -> Response:
    """Show a Rollout."""
    found = await visit.found(ROLLOUTS, visit.context.cluster.rollouts)
    members = await _members(visit, found.spec.project_ref)
    view = rollouts.view(found, members, visit.context.clock.now())
    live = await with_members(visit, "rollouts", found, found.spec.project_ref, members)
    return visit.page("rollout", view, live=live)


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
    return visit.page("variable-set", view, live=await alone(visit, "variablesets", found))


async def _members(visit: Visit, project_name: str) -> tuple[Workspace, ...]:
    listed = await visit.beside(WORKSPACES, visit.context.cluster.workspaces, visit.namespace)
    return tuple(each for each in listed if each.spec.project_ref.name == project_name)
