"""Login and rights of people from end to end: an identity provider over TLS, the deployed server, a real API server."""

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from tests.e2e.auth.installation import API, PASSWORD, RUN, Browser, Installation, Team
from tests.e2e.auth.issuer import WEB
from tests.envtest.cluster import eventually


@contextmanager
def another(browser: Browser) -> Iterator[Browser]:
    """A second browser."""
    found = Browser(browser.at)
    yield found
    found.http.close()


def returned(page: httpx.Response) -> str:
    """Return the address at which the identity provider handed over a code."""
    [address] = [str(each.url) for each in page.history if "code=" in str(each.url)]
    return address


def seen(browser: Browser) -> set[str]:
    """Return the namespaces of the Workspaces that the list has."""
    answer = browser.get(f"{API}/workspaces")
    assert answer.status_code == 200, answer.text
    return {each["metadata"]["namespace"] for each in answer.json()}


def test_a_person_logs_in_by_the_code_flow_and_lands_where_they_wanted_to_go(browser: Browser) -> None:
    landed = browser.log_in("ann", "/workspaces?sort=name")
    assert (landed.status_code, landed.url.path, landed.url.query) == (200, "/workspaces", b"sort=name")
    assert "ann@example.com" in landed.text
    me = browser.get("/api/v1alpha1/auth/whoami").json()
    assert (me["kind"], me["username"], me["subject"]) == ("oidc", "ann@example.com", "id-of-ann")
    kept = {each.name for each in browser.http.cookies.jar}
    assert {"magos_session", "magos_csrf"} <= kept
    assert browser.get(f"{API}/projects").status_code == 200


def test_the_log_says_who_asked_for_what_and_holds_no_secret_of_a_login(browser: Browser, payments: Team) -> None:
    landed = browser.log_in("ann")
    session, csrf = browser.cookie("magos_session"), browser.cookie("magos_csrf")
    code, state = (httpx.URL(returned(landed)).params[name] for name in ("code", "state"))
    assert browser.log_in_as_admin(PASSWORD).status_code == 200
    token = payments.token("viewer")
    query = {"access_token": token}
    with browser.at.client() as program:
        assert program.get(f"{API}/workspaces", params=query).status_code == 401  # on streams alone
        with program.stream("GET", f"{API}/workspaces/events", params=query) as stream:
            assert stream.status_code == 200

    def lines() -> list[dict[str, Any]]:
        return [json.loads(line) for line in browser.at.log.read_text().splitlines()]

    eventually(
        lambda: any(line.get("caller") == f"system:serviceaccount:{payments.namespace}:viewer" for line in lines())
    )
    assert any((line.get("path"), line.get("caller")) == ("/workspaces", "ann@example.com") for line in lines())
    written = browser.at.log.read_text()
    assert [secret for secret in (session, csrf, code, state, token, PASSWORD) if secret in written] == []
    assert [line for line in lines() if line["level"] == "error"] == []


def test_a_viewer_sees_their_namespace_only_in_lists_pages_and_streams(
    browser: Browser, payments: Team, others: Team
) -> None:
    page = browser.log_in("ann")
    assert payments.workspace in page.text
    assert others.workspace not in page.text + browser.get("/").text
    assert seen(browser) == {payments.namespace}
    assert (browser.get(payments.path).status_code, browser.get(others.path).status_code) == (200, 403)
    assert browser.get(f"/workspaces/{others.namespace}/{others.workspace}").status_code == 403
    assert browser.get(f"{others.path}/runs").status_code == 403
    with browser.events() as events:
        found = []
        while (event := next(events))[0] != "synced":
            found.append(event[1]["object"]["metadata"]["namespace"])
    assert found == [payments.namespace]
    with another(browser) as hers:
        assert "app-of-" not in hers.log_in("eve").text
        assert seen(hers) == set()


def test_a_viewer_changes_nothing_and_the_page_says_why(browser: Browser, payments: Team) -> None:
    browser.log_in("ann")
    before = payments.stored
    refused = browser.press(f"{payments.path}/reconcile")
    words = f"ann@example.com may not patch workspaces in {payments.namespace}"
    assert (refused.status_code, refused.json()) == (403, {"error": words})
    refused = browser.press(f"{payments.path}/approve", {"runID": RUN})
    assert (refused.status_code, "may not patch workspaces/status" in refused.text) == (403, True)
    page = browser.get(f"/workspaces/{payments.namespace}/{payments.workspace}")
    for key, action, reason in (("r", "reconcile", words), ("a", "approve", words.replace("spaces", "spaces/status"))):
        assert f'<button type="button" disabled aria-describedby="no-{key}">' in page.text
        assert re.search(f'id="no-{key}"><b>[^<]+</b> {re.escape(reason)}[.]<', page.text)
        form = {"csrf_token": browser.cookie("magos_csrf"), "run_id": RUN}
        assert browser.send(f"{page.url.path}/{action}", form).status_code == 403
    assert payments.stored == before


def test_a_code_or_state_that_was_used_or_forged_logs_nobody_in(browser: Browser) -> None:
    form = browser.begin()
    states = {each.name: each.value or "" for each in browser.http.cookies.jar}
    callback = returned(browser.enter(form, "ann"))
    with another(browser) as thief:
        for cookies in ({}, states):  # without the cookie of the browser that began, and with a copy of it
            thief.http.cookies.update(cookies)
            assert thief.get(callback).status_code == 400
            assert not thief.cookie("magos_session")
        forged = thief.begin().url.params["state"]
        assert thief.get("/login?code=guessed&state=forged").status_code == 400
        assert thief.get("/workspaces").url.path == "/login"
        assert forged not in callback


