"""``magos login`` and what a login is good for, against a Magos API server and an identity provider that are ours."""

import base64
import contextlib
import hashlib
import http.client
import json
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
import trustme

from magos.cli import loopback
from magos.cli.failures import TimedOut
from magos.cli.tokens import Login, stored_token, token_file
from magos.errors import ConfigurationError
from magos.terminal import shown
from tests.unit.cli.shop import HOSTILE, Shop
from tests.unit.explain.objects import COMMIT, RUN

SERVER = "https://magos.example"
ISSUER = "https://idp.example/realm"


class Servers:
    """Both servers; ``requests`` are those they got."""

    def __init__(self) -> None:
        self.requests: list[httpx.Request] = []
        self.trusted: dict[str, set[str]] = {}
        """Organisations of the authorities that clients trust, by the address that they were made for."""
        self.public: dict[str, Any] = {
            "adminEnabled": True,
            "oidc": {"issuerURL": ISSUER, "clientID": "ui", "cliClientID": "cli", "scopes": ["groups"]},
            "version": "1",
        }
        self.discovery: dict[str, Any] = {
            "issuer": ISSUER,
            "authorization_endpoint": "https://idp.example/authorize?tenant=1",
        }
        self.page: dict[str, Any] = {"items": []}

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        route = f"{request.method} {request.url.host}{request.url.path}"
        routes = {
            "GET magos.example/api/v1alpha1/system/public-config": lambda: httpx.Response(200, json=self.public),
            "POST magos.example/api/v1alpha1/auth/login": lambda: self._login(request),
            "POST magos.example/api/v1alpha1/auth/token": lambda: httpx.Response(
                200, json={"idToken": "pers0n", "expiresAt": "2026-05-02T00:00:00Z"}
            ),
            "GET magos.example/api/v1alpha1/auth/whoami": lambda: self._whoami(request),
            "GET idp.example/realm/.well-known/openid-configuration": lambda: httpx.Response(200, json=self.discovery),
            "GET magos.example/apis/magosproject.io/v1alpha1/workspaces/team-a/prod/runs": lambda: httpx.Response(
                200, json=self.page
            ),
        }
        return routes.get(route, lambda: self._refused(404, f"no route {route}"))()

    def _login(self, request: httpx.Request) -> httpx.Response:
        right = request.headers["Authorization"] == "Bearer pässword"
        return httpx.Response(200, json={"idToken": "adm1n"}) if right else self._refused(403, "login failed")

    def _whoami(self, request: httpx.Request) -> httpx.Response:
        if "Authorization" not in request.headers:
            return self._refused(401, "authentication required")
        who = {"kind": "oidc", "username": HOSTILE, "subject": "1", "serviceAccounts": ["magos/viewer"]}
        return httpx.Response(200, json=who)

    def _refused(self, status: int, text: str) -> httpx.Response:
        return httpx.Response(status, json={"error": text})


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Servers:
    """Put both servers where the clients of the command line look."""
    found, client = Servers(), httpx.Client

    def offline(**options: Any) -> httpx.Client:
        authorities = options["verify"].get_ca_certs()
        names = {value for each in authorities for ((key, value), *_) in each["subject"] if key == "organizationName"}
        found.trusted[options.get("base_url", "")] = names
        return client(**{**options, "transport": httpx.MockTransport(found)})

    monkeypatch.setattr("httpx.Client", offline)
    return found


@pytest.fixture
def shop(shop: Shop, tmp_path: Path) -> Shop:
    """The program with a server and a place for logins."""
    shop.environ = {"MAGOS_SERVER": f"{SERVER}/", "XDG_CONFIG_HOME": str(tmp_path)}
    return shop


def test_a_login_with_the_password_is_kept_for_this_server_alone(shop: Shop, servers: Servers) -> None:
    ended = shop("login", "--admin", given="pässword\n")
    assert ended.code == 0
    path = token_file(shop.environ, SERVER)
    assert str(path) in ended.out
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stored_token(shop.environ, SERVER) == "adm1n"
    assert stored_token(shop.environ, "https://other.example") == ""
    assert "adm1n" not in ended.out + ended.err
    assert "Authorization" in servers.requests[0].headers
    shop("whoami")
    assert servers.requests[-1].headers["Authorization"] == "Bearer adm1n"
    shop("whoami", "--token", "other")
    assert servers.requests[-1].headers["Authorization"] == "Bearer other"
    assert shop("logout").out == f"Logged out of {SERVER}.\n"
    assert shop("logout").out == f"There was no login at {SERVER}.\n"


