"""Finds out who makes a request: by bearer token, by the token in the address of a stream, or by the session cookie.

A request that carries a bearer token is judged by it alone. Who claims to have issued the token chooses who verifies
it, and nothing else: each verifier accepts its own algorithms and keys only.
"""

import re

from starlette.requests import Request

from magos.server.auth.accounts import AccountTokens
from magos.server.auth.admin import AdminTokens
from magos.server.auth.csrf import CsrfGuard
from magos.server.auth.idtokens import IdTokens
from magos.server.auth.sessions import COOKIE, Sessions
from magos.server.auth.settings import AuthSettings
from magos.server.auth.signed import Unverified, issuer_of
from magos.server.identity import Caller
from magos.server.problems import unauthenticated

_STREAMS = re.compile(
    r"/apis/magosproject\.io/v1alpha1/"
    r"((workspaces|projects|rollouts|variablesets)/events|workspaces/[^/]+/[^/]+/runs/current/log/stream)"
)
_PARAMETER = "access_token"


class RequestAuthenticator:
    """The ``Authenticator`` of the server: see there. Also ``Problem`` 502 and 503 where a verifier cannot ask."""

    def __init__(
        self,
        *,
        settings: AuthSettings,
        admin: AdminTokens,
        oidc: IdTokens | None,
        accounts: AccountTokens,
        sessions: Sessions,
        guard: CsrfGuard,
    ) -> None:
        self._settings = settings
        self._admin = admin
        self._oidc = oidc
        self._accounts = accounts
        self._sessions = sessions
        self._guard = guard

    async def caller(self, request: Request) -> Caller:
        """Return the caller; see the module."""
        try:
            token = bearer_token(request)
            if token is not None:
                return await self._by_token(token)
            session = self._sessions.read(request.cookies.get(COOKIE, ""))
        except Unverified:
            raise unauthenticated() from None
        await self._guard.check(request, session)
        return session.caller

    async def _by_token(self, token: str) -> Caller:
        issuer = issuer_of(token)
        if issuer == self._settings.base_url:
            return self._admin.caller(token)
        if self._oidc is not None and self._settings.oidc is not None and issuer == self._settings.oidc.issuer:
            return await self._oidc.caller(token)
        return await self._accounts.caller(token)


def bearer_token(request: Request) -> str | None:
    """Return the token the request carries, None if it carries none; raise ``Unverified`` for another scheme or two."""
    headers = request.headers.getlist("authorization")
    if headers:
        scheme, _, token = headers[0].partition(" ")
        if len(headers) > 1 or scheme.lower() != "bearer" or not token.strip():
            raise Unverified("not one bearer token")
        return token.strip()
    given = request.query_params.getlist(_PARAMETER)
    if given and request.method == "GET" and _is_stream(request):
        if len(given) > 1:
            raise Unverified("more than one token")
        return given[0]
    return None


def _is_stream(request: Request) -> bool:
    path = str(request.scope["path"]).removeprefix(str(request.scope.get("root_path", "")))
    return _STREAMS.fullmatch(path) is not None
