"""The page of settings, and the choice of a theme."""

from starlette.responses import Response

from magos.api.workspace import WORKSPACES
from magos.server.access import Right, Verb
from magos.server.pages.visit import THEME_COOKIE, Visit
from magos.ui.settings import NamespaceRights, Part, Person, view

MOST = 50
"""Namespaces whose rights are listed."""

_YEAR = 365 * 86_400
_RIGHTS = ((Verb.LIST, ""), (Verb.GET, ""), (Verb.PATCH, ""), (Verb.PATCH, "status"))
"""In the order of ``magos.ui.settings.RIGHTS``."""


async def show(visit: Visit) -> Response:
    """Show who the caller is, what they may do, and what this server is."""
    listed = await visit.listed(WORKSPACES, visit.context.cluster.workspaces)
    namespaces = sorted({each.metadata.namespace for each in listed})
    caller = visit.caller
    rights = [
        NamespaceRights(namespace=each, allowed=tuple([await _allowed(visit, each, *right) for right in _RIGHTS]))
        for each in namespaces[:MOST]
    ]
    person = Person(
        username=caller.username, kind=str(caller.kind), subject=caller.subject, expires_at=caller.expires_at
    )
    more = max(0, len(namespaces) - MOST)
    return visit.page("settings", view(person, tuple(rights), more, _parts(visit), visit.context.clock.now()))


async def theme(visit: Visit) -> Response:
    """Keep the chosen theme in the browser."""
    wanted = (await visit.form()).get("theme", [""])[0]
    response = visit.to("/settings")
    if wanted in ("dark", "light"):
        secure = visit.context.base_url.startswith("https:")
        response.set_cookie(THEME_COOKIE, wanted, _YEAR, path=f"{visit.root}/", samesite="lax", secure=secure)
    else:
        response.delete_cookie(THEME_COOKIE, path=f"{visit.root}/")
    return response


async def _allowed(visit: Visit, namespace: str, verb: Verb, subresource: str) -> bool:
    right = Right(verb=verb, resource=WORKSPACES.plural, subresource=subresource, namespace=namespace)
    return await visit.context.access.allows(visit.caller, right)


def _parts(visit: Visit) -> tuple[Part, ...]:
    context = visit.context
    caches = (
        context.cluster.workspaces,
        context.cluster.projects,
        context.cluster.rollouts,
        context.cluster.variable_sets,
    )
    filled = all(each.synced for each in caches)
    return (
        Part(name="Caches", tone="ok" if filled else "wait", text="filled" if filled else "not filled yet"),
        _switched("Run history", on=context.history is not None),
        _switched("Log archive", on=context.archive is not None),
    )


def _switched(name: str, *, on: bool) -> Part:
    return Part(name=name, tone="ok" if on else "idle", text="on" if on else "switched off")