def test_a_wrong_password_is_not_allowed_and_none_is_wrong_usage(shop: Shop, servers: Servers) -> None:
    wrong = shop("login", "--admin", given="guess\n")
    assert (wrong.code, "login failed" in wrong.err) == (4, True)
    assert "guess" not in wrong.err
    assert shop("login", "--admin", given="").code == 2
    assert not token_file(shop.environ, SERVER).exists()
    assert servers.requests


def test_without_a_flag_the_server_says_which_login_there_is(shop: Shop, servers: Servers) -> None:
    servers.public["oidc"] = None
    assert shop("login", given="pässword\n").code == 0
    servers.public["adminEnabled"] = False
    none = shop("login", given="pässword\n")
    assert (none.code, "offers no login" in none.err) == (4, True)
    assert shop("login", "--oidc").code == 1


def test_a_login_over_plain_http_warns(shop: Shop, servers: Servers) -> None:
    ended = shop("login", "--admin", "--server", "http://magos.example", given="pässword\n")
    assert "http://magos.example is not encrypted" in ended.err
    assert servers.requests


class Browser:
    """Takes the page that it is led to and brings a code back, with the state it was given."""

    def __init__(self) -> None:
        self.query: dict[str, str] = {}
        self.answers: dict[str, str] = {"code": "c0de"}
        self._threads: list[threading.Thread] = []

    def open(self, page: str) -> bool:
        self.query = {key: values[0] for key, values in parse_qs(urlsplit(page).query).items()}
        self._threads.append(threading.Thread(target=self._answer))
        self._threads[-1].start()
        return True

    def _answer(self) -> None:
        state, answers = self.query["state"], "&".join(f"{key}={value}" for key, value in self.answers.items())
        self._get("/callback?code=stolen&state=wrong")
        self._get(f"/favicon.ico?{answers}&state={state}")
        self._get(f"/callback?{answers}&state={state}")

    def _get(self, path: str) -> None:
        connection = http.client.HTTPConnection(urlsplit(self.query["redirect_uri"]).netloc, timeout=10)
        with contextlib.closing(connection):
            connection.request("GET", path)
            connection.getresponse().read()

    def close(self) -> None:
        for thread in self._threads:
            thread.join(20)


@pytest.fixture
def browser(monkeypatch: pytest.MonkeyPatch) -> Iterator[Browser]:
    """Stand in for the browser of this machine."""
    found = Browser()
    monkeypatch.setattr("webbrowser.open", found.open)
    yield found
    found.close()


def test_a_login_with_a_browser_proves_itself_with_pkce(shop: Shop, servers: Servers, browser: Browser) -> None:
    ended = shop("login")
    assert (ended.code, ended.out.startswith(f"Logged in at {SERVER} until 2026-05-02")) == (0, True)
    assert stored_token(shop.environ, SERVER) == "pers0n"
    sent = json.loads(servers.requests[-1].content)
    challenge = base64.urlsafe_b64encode(hashlib.sha256(sent["codeVerifier"].encode()).digest()).rstrip(b"=").decode()
    assert browser.query["tenant"] == "1"
    assert browser.query["code_challenge"] == challenge
    assert browser.query["code_challenge_method"] == "S256"
    assert browser.query["scope"] == "openid profile email groups"
    assert browser.query["client_id"] == sent["clientID"] == "cli"
    assert sent["redirectURI"] == browser.query["redirect_uri"]
    assert sent["redirectURI"].startswith("http://127.0.0.1:")
    assert sent["code"] == "c0de"


