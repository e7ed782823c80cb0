"""Logging in and out, as browsers and programs do it (spec §9.2, §9.3)."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import httpx
import msgspec
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from structlog.testing import capture_logs

from magos.server.auth import assembly
from magos.server.auth.codeflow import challenge_of
from magos.server.auth.fetching import Refused
from magos.server.context import Context
from magos.server.problems import Problem
from magos.server.table import routes
from tests.unit.server.auth.world import (
    BASE,
    PASSWORD,
    Cluster,
    Hands,
    Issuer,
    account,
    accounts_of,
    client_of,
    settings,
)

LOGIN = "/api/v1alpha1/auth/login"
TOKEN = "/api/v1alpha1/auth/token"
OWN = {"origin": BASE}


class Site:
    """The routes, served in memory, and the identity provider behind them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **environ: str) -> None:
        self.clock = Hands()
        self.issuer = Issuer(self.clock)
        self.codes: dict[str, dict[str, Any]] = {}
        self.posted: list[Mapping[str, str]] = []
        monkeypatch.setattr(assembly, "fetch_object", self.answer)
        self.auth = assembly.build(
            settings(**environ),
            client=client_of(Cluster()),
            accounts=accounts_of(self.clock, account("magos", "viewer", {"groups": ["team-a"]})),
            clock=self.clock,
            version="1.2.3",
        )
        context = cast("Context", SimpleNamespace(authenticator=self.auth.authenticator))
        api = routes(context, {}, self.auth.operations)
        self.app = Starlette(routes=[*api, *self.auth.routes], exception_handlers={Problem: _answer})

    async def answer(self, client: object, url: str, form: Mapping[str, str] | None = None) -> Mapping[str, Any]:
        del client
        if form is None:
            return await self.issuer.fetch(url)
        self.posted.append(form)
        known = self.codes.pop(form["code"], None)
        if known is None or known["challenge"] != challenge_of(form["code_verifier"]):
            raise Refused("no such code")
        return {"id_token": self.issuer.token(nonce=known.get("nonce"), **known.get("claims", {}))}

    def run(self, main: Callable[[httpx.AsyncClient], Awaitable[None]]) -> None:
        async def body() -> None:
            transport = httpx.ASGITransport(app=self.app)
            hooks = {"response": [self.as_described]}
            async with httpx.AsyncClient(transport=transport, base_url=BASE, event_hooks=hooks) as browser:
                await main(browser)
            await self.auth.close()

        asyncio.run(body())

    async def as_described(self, response: httpx.Response) -> None:
        """Whatever a program is answered is what the OpenAPI document says."""
        asked = (response.request.method, response.request.url.path)
        operation = next((each for each in self.auth.operations if (each.method, each.path) == asked), None)
        if operation is None:
            return
        body = await response.aread()
        if response.status_code != 200:
            assert response.status_code in {401, 503, *operation.refusals}
            return
        assert response.headers["cache-control"] == "no-store"
        answered = msgspec.json.decode(body, type=operation.answer.type)
        assert msgspec.json.decode(msgspec.json.encode(answered)) == msgspec.json.decode(body)

    async def begin(self, browser: httpx.AsyncClient, path: str = "/workspaces") -> dict[str, str]:
        """Press the button; return what the provider is asked with."""
        page = await browser.get("/login", params={"start": "oidc", "return": path})
        address = re.search(r'href="([^"]+)"', page.text)
        assert address is not None
        query = parse_qs(urlsplit(address[1].replace("&amp;", "&")).query)
        return {name: values[0] for name, values in query.items()}

    def code(self, asked: Mapping[str, str], **claims: Any) -> str:
        code = f"code-{len(self.codes)}-{asked['state'][:6]}"
        self.codes[code] = {"challenge": asked["code_challenge"], "nonce": asked["nonce"], "claims": claims}
        return code


async def _answer(request: Request, error: Exception) -> JSONResponse:
    del request
    assert isinstance(error, Problem)
    return JSONResponse({"error": error.text}, status_code=error.status, headers=error.headers)


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(monkeypatch)


