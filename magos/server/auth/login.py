"""Routes of login and logout, of programs that log in, and what anybody may know of how to (spec §9.2, §9.3)."""

from collections.abc import Mapping
from typing import Any

import msgspec
import structlog
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from magos.runtime.clock import Clock
from magos.server.auth import csrf
from magos.server.auth.access import ReviewedAccess
from magos.server.auth.admin import AdminTokens, admin_caller
from magos.server.auth.authenticator import RequestAuthenticator
from magos.server.auth.clientaddress import client_address
from magos.server.auth.codeflow import LASTS, CodeFlow
from magos.server.auth.csrf import CsrfGuard, LoginTokens
from magos.server.auth.dex import METHODS, PATH, STATE_COOKIE, DexProxy
from magos.server.auth.loginpage import LoginView, RenderLogin, forwarding_page
from magos.server.auth.mappings import Mappings
from magos.server.auth.origins import return_path
from magos.server.auth.passwords import Passwords
from magos.server.auth.ratelimit import RateLimiter
from magos.server.auth.sessions import COOKIE, Sessions
from magos.server.auth.settings import AuthSettings
from magos.server.auth.signed import Unverified
from magos.server.identity import Caller
from magos.server.problems import Problem

API = "/api/v1alpha1"
_LARGEST_BODY = 16 * 1024

log = structlog.get_logger(__name__)


class LoginParts(Struct, frozen=True, kw_only=True):
    """What the routes work with. ``flow`` is None without an identity provider, ``dex`` without Dex."""

    settings: AuthSettings
    clock: Clock
    authenticator: RequestAuthenticator
    access: ReviewedAccess
    mappings: Mappings
    admin: AdminTokens
    passwords: Passwords
    limiter: RateLimiter
    sessions: Sessions
    guard: CsrfGuard
    tokens: LoginTokens
    flow: CodeFlow | None
    dex: DexProxy | None
    render: RenderLogin
    version: str


class _TokenRequest(Struct, frozen=True, kw_only=True):
    code: str
    code_verifier: str = msgspec.field(name="codeVerifier")
    redirect_uri: str = msgspec.field(name="redirectURI")
    client_id: str = msgspec.field(name="clientID")

    def __repr__(self) -> str:
        return "_TokenRequest(<hidden>)"


def routes(parts: LoginParts) -> list[Route]:
    """Return the routes. Their handlers raise ``Problem`` where they do not render a page."""
    login = _Login(parts)
    found = [
        Route(f"{API}/auth/login", login.password_for_token, methods=["POST"]),
        Route(f"{API}/auth/token", login.code_for_token, methods=["POST"]),
        Route(f"{API}/auth/whoami", login.whoami, methods=["GET"]),
        Route(f"{API}/system/public-config", login.public_config, methods=["GET"]),
        Route("/login", login.show, methods=["GET"]),
        Route("/login", login.submit, methods=["POST"]),
        Route("/logout", login.logout, methods=["POST"]),
    ]
    if parts.dex is not None:
        found += [Route(path, parts.dex.handle, methods=list(METHODS)) for path in (PATH, f"{PATH}/{{rest:path}}")]
    return found