def test_authorities_of_one_s_own_are_trusted_beside_the_usual_ones_for_the_identity_provider_only(
    shop: Shop, servers: Servers, browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server's authority may be one's own while the provider is a public one, or the other way round."""
    files = {name: tmp_path / f"{name}.pem" for name in ("usual", "own")}
    for name, path in files.items():
        trustme.CA(organization_name=name).cert_pem.write_to_path(str(path))
    monkeypatch.setenv("SSL_CERT_FILE", str(files["usual"]))
    assert shop("login", "--oidc", "--ca-file", str(files["own"])).code == 0
    assert browser.query
    assert servers.trusted == {SERVER: {"own"}, "": {"usual", "own"}}


def test_a_refusal_of_the_identity_provider_is_told(shop: Shop, servers: Servers, browser: Browser) -> None:
    browser.answers = {"error": "access_denied", "error_description": "not%20today%1b[2J"}
    ended = shop("login", "--oidc")
    assert (ended.code, "access_denied not today\\x1b[2J" in ended.err) == (1, True)
    assert shown(ended.err) == ended.err
    assert servers.requests


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"issuer": "https://evil.example"}, "calls itself https://evil.example"),
        ({"authorization_endpoint": "file:///etc/passwd"}, "which is no page"),
        ({"issuer": None}, "does not say how to log in"),
    ],
)
def test_an_identity_provider_that_is_not_itself_gets_nobody(
    shop: Shop, servers: Servers, browser: Browser, change: dict[str, Any], words: str
) -> None:
    servers.discovery.update(change)
    ended = shop("login", "--oidc")
    assert (ended.code, words in ended.err) == (1, True)
    assert browser.query == {}


def test_a_browser_that_never_comes_back_is_not_waited_for_for_ever() -> None:
    with loopback.Redirect("state") as redirect, pytest.raises(TimedOut, match="no login came back"):
        redirect.code(0.0)


def test_who_i_am_passes_the_door_and_is_exact_for_programs(shop: Shop, servers: Servers) -> None:
    unknown = shop("whoami")
    assert (unknown.code, "run magos login" in unknown.err) == (4, True)
    told = shop("whoami", "--token", "t").out
    assert shown(told) == told
    assert told.splitlines()[1] == "  acts as ServiceAccount magos/viewer"
    assert json.loads(shop("whoami", "--token", "t", "-o", "json").out)["username"] == HOSTILE
    assert servers.requests


@pytest.mark.parametrize("command", [["login"], ["logout"], ["whoami"], ["runs", "prod", "-n", "team-a"]])
def test_without_a_server_the_command_says_how_to_name_it(shop: Shop, command: list[str]) -> None:
    shop.environ = {}
    ended = shop(*command)
    assert (ended.code, "give its URL with --server or MAGOS_SERVER" in ended.err) == (2, True)


def test_a_login_without_a_place_and_a_broken_file_are_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="XDG_CONFIG_HOME"):
        token_file({}, SERVER)
    assert stored_token({}, SERVER) == ""
    environ = {"HOME": str(tmp_path)}
    path = token_file(environ, SERVER)
    assert path.is_relative_to(tmp_path / ".config" / "magos")
    path.parent.mkdir(parents=True)
    for content in ("", "{", '{"server":"https://other.example","token":"t"}'):
        path.write_text(content)
        assert stored_token(environ, SERVER) == ""
    assert "s3cret" not in repr(Login(server=SERVER, token="s3cret"))


def test_the_runs_are_a_table_with_what_is_lost_first_and_exact_for_programs(shop: Shop, servers: Servers) -> None:
    servers.page = {
        "items": [
            {
                "runID": RUN,
                "trigger": "manual",
                "observedRevision": COMMIT,
                "startedAt": "2026-05-01T11:50:00Z",
                "finishedAt": "2026-05-01T11:50:42Z",
                "result": "Applied",
                "reason": "ApplySucceeded",
                "principal": HOSTILE,
                "changes": {"add": 3, "change": 2, "destroy": 1, "noChanges": False},
                "message": HOSTILE,
            }
        ],
        "nextCursor": "n\x1bext",
    }
    ended = shop("runs", "team-a/prod", "-o", "wide")
    assert ended.out.splitlines()[1].split()[:9] == [
        RUN,
        "manual",
        "c0ffee0",
        "-1",
        "~2",
        "+3",
        "Applied",
        "ApplySucceeded",
        "42s",
    ]
    assert shown(ended.out + ended.err) == ended.out + ended.err
    assert "Older runs: --cursor n\\x1bext" in ended.err
    exact = json.loads(shop("runs", "team-a/prod", "-o", "json").out)
    assert exact["nextCursor"] == "n\x1bext"
    assert exact["items"][0]["message"] == HOSTILE
    assert shop("runs", "team-a/prod", "-o", "name").out == f"{RUN}\n"
    assert shop("runs", "team-a/prod", "--limit", "0").code == 2
    servers.page = {"items": []}
    assert shop("runs", "prod", "-n", "team-a").err == "No run is recorded.\n"
