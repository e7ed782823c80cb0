"""The home page and the lists."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct
from starlette.responses import Response

from magos.api.project import PROJECTS
from magos.api.rollout import ROLLOUTS
from magos.api.variableset import VARIABLESETS
from magos.api.workspace import WORKSPACES, Workspace
from magos.server.pages.following import following
from magos.server.pages.visit import Visit
from magos.ui import home as homepage
from magos.ui import links
from magos.ui.projects import project_row
from magos.ui.rollouts import rollout_row
from magos.ui.variablesets import set_row
from magos.ui.workspaces import PAGE, Query
from magos.ui.workspaces import view as list_view


class ListPage(Struct, frozen=True, kw_only=True):
    """A page of a list other than that of Workspaces."""

    rows: tuple[Any, ...]
    newer: str
    older: str


async def home(visit: Visit) -> Response:
    """Show what needs the caller, what is broken, what runs and what was applied lately."""
    workspaces = await visit.listed(WORKSPACES, visit.context.cluster.workspaces)
    view = homepage.view(workspaces, visit.account, visit.context.clock.now())
    return visit.page("home", view, live=following("workspaces", workspaces))


async def workspaces(visit: Visit) -> Response:
    """Show the list of Workspaces."""
    found = await visit.listed(WORKSPACES, visit.context.cluster.workspaces)
    query = Query.parse(dict(visit.request.query_params))
    view = list_view(found, query, visit.account, visit.context.clock.now())
    return visit.page("workspaces", view, live=following("workspaces", found))


async def projects(visit: Visit) -> Response:
    """Show the list of Projects."""
    cluster = visit.context.cluster
    found = await visit.listed(PROJECTS, cluster.projects)
    members: dict[tuple[str, str], list[Workspace]] = defaultdict(list)
    for each in await visit.listed(WORKSPACES, cluster.workspaces):
        members[each.metadata.namespace, each.spec.project_ref.name].append(each)
    page = _page(
        visit, "/projects", found, lambda each: project_row(each, members[each.metadata.namespace, each.metadata.name])
    )
    return visit.page("projects", page, live=following("projects", found))


async def rollouts(visit: Visit) -> Response:
    """Show the list of Rollouts."""
    found = await visit.listed(ROLLOUTS, visit.context.cluster.rollouts)
    return visit.page("rollouts", _page(visit, "/rollouts", found, rollout_row), live=following("rollouts", found))


async def variable_sets(visit: Visit) -> Response:
    """Show the list of VariableSets."""
    found = await visit.listed(VARIABLESETS, visit.context.cluster.variable_sets)
    now = visit.context.clock.now()
    page = _page(visit, "/variable-sets", found, lambda each: set_row(each, now))
    return visit.page("variable-sets", page, live=following("variablesets", found))


def _page(visit: Visit, path: str, found: Sequence[Any], row: Callable[[Any], Any]) -> ListPage:
    """Return the page behind the object that the parameter ``after`` names, as ``namespace/name``."""
    namespace, _, name = visit.query("after").partition("/")
    rest = [each for each in found if (each.metadata.namespace, each.metadata.name) > (namespace, name)]
    shown = rest[:PAGE]
    last = shown[-1].metadata if shown else None
    more = last is not None and len(rest) > PAGE
    return ListPage(
        rows=tuple(map(row, shown)),
        newer=path if namespace else "",
        older=links.query(path, after=f"{last.namespace}/{last.name}") if last is not None and more else "",
    )
