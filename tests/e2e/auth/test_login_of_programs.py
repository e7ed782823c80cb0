"""``magos login --oidc`` with a person at a browser, and what the program does with the token (RFC 8252)."""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import httpx
import pytest

from magos.history.model import WorkspaceKey
from magos.history.postgres import PostgresHistory
from magos.history.settings import load_history_settings
from magos.server.auth.codeflow import challenge_of
from tests.e2e.auth.installation import Browser, Installation, Team
from tests.e2e.auth.issuer import CLI
from tests.e2e.history.server import ended, run_id

_MAGOS = Path(sys.executable).parent / "magos"
_CALLBACK = "http://127.0.0.1:9/callback"


@pytest.fixture
def environ(installation: Installation, tmp_path: Path) -> dict[str, str]:
    """The environment of somebody at a terminal, whose browser is the test."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MAGOS_", "KUBECONFIG"))}
    mine = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config"), "BROWSER": "true %s"}
    return {**kept, **mine, "MAGOS_SERVER": installation.url, "MAGOS_CA_FILE": str(installation.ca_file)}


def magos(environ: Mapping[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run the program to its end."""
    return subprocess.run([_MAGOS, *arguments], env=environ, capture_output=True, text=True, timeout=60, check=False)


def log_in(environ: Mapping[str, str], browser: Browser, person: str) -> tuple[int, str, httpx.Response]:
    """Log in with the browser that the program asks for; return its exit code, its output and the last page."""
    child = subprocess.Popen(
        [_MAGOS, "login", "--oidc"], env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with child:
        try:
            assert child.stderr is not None
            [address] = re.findall(r"https://\S+", child.stderr.readline())
            landed = browser.enter(browser.get(address), person)
            told, trouble = child.communicate(timeout=30)
        finally:
            child.kill()
    return child.returncode, told + trouble, landed


async def record(database: Mapping[str, str], team: Team) -> None:
    """Write a run of the team's Workspace down, as the workspace controller does."""
    settings = load_history_settings(database)
    assert settings is not None
    history = PostgresHistory(settings.postgres)
    uid = team.stored["metadata"]["uid"]
    await history.record_run(
        WorkspaceKey(uid=uid, namespace=team.namespace, name=team.workspace, project="shop"), ended(1)
    )
    await history.aclose()


def test_a_login_of_the_program_leads_through_the_browser_and_shows_runs_of_what_one_may_see(
    environ: dict[str, str], browser: Browser, payments: Team, others: Team, database: dict[str, str], tmp_path: Path
) -> None:
    for team in (payments, others):
        asyncio.run(record(database, team))
    assert magos(environ, "whoami").returncode == 4
    code, told, landed = log_in(environ, browser, "ann")
    assert (code, landed.status_code, landed.url.host) == (0, 200, "127.0.0.1"), told
    assert "you may close this page" in landed.text.lower()
    [kept] = (tmp_path / "config").rglob("*.json")
    assert kept.stat().st_mode & 0o777 == 0o600
    token = json.loads(kept.read_text())["token"]
    assert token not in told

    me = magos(environ, "whoami")
    lines = ["ann@example.com (oidc)", "  acts as ServiceAccount magos-system/magos-user"]
    assert (me.returncode, me.stdout.splitlines()) == (0, lines), me.stderr
    runs = magos(environ, "runs", payments.workspace, f"--namespace={payments.namespace}", "-o", "name")
    assert (runs.returncode, runs.stdout.split()) == (0, [run_id(1)]), runs.stderr
    refused = magos(environ, "runs", others.workspace, f"--namespace={others.namespace}")
    assert (refused.returncode, "may not get workspaces" in refused.stderr) == (4, True), refused.stderr
    assert magos(environ, "logout").returncode == 0
    assert magos(environ, "whoami").returncode == 4


def test_a_code_of_a_program_buys_one_token_and_only_with_its_verifier(
    installation: Installation, browser: Browser
) -> None:
    def exchanged(code: str, verifier: str) -> int:
        body = {"code": code, "codeVerifier": verifier, "redirectURI": _CALLBACK, "clientID": CLI}
        answer = browser.http.post("/api/v1alpha1/auth/token", json=body)
        assert ("idToken" in answer.text) == answer.is_success
        return answer.status_code

    assert exchanged(_code(installation, browser, "v" * 43), "w" * 43) == 400
    code = _code(installation, browser, "v" * 43)
    assert [exchanged(code, "v" * 43) for _ in range(2)] == [200, 400]


def _code(installation: Installation, browser: Browser, verifier: str) -> str:
    """Return a code that the provider gave to a program on this machine."""
    query = {
        "response_type": "code",
        "client_id": CLI,
        "redirect_uri": _CALLBACK,
        "scope": "openid",
        "state": "s",
        "code_challenge": challenge_of(verifier),
        "code_challenge_method": "S256",
    }
    form = browser.http.get(f"{installation.issuer.url}/authorize", params=query)
    location = browser.enter(form, "ann", follow_redirects=False).headers["location"]
    return httpx.URL(location).params["code"]
