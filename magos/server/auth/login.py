"""Routes of login and logout for browsers, and of Dex (spec §9.2, §9.3)."""

from collections.abc import Mapping

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from magos.server.auth import csrf
from magos.server.auth.admin import admin_caller
from magos.server.auth.codeflow import LASTS, CodeFlow
from magos.server.auth.csrf import CsrfGuard, LoginTokens
from magos.server.auth.dex import METHODS, PATH, STATE_COOKIE, DexProxy
from magos.server.auth.loginpage import LoginView, RenderLogin, forwarding_page
from magos.server.auth.origins import return_path
from magos.server.auth.programs import Proofs
from magos.server.auth.sessions import COOKIE, Sessions
from magos.server.auth.signed import Unverified
from magos.server.identity import Caller
from magos.server.problems import Problem


class LoginParts(Struct, frozen=True, kw_only=True):
    """What the routes work with. ``dex`` is None without Dex."""

    proofs: Proofs
    sessions: Sessions
    guard: CsrfGuard
    tokens: LoginTokens
    dex: DexProxy | None
    render: RenderLogin


def routes(parts: LoginParts) -> list[Route]:
    """Return the routes. Their handlers raise ``Problem`` where they do not render a page."""
    login = _Login(parts)
    found = [
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
        self._proofs = parts.proofs
        self._settings = parts.proofs.settings

    async def show(self, request: Request) -> Response:
        query = request.query_params
        path = return_path(query.get("return", ""))
        try:
            if "code" in query or "state" in query or "error" in query:
                return await self._returned(request)
            if query.get("start") == "oidc" and self._proofs.flow is not None:
                return await self._started(self._proofs.flow, path)
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
            await self._proofs.check_password(request, form.get("password", ""))
        except Problem as problem:
            return self._page(request, return_path(form.get("return", "")), problem)
        caller = admin_caller(self._proofs.clock.now() + self._settings.session_ttl, by_cookie=True)
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

    async def _started(self, flow: CodeFlow, path: str) -> Response:
        begun = await flow.begin(path)
        response = HTMLResponse(forwarding_page(begun.location), headers={"Cache-Control": "no-store"})
        self._set(response, STATE_COOKIE, begun.cookie, seconds=int(LASTS.total_seconds()))
        return response

    async def _returned(self, request: Request) -> Response:
        query = request.query_params
        if self._proofs.flow is None or "error" in query or not query.get("code"):
            raise Problem(400, "the identity provider did not log you in, try again or ask its administrator")
        if not self._proofs.mappings.synced:
            raise Problem(503, "the server is still reading who may do what, try again in a moment")
        done = await self._proofs.flow.finish(
            request.cookies.get(STATE_COOKIE, ""), query.get("state", ""), query["code"]
        )
        response = self._entered(done.caller, done.return_path)
        self._forget(response, STATE_COOKIE)
        return response

    def _entered(self, caller: Caller, path: str) -> Response:
        new = self._parts.sessions.start(caller, self._proofs.mappings.used())
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
