"""The table of the pages' routes."""

from starlette.routing import BaseRoute, Route

from magos.server.about import About
from magos.server.context import Context
from magos.server.pages import lists, logpage, objects, settingspage, static, workspacepage
from magos.server.pages.visit import Handler, endpoint

_WORKSPACE = "/workspaces/{namespace}/{name}"
_PAGES: tuple[tuple[str, str, Handler], ...] = (
    ("GET", "/", lists.home),
    ("GET", "/workspaces", lists.workspaces),
    ("GET", "/projects", lists.projects),
    ("GET", "/rollouts", lists.rollouts),
    ("GET", "/variable-sets", lists.variable_sets),
    ("GET", _WORKSPACE, workspacepage.show),
    ("POST", f"{_WORKSPACE}/reconcile", workspacepage.reconcile),
    ("POST", f"{_WORKSPACE}/approve", workspacepage.approve),
    ("GET", f"{_WORKSPACE}/runs/{{runID}}", workspacepage.run),
    ("GET", f"{_WORKSPACE}/runs/{{runID}}/log", logpage.show),
    ("GET", "/projects/{namespace}/{name}", objects.project),
    ("GET", "/rollouts/{namespace}/{name}", objects.rollout),
    ("GET", "/variable-sets/{namespace}/{name}", objects.variable_set),
    ("POST", "/settings/theme", settingspage.theme),
)


def page_routes(context: Context, about: About) -> list[BaseRoute]:
    """Return the routes of all pages and of the files that they load."""
    pages = (*_PAGES, ("GET", "/settings", settingspage.showing(about)))
    return [
        *(Route(path, endpoint(context, handler), methods=[method]) for method, path, handler in pages),
        Route("/static/{file}", static.serve, methods=["GET"]),
    ]
