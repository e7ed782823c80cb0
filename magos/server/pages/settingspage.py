"""The page of settings, and the choice of a theme."""

from datetime import timedelta

from starlette.responses import Response

from magos.api.workspace import WORKSPACES
from magos.durations import format_duration
from magos.history.settings import Retention
from magos.server.about import About
from magos.server.access import Right, Verb
from magos.server.context import Context
from magos.server.pages.visit import THEME_COOKIE, Handler, Visit
from magos.ui.settings import NamespaceRights, Part, Person, view

MOST = 50
"""Namespaces whose rights are listed."""

_YEAR = 365 * 86_400
_RIGHTS = ((Verb.LIST, ""), (Verb.GET, ""), (Verb.PATCH, ""), (Verb.PATCH, "status"))
"""In the order of ``magos.ui.settings.RIGHTS``."""


def showing(about: About) -> Handler:
    """Return the handler that shows who the caller is, what they may do, and what this server is."""

    async def show(visit: Visit) -> Response:
        return await _shown(visit, about)

    return show


async def _shown(visit: Visit, about: About) -> Response:
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
    return visit.page(
        "settings", view(person, tuple(rights), more, _parts(visit.context, about), visit.context.clock.now())
    )


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


def _parts(context: Context, about: About) -> tuple[Part, ...]:
    caches = (
        context.cluster.workspaces,
        context.cluster.projects,
        context.cluster.rollouts,
        context.cluster.variable_sets,
    )
    filled = all(each.synced for each in caches)
    return (
        Part(name="Caches", tone="ok" if filled else "wait", text="filled" if filled else "not filled yet"),
        _switched("Login as admin", "on" if about.admin else ""),
        _switched("Identity provider", about.issuer),
        _switched("Run history", "in PostgreSQL" if context.history is not None else ""),
        *([] if about.retention is None else [Part(name="Runs are kept", tone="idle", text=_kept(about.retention))]),
        _switched("Log archive", "in a bucket" if context.archive is not None else ""),
    )


def _switched(name: str, how: str) -> Part:
    return Part(name=name, tone="ok" if how else "idle", text=how or "switched off")


def _kept(retention: Retention) -> str:
    days, rest = divmod(retention.ttl, timedelta(days=1))
    lasts = format_duration(retention.ttl) if rest else f"{days} days"
    return f"the newest {retention.keep} that have ended of each Workspace; all of a deleted one for {lasts}"
