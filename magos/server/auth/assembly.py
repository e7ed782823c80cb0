"""Joins the parts of authentication and authorisation for the composition root."""

from collections.abc import Mapping, Sequence
from typing import Any

import httpx
from msgspec import Struct
from starlette.routing import Route

from magos.api.kube.mappedaccounts import MappedAccount
from magos.runtime.cache.informer import Informer
from magos.runtime.client.client import ApiClient
from magos.runtime.clock import Clock
from magos.server.auth.access import ReviewedAccess
from magos.server.auth.accounts import AccountTokens
from magos.server.auth.admin import AdminTokens
from magos.server.auth.authenticator import RequestAuthenticator
from magos.server.auth.codeflow import CodeFlow
from magos.server.auth.csrf import CsrfGuard, LoginTokens
from magos.server.auth.dex import PATH, DexProxy
from magos.server.auth.fetching import fetch_object, http_client
from magos.server.auth.idtokens import IdTokens
from magos.server.auth.login import LoginParts, routes
from magos.server.auth.loginpage import RenderLogin, plain_page
from magos.server.auth.mappings import Mappings
from magos.server.auth.passwords import Passwords
from magos.server.auth.programs import Proofs, operations
from magos.server.auth.provider import Provider
from magos.server.auth.ratelimit import RateLimiter
from magos.server.auth.reviews import Reviews
from magos.server.auth.sessions import Sessions
from magos.server.auth.settings import AuthSettings, OidcSettings
from magos.server.table import Operation


class Auth(Struct, frozen=True, kw_only=True):
    """What the server needs of it. ``close`` ends threads and connections."""

    authenticator: RequestAuthenticator
    access: ReviewedAccess
    operations: Sequence[Operation]
    """What the API offers to programs that log in."""
    routes: Sequence[Route]
    """The pages of login, and Dex."""
    passwords: Passwords
    clients: tuple[httpx.AsyncClient, ...]

    async def close(self) -> None:
        """Close what is open."""
        self.passwords.close()
        for client in self.clients:
            await client.aclose()


class _Oidc(Struct, frozen=True, kw_only=True):
    tokens: IdTokens
    flow: CodeFlow


def build(
    settings: AuthSettings,
    *,
    client: ApiClient,
    accounts: Informer[MappedAccount],
    clock: Clock,
    version: str,
    render: RenderLogin | None = None,
) -> Auth:
    """Return the parts. ``accounts`` watches ``MAPPED_ACCOUNTS`` of all namespaces; whoever made it runs it."""
    sessions = Sessions(settings, clock)
    guard = CsrfGuard(sessions, settings.base_url)
    mappings = Mappings(accounts, settings.release_namespace, settings.global_namespaces)
    access = ReviewedAccess(mappings, Reviews(client, clock))
    dex_client = http_client(settings.dex.ca_file) if settings.dex else None
    oidc_client = http_client(settings.oidc.ca_file) if settings.oidc else None
    oidc = _oidc(settings, settings.oidc, oidc_client, dex_client, clock) if settings.oidc and oidc_client else None
    admin = AdminTokens(settings.admin, settings.base_url, clock)
    passwords = Passwords(settings.admin)
    authenticator = RequestAuthenticator(
        settings=settings,
        admin=admin,
        oidc=oidc.tokens if oidc else None,
        accounts=AccountTokens(client, clock),
        sessions=sessions,
        guard=guard,
    )
    proofs = Proofs(
        settings=settings,
        clock=clock,
        access=access,
        mappings=mappings,
        admin=admin,
        passwords=passwords,
        limiter=RateLimiter(clock.monotonic),
        flow=oidc.flow if oidc else None,
        version=version,
    )
    parts = LoginParts(
        proofs=proofs,
        sessions=sessions,
        guard=guard,
        tokens=LoginTokens(settings.session_key.derive("login form")),
        dex=DexProxy(settings, settings.dex, dex_client) if settings.dex and dex_client else None,
        render=render or plain_page(settings.base_url),
    )
    return Auth(
        authenticator=authenticator,
        access=access,
        operations=operations(proofs),
        routes=routes(parts),
        passwords=passwords,
        clients=tuple(each for each in (dex_client, oidc_client) if each is not None),
    )


def _oidc(
    settings: AuthSettings,
    oidc: OidcSettings,
    client: httpx.AsyncClient,
    dex_client: httpx.AsyncClient | None,
    clock: Clock,
) -> _Oidc:
    """Return what talks to the provider. A Dex behind our own address is asked directly, not by way of ourselves."""
    public = f"{settings.base_url}{PATH}/"

    def way(url: str) -> tuple[httpx.AsyncClient, str]:
        if settings.dex is not None and dex_client is not None and url.startswith(public):
            return dex_client, f"{settings.dex.url}/{url.removeprefix(public)}"
        return client, url

    async def get(url: str) -> Mapping[str, Any]:
        return await fetch_object(*way(url))

    async def post(url: str, form: Mapping[str, str]) -> Mapping[str, Any]:
        return await fetch_object(*way(url), form)

    provider = Provider(oidc.issuer, get, clock, insecure=settings.insecure_issuer)
    tokens = IdTokens(oidc, provider, clock)
    flow = CodeFlow(
        settings=oidc,
        provider=provider,
        tokens=tokens,
        post=post,
        base_url=settings.base_url,
        key=settings.session_key.derive("login state"),
        clock=clock,
    )
    return _Oidc(tokens=tokens, flow=flow)
