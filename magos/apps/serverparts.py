"""What ``magos-api`` is joined of besides the API itself: login and rights, pages, history and the archive."""

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence

import structlog
from msgspec import Struct
from starlette.routing import BaseRoute

from magos.api.kube.mappedaccounts import MAPPED_ACCOUNTS
from magos.history.archive import LogArchive
from magos.history.s3settings import load_s3_settings
from magos.history.settings import HistorySettings, load_history_settings
from magos.history.store import HistoryReader
from magos.runtime.cache.informer import Informer
from magos.runtime.client.client import ApiClient
from magos.runtime.clock import Clock
from magos.server.about import About
from magos.server.access import Access
from magos.server.auth.assembly import build
from magos.server.auth.loginpage import LoginView
from magos.server.auth.settings import load_auth_settings
from magos.server.context import Authenticator, Context
from magos.server.pages import page_routes, refusal_pages
from magos.server.pages.visit import root_of
from magos.server.refusals import Render
from magos.server.settings import ServerSettings
from magos.server.table import Operation
from magos.ui.login import login
from magos.version import VERSION

_log = structlog.get_logger(__name__)


async def _nothing() -> None:
    """Close nothing."""


class Parts(Struct, frozen=True, kw_only=True):
    """What is joined to the API: who calls and what they may, history, and routes of login and pages."""

    access: Access
    authenticator: Authenticator
    history: HistoryReader | None = None
    archive: LogArchive | None = None
    operations: Sequence[Operation] = ()
    routes: Callable[[Context], Sequence[BaseRoute]] = lambda _context: ()
    render: Render | None = None
    beside: Sequence[Callable[[], Awaitable[None]]] = ()
    """What runs beside the server, for ever."""
    close: Callable[[], Awaitable[None]] = _nothing
    """Closes what the parts have opened; called once, when the server has ended."""


Join = Callable[[Mapping[str, str], ServerSettings, ApiClient, Clock], Parts]
"""Makes the parts. Raises ``ConfigurationError``."""


def join(environ: Mapping[str, str], settings: ServerSettings, client: ApiClient, clock: Clock) -> Parts:
    """Return the parts that ``environ`` sets; the database and the bucket are connected to when they are first read."""
    auth_settings = load_auth_settings(environ)
    kept = load_history_settings(environ)
    history, close_history = _history(kept)
    archive, close_archive = _archive(environ)
    rng = random.Random()  # noqa: S311 - jitter, not secrets
    accounts = Informer(client, MAPPED_ACCOUNTS, clock=clock, rng=rng)
    root = root_of(settings.base_url)

    def render(view: LoginView) -> str:
        return login(view, root=root, version=VERSION)

    auth = build(auth_settings, client=client, accounts=accounts, clock=clock, version=VERSION, render=render)

    about = About(
        admin=auth_settings.admin.enabled,
        issuer=auth_settings.oidc.issuer if auth_settings.oidc else "",
        retention=kept.retention if kept else None,
    )

    async def close() -> None:
        for each in (auth.close, close_history, close_archive):
            await each()

    return Parts(
        access=auth.access,
        authenticator=auth.authenticator,
        history=history,
        archive=archive,
        operations=auth.operations,
        routes=lambda context: [*auth.routes, *page_routes(context, about)],
        render=refusal_pages(settings.base_url, VERSION),
        beside=(accounts.run,),
        close=close,
    )


def _history(settings: HistorySettings | None) -> tuple[HistoryReader | None, Callable[[], Awaitable[None]]]:
    if settings is None:
        return None, _nothing
    from magos.history.postgres import PostgresHistory

    for warning in settings.retention.warnings:
        _log.warning("setting ignored", problem=warning)
    history = PostgresHistory(settings.postgres)
    return history, history.aclose


def _archive(environ: Mapping[str, str]) -> tuple[LogArchive | None, Callable[[], Awaitable[None]]]:
    settings = load_s3_settings(environ)
    if settings is None:
        return None, _nothing
    from magos.history.s3 import S3Archive

    archive = S3Archive(settings)
    return archive, archive.aclose
