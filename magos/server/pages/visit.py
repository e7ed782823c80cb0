"""One look at a page: who looks, what they may see, and what stands around the page."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

from msgspec import Struct, structs
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from magos.api.meta import Kind, Resource
from magos.api.project import Project
from magos.api.rollout import Rollout
from magos.api.timestamps import format_time
from magos.api.workspace import Workspace
from magos.explain import Account, explain
from magos.runtime.cache.informer import Informer
from magos.server.access import Right, Verb
from magos.server.context import Context
from magos.server.identity import Caller
from magos.server.problems import Problem
from magos.server.table import CALLER, well_formed
from magos.ui.render import assets, render
from magos.ui.shell import Live, Shell

CSRF_COOKIE = "magos_csrf"
THEME_COOKIE = "magos_theme"
_NAVIGATION_COOKIE = "magos_nav"
_THEMES = ("dark", "light")

R = TypeVar("R", bound=Resource)


class Visit(Struct, frozen=True, kw_only=True):
    """A request of a caller who is known. Methods raise a ``Problem`` where something may not be seen."""

    context: Context
    request: Request
    caller: Caller

    @property
    def root(self) -> str:
        """The path under which the UI is served, without a slash at the end."""
        return root_of(self.context.base_url)

    @property
    def namespace(self) -> str:
        """The namespace of the path, a well-formed name."""
        return well_formed("namespace", self.request.path_params["namespace"])

    @property
    def name(self) -> str:
        """The object's name of the path, well-formed."""
        return well_formed("name", self.request.path_params["name"])

    def query(self, parameter: str) -> str:
        """Return a parameter of the query, empty if there is none."""
        return self.request.query_params.get(parameter, "")

    async def form(self) -> dict[str, list[str]]:
        """Return the fields of the form that was sent. Raises a ``Problem`` 400 for what is no form of ours."""
        body = await self.request.body()
        try:
            pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=200)
        except ValueError as error:
            raise Problem(400, "the form cannot be read, reload the page") from error
        fields: dict[str, list[str]] = {}
        for key, value in pairs:
            fields.setdefault(key, []).append(value)
        return fields

    async def listed(self, kind: Kind[R], informer: Informer[R]) -> tuple[R, ...]:
        """Return the objects of a kind that the caller may list, in the order of namespace and name."""
        items = informer.cache.list()
        namespaces = {each.metadata.namespace for each in items}
        visible = await self.context.access.visible(self.caller, Verb.LIST, kind.plural, namespaces)
        if visible is None:
            return items
        return tuple(each for each in items if each.metadata.namespace in visible)

    async def found(self, kind: Kind[R], informer: Informer[R]) -> R:
        """Return the object of the path. Raises a ``Problem`` 403 for whoever may not get it, 404 if there is none."""
        right = Right(verb=Verb.GET, resource=kind.plural, namespace=self.namespace, name=self.name)
        await self.context.access.require(self.caller, right)
        item = informer.cache.get(self.namespace, self.name)
        if item is None:
            raise Problem(404, f"there is no {kind.ref(self.namespace, self.name)}")
        return item

    async def beside(self, kind: Kind[R], informer: Informer[R], namespace: str) -> tuple[R, ...]:
        """Return the objects of a kind in a namespace, or none where the caller may not list them."""
        right = Right(verb=Verb.LIST, resource=kind.plural, namespace=namespace)
        return informer.cache.list(namespace) if await self.context.access.allows(self.caller, right) else ()

    def account(self, workspace: Workspace) -> Account:
        """Return how things stand with a Workspace, in words."""
        project, rollout = self.above(workspace)
        return explain(workspace, project, rollout, self.context.clock.now())

    def above(self, workspace: Workspace) -> tuple[Project | None, Rollout | None]:
        """Return the Project of a Workspace and the Project's Rollout."""
        key = (workspace.metadata.namespace, workspace.spec.project_ref.name)
        cluster = self.context.cluster
        return cluster.projects.cache.get(*key), cluster.rollouts.cache.get(*key)

    def page(self, template: str, view: Any, *, live: Live | None = None, status: int = 200) -> Response:
        """Return the page."""
        path = self.request.url.path + (f"?{self.request.url.query}" if self.request.url.query else "")
        about = shell_of(self.request, path, self.root, self.context.version)
        shell = structs.replace(
            about, username=self.caller.username, live=live, now=format_time(self.context.clock.now())
        )
        return HTMLResponse(render(template, shell, view), status)

    def to(self, path: str) -> Response:
        """Return the answer that leads on to ``path``, below the root, after a form was taken."""
        return RedirectResponse(self.root + path, 303)


Handler = Callable[[Visit], Awaitable[Response]]


def endpoint(context: Context, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    """Return the endpoint that finds out who asks and then calls ``handler``."""

    async def visited(request: Request) -> Response:
        caller = await context.authenticator.caller(request)
        request.scope[CALLER] = caller.username
        return await handler(Visit(context=context, request=request, caller=caller))

    return visited


def root_of(base_url: str) -> str:
    """Return the path of the base URL, without a slash at the end."""
    return urlsplit(base_url).path.rstrip("/")


def shell_of(request: Request, path: str, root: str, version: str) -> Shell:
    """Return what stands around a page, of nobody in particular."""
    cookies = request.cookies
    theme = cookies.get(THEME_COOKIE, "")
    return Shell(
        root=root,
        path=path,
        version=version,
        assets=assets(),
        csrf=cookies.get(CSRF_COOKIE, ""),
        theme=theme if theme in _THEMES else "",
        collapsed=cookies.get(_NAVIGATION_COOKIE) == "narrow",
    )