def test_a_login_through_the_provider_ends_in_a_session(site: Site) -> None:
    async def main(browser: httpx.AsyncClient) -> None:
        asked = await site.begin(browser, "/workspaces/a/b")
        assert asked["redirect_uri"] == f"{BASE}/login"
        assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
        assert asked["scope"] == "openid profile email groups"
        done = await browser.get("/login", params={"code": site.code(asked), "state": asked["state"]})
        assert (done.status_code, done.headers["location"]) == (303, f"{BASE}/workspaces/a/b")
        cookies = done.headers.get_list("set-cookie")
        session = next(each for each in cookies if each.startswith("magos_session="))
        for attribute in ("HttpOnly", "Secure", "SameSite=lax", "Path=/"):
            assert attribute in session
        assert "client_secret" not in site.posted[0]
        known = (await browser.get("/api/v1alpha1/auth/whoami")).json()
        assert known == {
            "kind": "oidc",
            "username": "ann@example.com",
            "subject": "s-1",
            "serviceAccounts": ["magos/viewer"],
        }

    site.run(main)


def test_a_code_of_another_browser_another_login_or_later_is_refused(site: Site) -> None:
    async def main(browser: httpx.AsyncClient) -> None:
        async def refused(state: str, code: str) -> None:
            answer = await browser.get("/login", params={"code": code, "state": state})
            assert answer.status_code == 400
            assert "magos_session" not in browser.cookies

        asked = await site.begin(browser)
        stolen = dict(browser.cookies)
        browser.cookies.clear()
        await refused(asked["state"], site.code(asked))
        browser.cookies.set("magos_oidc", stolen["magos_oidc"][:-3] + "abc")
        await refused(asked["state"], site.code(asked))
        browser.cookies.clear()
        asked = await site.begin(browser)
        await refused("forged", site.code(asked))
        asked = await site.begin(browser)
        await refused(asked["state"], site.code({**asked, "nonce": "another"}))
        asked = await site.begin(browser)
        site.clock.seconds += 601
        await refused(asked["state"], site.code(asked))

    site.run(main)


def test_a_finished_login_cannot_be_repeated(site: Site) -> None:
    async def main(browser: httpx.AsyncClient) -> None:
        asked = await site.begin(browser)
        kept = browser.cookies["magos_oidc"]
        await browser.get("/login", params={"code": site.code(asked), "state": asked["state"]})
        assert "magos_oidc" not in browser.cookies
        browser.cookies.clear()
        browser.cookies.set("magos_oidc", kept)
        again = await browser.get("/login", params={"code": site.code(asked), "state": asked["state"]})
        assert again.status_code == 400

    site.run(main)


def test_a_token_for_the_command_line_is_no_web_login(site: Site) -> None:
    async def main(browser: httpx.AsyncClient) -> None:
        asked = await site.begin(browser)
        answer = await browser.get("/login", params={"code": site.code(asked, aud="cli"), "state": asked["state"]})
        assert answer.status_code == 400

    site.run(main)


def test_a_login_never_leads_to_another_site(site: Site) -> None:
    async def main(browser: httpx.AsyncClient) -> None:
        for path in ("//evil.com", "/\\evil.com", "https://evil.com"):
            asked = await site.begin(browser, path)
            done = await browser.get("/login", params={"code": site.code(asked), "state": asked["state"]})
            assert done.headers["location"] == f"{BASE}/"

    site.run(main)


async def form(browser: httpx.AsyncClient, password: str, headers: Mapping[str, str] = OWN) -> httpx.Response:
    page = await browser.get("/login")
    token = re.search(r'name="csrf_token" value="([^"]+)"', page.text)
    assert token is not None
    return await browser.post(
        "/login", data={"password": password, "csrf_token": token[1], "return": "/projects"}, headers=headers
    )


def test_the_password_form_logs_in_and_logout_ends_it(site: Site) -> None:
    async def main(browser: httpx.AsyncClient) -> None:
        browser.cookies.set("magos_session", "planted", domain="magos.example.com")
        done = await form(browser, PASSWORD)
        assert (done.status_code, done.headers["location"]) == (303, f"{BASE}/projects")
        assert (await browser.get("/api/v1alpha1/auth/whoami")).json()["kind"] == "admin"
        kept = dict(browser.cookies)
        assert (await browser.post("/logout", headers=OWN)).status_code == 403
        out = await browser.post("/logout", headers={**OWN, "x-csrf-token": browser.cookies["magos_csrf"]})
        assert out.status_code == 303
        browser.cookies.clear()
        browser.cookies.update(kept)
        assert (await browser.get("/api/v1alpha1/auth/whoami")).status_code == 401

    site.run(main)


