"""Sessions of browsers, and who may change something with one (spec §9.3)."""

import asyncio
from collections.abc import Mapping

import pytest

from magos.server.auth.admin import admin_caller
from magos.server.auth.csrf import CsrfGuard
from magos.server.auth.sessions import LARGEST, NewSession, Sessions
from magos.server.auth.signed import Unverified, sign
from magos.server.identity import Caller, CallerKind
from magos.server.problems import Problem
from tests.unit.server.auth.world import BASE, Hands, request, settings

ANN = Caller(kind=CallerKind.OIDC, username="ann", subject="s-1", claims={"groups": ("a", "b", "c"), "sub": ("s-1",)})
USED = {"groups": frozenset({"a", "b", "x"})}


def begun(sessions: Sessions, caller: Caller = ANN) -> NewSession:
    return sessions.start(caller, USED)


def test_a_session_keeps_only_what_mappings_use() -> None:
    sessions = Sessions(settings(), Hands())
    caller = sessions.read(begun(sessions).cookie).caller
    assert caller.claims == {"groups": ("a", "b")}
    assert (caller.username, caller.subject, caller.by_cookie) == ("ann", "s-1", True)


def test_claims_that_do_not_fit_are_refused_and_never_cut() -> None:
    groups = tuple(f"group-{number:04}" for number in range(300))
    caller = Caller(kind=CallerKind.OIDC, username="ann", subject="s", claims={"groups": groups})
    sessions = Sessions(settings(), Hands())
    with pytest.raises(Problem, match="too many matching claims") as raised:
        sessions.start(caller, {"groups": frozenset(groups)})
    assert raised.value.status == 403
    assert len(sessions.start(caller, {"groups": frozenset(groups[:100])}).cookie) <= LARGEST


def test_an_altered_foreign_or_expired_cookie_is_refused() -> None:
    clock = Hands()
    sessions = Sessions(settings(), clock)
    cookie = begun(sessions).cookie
    head, body, signature = cookie.split(".")
    other = begun(sessions, admin_caller(clock.now())).cookie.split(".")
    known = settings()
    foreign = sign({"sid": "x", "kind": "admin", "exp": 99999999999}, known.session_key)
    admin_key = sign({"sid": "x", "kind": "admin", "exp": 99999999999}, known.admin.signing_key)
    for bad in ("", "x", f"{head}.{other[1]}.{signature}", f"{head}.{body}.", foreign, admin_key):
        with pytest.raises(Unverified):
            sessions.read(bad)
    with pytest.raises(Unverified):
        Sessions(settings(MAGOS_SESSION_SIGNING_KEY="y" * 32), clock).read(cookie)
    clock.seconds += 24 * 3600
    with pytest.raises(Unverified):
        sessions.read(cookie)


def test_sessions_of_a_disabled_admin_end_at_once() -> None:
    clock = Hands()
    cookie = begun(Sessions(settings(), clock), admin_caller(clock.now())).cookie
    assert Sessions(settings(), clock).read(cookie).caller.kind is CallerKind.ADMIN
    with pytest.raises(Unverified):
        Sessions(settings(ADMIN_ACCOUNT_ENABLED="false"), clock).read(cookie)


def test_an_ended_session_stays_ended() -> None:
    sessions = Sessions(settings(), Hands())
    cookie, other = begun(sessions).cookie, begun(sessions).cookie
    sessions.end(cookie)
    with pytest.raises(Unverified):
        sessions.read(cookie)
    assert sessions.read(other).caller.username == "ann"


def test_every_login_is_a_new_session() -> None:
    sessions = Sessions(settings(), Hands())
    first, second = begun(sessions), begun(sessions)
    assert first.cookie != second.cookie
    assert first.csrf != second.csrf


OWN = ("origin", BASE)


@pytest.mark.parametrize(
    ("headers", "accepted"),
    [
        ([OWN], True),
        ([("origin", f"{BASE}:443")], True),
        ([("referer", f"{BASE}/workspaces")], True),
        ([], False),
        ([("origin", "null")], False),
        ([("origin", "null"), ("referer", f"{BASE}/x")], False),
        ([("origin", "http://magos.example.com")], False),
        ([("origin", f"{BASE}:8443")], False),
        ([("origin", f"{BASE}.evil.com")], False),
        ([("origin", "https://evil.com"), ("referer", f"{BASE}/x")], False),
        ([("referer", "https://evil.com/?https://magos.example.com")], False),
        ([("referer", "https://magos.example.com@evil.com/")], False),
        ([OWN, OWN], False),
    ],
)
@pytest.mark.parametrize("way", ["header", "form"])
def test_only_our_own_pages_change_something(headers: list[tuple[str, str]], accepted: bool, way: str) -> None:
    sessions = Sessions(settings(), Hands())
    new = begun(sessions)
    if way == "header":
        headers = [*headers, ("x-csrf-token", new.csrf)]
    form = {"csrf_token": new.csrf} if way == "form" else None
    assert _passes(sessions, new, headers, {"magos_csrf": new.csrf}, form) is accepted


def test_the_token_must_be_in_cookie_and_request_and_of_this_session() -> None:
    sessions = Sessions(settings(), Hands())
    new, other = begun(sessions), begun(sessions)
    assert not _passes(sessions, new, [OWN], {"magos_csrf": new.csrf})
    assert not _passes(sessions, new, [OWN, ("x-csrf-token", new.csrf)], {})
    assert not _passes(sessions, new, [OWN, ("x-csrf-token", new.csrf)], {"magos_csrf": other.csrf})
    assert not _passes(sessions, new, [OWN, ("x-csrf-token", other.csrf)], {"magos_csrf": other.csrf})
    assert not _passes(sessions, new, [OWN, ("x-csrf-token", "")], {"magos_csrf": ""})
    wrong_header = [OWN, ("x-csrf-token", "x")]
    assert not _passes(sessions, new, wrong_header, {"magos_csrf": new.csrf}, {"csrf_token": new.csrf})
    assert _passes(sessions, new, [], {}, method="GET")


def _passes(
    sessions: Sessions,
    new: NewSession,
    headers: list[tuple[str, str]],
    cookies: Mapping[str, str],
    form: Mapping[str, str] | None = None,
    method: str = "POST",
) -> bool:
    asked = request(method, headers=headers, cookies={"magos_session": new.cookie, **cookies}, form=form)
    session = sessions.read(asked.cookies["magos_session"])
    try:
        asyncio.run(CsrfGuard(sessions, BASE).check(asked, session))
    except Problem as problem:
        return (problem.status, problem.text) != (403, "request could not be verified, reload the page")
    return True