class _Login:
    def __init__(self, parts: LoginParts) -> None:
        self._parts = parts
        self._settings = parts.settings

    async def password_for_token(self, request: Request) -> Response:
        scheme, _, password = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not password:
            raise _failed()
        await self._check_password(request, password.encode("latin-1").decode("utf-8", "surrogateescape"))
        return _json({"idToken": self._parts.admin.mint()})

    async def code_for_token(self, request: Request) -> Response:
        if self._parts.flow is None:
            raise Problem(404, "no identity provider is set, see OIDC_ISSUER_URL")
        try:
            wanted = msgspec.json.decode(await csrf.body_of(request, _LARGEST_BODY), type=_TokenRequest)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise Problem(400, "the body is not JSON with code, codeVerifier, redirectURI and clientID") from None
        done = await self._parts.flow.exchange(wanted.code, wanted.code_verifier, wanted.redirect_uri, wanted.client_id)
        expires_at = done.caller.expires_at
        return _json({"idToken": done.id_token, "expiresAt": expires_at.isoformat() if expires_at else None})

    async def whoami(self, request: Request) -> Response:
        caller = await self._parts.authenticator.caller(request)
        return _json(
            {
                "kind": caller.kind.value,
                "username": caller.username,
                "subject": caller.subject,
                "serviceAccounts": list(self._parts.access.accounts(caller)),
            }
        )

    async def public_config(self, request: Request) -> Response:
        del request
        oidc = self._settings.oidc
        known: dict[str, Any] = {"adminEnabled": self._settings.admin.enabled, "version": self._parts.version}
        if oidc is not None:
            known["oidc"] = {
                "issuerURL": oidc.issuer,
                "clientID": oidc.client_id,
                "cliClientID": oidc.cli_client_id,
                "scopes": list(oidc.scopes),
                "usernameClaim": oidc.username_claim,
            }
        return _json(known)

    async def show(self, request: Request) -> Response:
        query = request.query_params
        path = return_path(query.get("return", ""))
        try:
            if "code" in query or "state" in query or "error" in query:
                return await self._returned(request)
            if query.get("start") == "oidc" and self._parts.flow is not None:
                return await self._started(self._parts.flow, path)
        except Problem as problem:
            response = self._page(request, path, problem)
            self._forget(response, STATE_COOKIE)
            return response
        return self._page(request, path)

    async def submit(self, request: Request) -> Response:
        form: Mapping[str, str] = {}
        try:
            self._parts.guard.check_origin(request)
            form = await csrf.form_of(request)
            self._parts.tokens.check(request, form.get(csrf.FIELD, ""))
            await self._check_password(request, form.get("password", ""))
        except Problem as problem:
            return self._page(request, return_path(form.get("return", "")), problem)
        caller = admin_caller(self._parts.clock.now() + self._settings.session_ttl, by_cookie=True)
        return self._entered(caller, return_path(form.get("return", "")))

    async def logout(self, request: Request) -> Response:
        cookie = request.cookies.get(COOKIE, "")
        try:
            session = self._parts.sessions.read(cookie)
        except Unverified:
            session = None  # nothing to end; the browser forgets it all the same
        if session is not None:
            await self._parts.guard.check(request, session)
            self._parts.sessions.end(cookie)
        response = self._redirect(f"{self._settings.base_url}/login")
        for name in (COOKIE, csrf.COOKIE):
            self._forget(response, name)
        return response

    async def _check_password(self, request: Request, password: str) -> None:
        address = client_address(request, self._settings.trusted_proxies)
        self._parts.limiter.begin(address)
        if not await self._parts.passwords.is_right(password):
            log.warning("login as admin failed", address=address)
            raise _failed()
        self._parts.limiter.succeeded(address)
        log.info("admin logged in", address=address)

    async def _started(self, flow: CodeFlow, path: str) -> Response:
        begun = await flow.begin(path)
        response = HTMLResponse(forwarding_page(begun.location), headers={"Cache-Control": "no-store"})
        self._set(response, STATE_COOKIE, begun.cookie, seconds=int(LASTS.total_seconds()))
        return response

    async def _returned(self, request: Request) -> Response:
        query = request.query_params
        if self._parts.flow is None or "error" in query or not query.get("code"):
            raise Problem(400, "the identity provider did not log you in, try again or ask its administrator")
        if not self._parts.mappings.synced:
            raise Problem(503, "the server is still reading who may do what, try again in a moment")
        done = await self._parts.flow.finish(
            request.cookies.get(STATE_COOKIE, ""), query.get("state", ""), query["code"]
        )
        response = self._entered(done.caller, done.return_path)
        self._forget(response, STATE_COOKIE)
        return response

    def _entered(self, caller: Caller, path: str) -> Response:
        new = self._parts.sessions.start(caller, self._parts.mappings.used())
        response = self._redirect(f"{self._settings.base_url}{path}")
        seconds = int(self._settings.session_ttl.total_seconds())
        self._set(response, COOKIE, new.cookie, seconds=seconds)
        self._set(response, csrf.COOKIE, new.csrf, seconds=seconds, readable=True)
        self._forget(response, LoginTokens.COOKIE)
        return response

    def _page(self, request: Request, path: str, problem: Problem | None = None) -> Response:
        known = request.cookies.get(LoginTokens.COOKIE, "")
        token = known if self._parts.tokens.is_ours(known) else self._parts.tokens.make()
        view = LoginView(
            password=self._settings.admin.enabled,
            oidc=self._settings.oidc is not None,
            error=problem.text if problem else "",
            return_path=path,
            csrf=token,
        )
        response = HTMLResponse(
            self._parts.render(view),
            status_code=problem.status if problem else 200,
            headers={**(problem.headers if problem else {}), "Cache-Control": "no-store"},
        )
        self._set(response, LoginTokens.COOKIE, token, seconds=3600)
        return response

    def _redirect(self, location: str) -> Response:
        return RedirectResponse(location, status_code=303, headers={"Cache-Control": "no-store"})

    def _set(self, response: Response, name: str, value: str, *, seconds: int, readable: bool = False) -> None:
        response.set_cookie(
            name,
            value,
            max_age=seconds,
            path=self._settings.cookie_path,
            secure=self._settings.secure,
            httponly=not readable,
            samesite="lax",
        )

    def _forget(self, response: Response, name: str) -> None:
        response.delete_cookie(
            name, path=self._settings.cookie_path, secure=self._settings.secure, httponly=True, samesite="lax"
        )


def _failed() -> Problem:
    return Problem(403, "login failed")


def _json(content: object) -> Response:
    return Response(msgspec.json.encode(content), media_type="application/json", headers={"Cache-Control": "no-store"})