def test_the_form_of_another_page_does_not_log_in(site: Site) -> None:
    async def main(browser: httpx.AsyncClient) -> None:
        for headers in ({"origin": "https://evil.com"}, {"origin": "null"}, {}):
            assert (await form(browser, PASSWORD, headers)).status_code == 403
        browser.cookies.clear()
        answer = await browser.post("/login", data={"password": PASSWORD, "csrf_token": "x"}, headers=OWN)
        assert answer.status_code == 403
        assert "magos_session" not in browser.cookies

    site.run(main)


def test_wrong_passwords_are_counted_over_both_routes_and_told_without_the_password(site: Site) -> None:
    async def main(browser: httpx.AsyncClient) -> None:
        for _ in range(2):
            answer = await browser.post(LOGIN, headers={"authorization": "Bearer guess-1"})
            assert (answer.status_code, answer.json()) == (403, {"error": "login failed"})
        for _ in range(3):
            assert (await form(browser, "guess-2")).status_code == 403
        for answer in (
            await browser.post(LOGIN, headers={"authorization": f"Bearer {PASSWORD}"}),
            await form(browser, PASSWORD),
        ):
            assert answer.status_code == 429
            assert int(answer.headers["retry-after"]) == 60

    with capture_logs() as logs:
        site.run(main)
    assert [entry["address"] for entry in logs if entry["event"] == "login as admin failed"] == ["127.0.0.1"] * 5
    assert "guess" not in str(logs)


def test_a_disabled_admin_is_answered_like_a_wrong_password(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(monkeypatch, ADMIN_ACCOUNT_ENABLED="false")

    async def main(browser: httpx.AsyncClient) -> None:
        answer = await browser.post(LOGIN, headers={"authorization": f"Bearer {PASSWORD}"})
        assert (answer.status_code, answer.json()) == (403, {"error": "login failed"})

    site.run(main)


def test_programs_log_in_with_the_password_or_a_code(site: Site) -> None:
    async def main(browser: httpx.AsyncClient) -> None:
        token = (await browser.post(LOGIN, headers={"authorization": f"Bearer {PASSWORD}"})).json()["idToken"]
        known = await browser.get("/api/v1alpha1/auth/whoami", headers={"authorization": f"Bearer {token}"})
        assert known.json()["username"] == "admin"
        wanted = {"codeVerifier": "v" * 43, "redirectURI": "http://127.0.0.1:8000/", "clientID": "cli"}
        site.codes["c"] = {"challenge": challenge_of("v" * 43), "claims": {"aud": "cli"}}
        done = await browser.post(TOKEN, content=msgspec.json.encode({**wanted, "code": "c"}))
        assert done.status_code == 200
        assert done.json()["expiresAt"].startswith("2026-01-01T")
        bad: tuple[dict[str, str], ...] = (
            {"clientID": "other"},
            {"redirectURI": "https://evil.com/"},
            {"codeVerifier": "w" * 43},
            {"code": ""},
        )
        for change in bad:
            site.codes["c"] = {"challenge": challenge_of("v" * 43), "claims": {"aud": "cli"}}
            answer = await browser.post(TOKEN, content=msgspec.json.encode({**wanted, "code": "c", **change}))
            assert answer.status_code == 400, change
        assert (await browser.post(TOKEN, content=b"{}")).status_code == 400
        assert (await browser.post(TOKEN, content=b"x" * 20000)).status_code == 413

    site.run(main)


def test_anybody_may_know_how_to_log_in(site: Site) -> None:
    async def main(browser: httpx.AsyncClient) -> None:
        known = (await browser.get("/api/v1alpha1/system/public-config")).json()
        assert known == {
            "adminEnabled": True,
            "version": "1.2.3",
            "oidc": {
                "issuerURL": "https://issuer.example.com",
                "clientID": "ui",
                "cliClientID": "cli",
                "scopes": ["openid", "profile", "email", "groups"],
                "usernameClaim": "email",
            },
        }

    site.run(main)


def test_a_provider_that_is_down_is_told_on_the_page(site: Site) -> None:
    site.issuer.down = True

    async def main(browser: httpx.AsyncClient) -> None:
        answer = await browser.get("/login", params={"start": "oidc"})
        assert answer.status_code == 502
        assert "the identity provider does not answer" in answer.text
        answer = await browser.get("/login", params={"error": "<script>", "state": "x"})
        assert answer.status_code == 400
        assert "<script>" not in answer.text

    site.run(main)