def test_a_code_of_one_login_is_no_use_in_another(browser: Browser) -> None:
    """Somebody who plants a code of their own into the login of another (RFC 9700, 4.5) fails at the verifier."""
    form = browser.begin()
    with another(browser) as attacker:
        planted = attacker.enter(attacker.begin(), "eve", follow_redirects=False).headers["location"]
        code = httpx.URL(planted).params["code"]
    state = form.url.params["state"]
    refused = len(browser.at.issuer.refused)
    assert browser.get(f"/login?code={code}&state={state}").status_code == 400
    assert browser.at.issuer.refused[refused:] == ["wrong code_verifier"]
    assert not browser.cookie("magos_session")


@pytest.mark.parametrize("lasts", [3600, -1], ids=["valid", "expired"])
@pytest.mark.parametrize("audience", [WEB, "another-application"])
def test_only_a_valid_token_for_us_is_taken(installation: Installation, audience: str, lasts: int) -> None:
    token = installation.issuer.token("ann", audience, lasts=lasts)
    right = audience == WEB and lasts > 0
    assert installation.ask(f"{API}/workspaces", token).status_code == (200 if right else 401)


def test_a_service_account_acts_with_its_own_rights(
    browser: Browser, installation: Installation, payments: Team, others: Team
) -> None:
    del browser
    viewer = payments.token("viewer")
    mine = installation.ask(f"{API}/workspaces", viewer).json()
    assert [each["metadata"]["namespace"] for each in mine] == [payments.namespace]
    assert installation.ask(f"{payments.path}/reconcile", viewer, "POST").status_code == 403
    assert installation.ask(others.path, viewer).status_code == 403
    others.allow("deployer", ["get", "patch"])
    token = others.token("deployer")
    name = f"system:serviceaccount:{others.namespace}:deployer"
    assert installation.ask("/api/v1alpha1/auth/whoami", token).json()["username"] == name
    assert installation.ask(f"{others.path}/approve", token, "POST", {"runID": RUN}).status_code == 403
    asked = eventually(lambda: installation.ask(f"{others.path}/reconcile", token, "POST"))
    assert asked.status_code == 200, asked.text
    assert name in others.stored["metadata"]["annotations"]["magosproject.io/requested-by"]


def test_the_admin_logs_in_by_the_form_alone_sees_all_and_logs_out(
    browser: Browser, payments: Team, others: Team
) -> None:
    assert browser.log_in_as_admin(PASSWORD, csrf_token="forged").status_code == 403
    assert browser.http.post("/login", data={"password": PASSWORD}).status_code == 403
    assert browser.log_in_as_admin("guessed").status_code == 403
    assert not browser.cookie("magos_session")
    landed = browser.log_in_as_admin(PASSWORD)
    assert (landed.status_code, landed.url.path) == (200, "/workspaces")
    assert {payments.namespace, others.namespace} <= seen(browser)
    assert browser.http.post(f"{payments.path}/reconcile").status_code == 403
    assert browser.press(f"{payments.path}/reconcile").status_code == 200
    team = Team(browser.at.cluster, "nobody")
    assert eventually(lambda: browser.get(team.path).is_success)
    form = {"csrf_token": browser.cookie("magos_csrf"), "run_id": RUN}
    page = browser.send(f"/workspaces/{team.namespace}/{team.workspace}/approve", form)
    assert (page.status_code, page.history[0].status_code) == (200, 303)
    assert team.stored["metadata"]["annotations"]["magosproject.io/approved"] == RUN
    session = browser.cookie("magos_session")
    assert browser.send("/logout", {"csrf_token": "forged"}).status_code == 403
    assert browser.send("/logout", {"csrf_token": browser.cookie("magos_csrf")}).url.path == "/login"
    assert not browser.cookie("magos_session")
    with another(browser) as thief:  # who kept a copy of the cookie
        thief.http.cookies.set("magos_session", session)
        assert thief.get(f"{API}/workspaces").status_code == 401


def test_a_new_key_of_the_provider_counts_at_once_and_a_withdrawn_one_no_longer(
    browser: Browser, installation: Installation
) -> None:
    issuer = installation.issuer
    assert installation.ask(f"{API}/workspaces", issuer.token("ann", WEB)).status_code == 200
    issuer.rotate()
    token = issuer.token("ann", WEB)
    eventually(lambda: installation.ask(f"{API}/workspaces", token).status_code == 200, within=15)
    assert browser.log_in("ann").url.path == "/workspaces"
    old = issuer.token("ann", WEB, old_key=True)
    assert installation.ask(f"{API}/workspaces", old).status_code == 401


def test_a_role_binding_that_is_deleted_ends_an_open_stream_and_empties_the_list(
    browser: Browser, installation: Installation
) -> None:
    team = Team(installation.cluster, "everybody")
    browser.log_in("eve")
    assert seen(browser) == {team.namespace}
    with browser.events() as events:
        while next(events)[0] != "synced":
            pass
        team.revoke("viewer")
        begun = time.monotonic()
        name, data = next(event for event in events if event[0] != "message")
        assert (name, data) == ("resync", {"reason": "what you may see has changed"})
        assert time.monotonic() - begun < 45
    eventually(lambda: seen(browser) == set())
