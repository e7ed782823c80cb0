"""Each kind of token is verified with its own algorithms and keys, whatever the token says of itself (spec §9.3)."""

import asyncio
import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import OctKey
from starlette.requests import Request

from magos.server.auth.accounts import AccountTokens
from magos.server.auth.admin import AdminTokens
from magos.server.auth.authenticator import RequestAuthenticator
from magos.server.auth.csrf import CsrfGuard
from magos.server.auth.idtokens import IdTokens
from magos.server.auth.provider import KEPT, PAUSE, Provider
from magos.server.auth.sessions import Sessions
from magos.server.identity import Caller, CallerKind
from magos.server.problems import Problem
from tests.unit.server.auth.world import (
    BASE,
    EC,
    ISSUER,
    OTHER_RSA,
    RSA,
    Cluster,
    Hands,
    Issuer,
    client_of,
    request,
    settings,
)

STREAM = "/apis/magosproject.io/v1alpha1/workspaces/events"


class Door:
    """An authenticator with everything around it."""

    def __init__(self, **environ: str) -> None:
        self.clock = Hands()
        self.settings = settings(**environ)
        self.issuer = Issuer(self.clock)
        self.cluster = Cluster()
        self.admin = AdminTokens(self.settings.admin, BASE, self.clock)
        oidc = self.settings.oidc
        assert oidc is not None
        self.provider = Provider(oidc.issuer, self.issuer.fetch, self.clock, insecure=False)
        self.tokens = IdTokens(oidc, self.provider, self.clock)
        self.sessions = Sessions(self.settings, self.clock)
        self.authenticator = RequestAuthenticator(
            settings=self.settings,
            admin=self.admin,
            oidc=self.tokens,
            accounts=AccountTokens(client_of(self.cluster), self.clock),
            sessions=self.sessions,
            guard=CsrfGuard(self.sessions, BASE),
        )

    def caller(self, token: str) -> Caller:
        return self.of(request(headers=[("authorization", f"Bearer {token}")]))

    def of(self, asked: Request) -> Caller:
        return asyncio.run(self.authenticator.caller(asked))

    def refuses(self, token: str) -> bool:
        with pytest.raises(Problem) as raised:
            self.caller(token)
        return raised.value.status == 401 and raised.value.text == "authentication required"


def unsigned(claims: dict[str, Any], alg: str = "none") -> str:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    return f"{part({'alg': alg})}.{part(claims)}."


@pytest.fixture
def door() -> Door:
    return Door()


def test_an_id_token_is_believed(door: Door) -> None:
    caller = door.caller(door.issuer.token())
    assert (caller.kind, caller.username, caller.subject) == (CallerKind.OIDC, "ann@example.com", "s-1")
    assert caller.claims["groups"] == ("team-a", "team-b")


def test_an_admin_token_is_believed_until_it_expires(door: Door) -> None:
    token = door.admin.mint()
    assert door.caller(token).kind is CallerKind.ADMIN
    door.clock.seconds += 24 * 3600
    assert door.refuses(token)


def test_a_disabled_admin_and_a_changed_key_revoke_every_token(door: Door) -> None:
    token = door.admin.mint()
    for changed in ({"ADMIN_ACCOUNT_ENABLED": "false"}, {"ADMIN_ACCOUNT_TOKEN_SIGNING_KEY": "x" * 32}):
        assert Door(**changed).refuses(token)


def test_a_public_key_is_never_taken_for_a_secret(door: Door) -> None:
    claims = door.issuer.claims()
    for secret in (RSA.as_pem(private=False), RSA.as_der(private=False), json.dumps(RSA.as_dict(private=False))):
        key = OctKey.import_key(base64.urlsafe_b64encode(secret if isinstance(secret, bytes) else secret.encode()))
        for alg in ("HS256", "HS384", "HS512"):
            assert door.refuses(jwt.encode({"alg": alg, "kid": "one"}, claims, key, algorithms=[alg]))
    door.issuer.algorithms = ["RS256", "HS256", "none"]
    assert door.refuses(unsigned(claims))
    for alg in ("none", "None", "NONE", "", "HS256"):
        assert door.refuses(unsigned(claims, alg))


def test_no_key_of_one_kind_verifies_the_other(door: Door) -> None:
    oct_key = OctKey.import_key("t" * 32)
    now = int(door.clock.now().timestamp())
    claims = {"sub": "admin", "iat": now, "exp": now + 60}
    assert door.refuses(jwt.encode({"alg": "HS256"}, {**door.issuer.claims(), "sub": "admin"}, oct_key))
    assert door.refuses(jwt.encode({"alg": "RS256", "kid": "one"}, {**claims, "iss": BASE}, RSA, algorithms=["RS256"]))
    for alg in ("HS384", "HS512"):
        assert door.refuses(jwt.encode({"alg": alg}, {**claims, "iss": BASE}, oct_key, algorithms=[alg]))
    assert door.refuses(unsigned({**claims, "iss": BASE}))
    assert door.caller(jwt.encode({"alg": "HS256"}, {**claims, "iss": BASE}, oct_key)).username == "admin"


def test_an_admin_token_needs_subject_iat_and_exp(door: Door) -> None:
    now = int(door.clock.now().timestamp())
    good: dict[str, Any] = {"iss": BASE, "sub": "admin", "iat": now, "exp": now + 60}
    for name, value in (
        ("sub", "ann"),
        ("sub", None),
        ("iat", None),
        ("exp", None),
        ("exp", True),
        ("exp", "9999999999"),
    ):
        claims = {key: held for key, held in {**good, name: value}.items() if held is not None}
        assert door.refuses(jwt.encode({"alg": "HS256"}, claims, OctKey.import_key("t" * 32)))


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": f"{ISSUER}/"},
        {"aud": "another"},
        {"aud": []},
        {"aud": None},
        {"aud": {"ui": 1}},
        {"aud": ["ui", "another"]},
        {"aud": ["ui", "another"], "azp": "another"},
        {"azp": "another"},
        {"exp": 1},
        {"exp": None},
        {"exp": 1e400},
        {"nbf": 99999999999},
        {"iat": 99999999999},
        {"nbf": "soon"},
        {"sub": None},
        {"sub": ""},
    ],
)
def test_an_id_token_of_another_issuer_audience_or_time_is_refused(door: Door, changes: dict[str, Any]) -> None:
    assert door.refuses(door.issuer.token(**changes))


def test_several_audiences_need_one_of_our_clients_as_the_party(door: Door) -> None:
    for audience, party in ((["other", "cli"], "cli"), (["ui", "cli"], "ui"), ("cli", None)):
        assert door.caller(door.issuer.token(aud=audience, azp=party)).subject == "s-1"


def test_a_token_with_another_key_or_an_altered_part_is_refused(door: Door) -> None:
    assert door.refuses(door.issuer.token(OTHER_RSA))
    head, body, signature = door.issuer.token().split(".")
    other = door.issuer.token(sub="s-2").split(".")
    for token in (
        f"{head}.{other[1]}.{signature}",
        f"{head}.{body}.",
        f"{head}.{body}",
        "",
        "a.b.c",
        "é.é.é",
        f"{head}.{body}.{signature}.x",
    ):
        if token:
            assert door.refuses(token)


def test_a_new_key_is_fetched_and_an_old_one_is_forgotten(door: Door) -> None:
    old = door.issuer.token()
    assert door.caller(old).subject == "s-1"
    door.issuer.keys = [OTHER_RSA]
    door.clock.seconds += PAUSE
    assert door.caller(door.issuer.token(OTHER_RSA, {"kid": "two"})).subject == "s-1"
    assert door.refuses(old)


def test_forged_key_names_do_not_flood_the_provider(door: Door) -> None:
    door.caller(door.issuer.token())
    asked = len(door.issuer.asked)
    for number in range(50):
        assert door.refuses(door.issuer.token(header={"kid": f"k{number}"}))
    assert len(door.issuer.asked) == asked
    door.clock.seconds += PAUSE
    assert door.refuses(door.issuer.token(header={"kid": "x"}))
    assert len(door.issuer.asked) == asked + 2


def test_only_announced_algorithms_of_ours_are_accepted(door: Door) -> None:
    door.issuer.keys = [RSA, EC]
    door.issuer.algorithms = ["ES256"]
    assert door.caller(door.issuer.token(EC, {"alg": "ES256", "kid": "curve"})).subject == "s-1"
    assert door.refuses(door.issuer.token())


def test_known_keys_outlast_a_provider_that_is_down_for_an_hour_at_most(door: Door) -> None:
    door.caller(door.issuer.token())
    door.issuer.down = True
    assert door.caller(door.issuer.token()).subject == "s-1"
    door.clock.seconds += KEPT
    with pytest.raises(Problem) as raised:
        door.caller(door.issuer.token())
    assert raised.value.status == 502


@pytest.mark.parametrize(
    "changes",
    [
        {"issuer": "https://evil.example.com"},
        {"jwks_uri": "http://issuer.example.com/keys"},
        {"token_endpoint": "http://127.0.0.1/token"},
        {"jwks_uri": "file:///etc/passwd"},
        {"authorization_endpoint": None},
    ],
)
def test_a_discovery_document_that_leads_elsewhere_is_not_believed(door: Door, changes: dict[str, Any]) -> None:
    door.issuer.changes = changes
    with pytest.raises(Problem) as raised:
        door.caller(door.issuer.token())
    assert raised.value.status == 502


def test_an_unverified_address_is_neither_name_nor_claim(door: Door) -> None:
    caller = door.caller(door.issuer.token(email_verified=False))
    assert caller.username == "s-1"
    assert "email" not in caller.claims


def test_a_service_account_token_is_asked_about_once_in_15_s(door: Door) -> None:
    token = unsigned({"iss": "https://kubernetes.default.svc"}, "RS256") + "AAAA"
    door.cluster.tokens[token] = {"username": "system:serviceaccount:a:b", "groups": ["g"], "extra": {"e": ["1"]}}
    caller = door.caller(token)
    assert caller.kind is CallerKind.SERVICE_ACCOUNT
    assert caller.expires_at is None  # those of a Secret do not expire
    assert caller.user is not None
    assert (caller.user.groups, caller.user.extra) == (("g",), {"e": ("1",)})
    door.caller(token)
    assert door.cluster.token_reviews == 1
    del door.cluster.tokens[token]
    door.clock.seconds += 15
    assert door.refuses(token)
    assert door.refuses(token)
    assert door.cluster.token_reviews == 2


def test_a_service_account_token_ends_when_it_says_although_its_answer_is_kept(door: Door) -> None:
    """A stream asks once who opened it: without the end it would outlive the token."""
    end = int(door.clock.now().timestamp()) + 10
    token = unsigned({"iss": "k", "exp": end}, "RS256") + "AAAA"
    door.cluster.tokens[token] = {"username": "system:serviceaccount:a:b"}
    assert door.caller(token).expires_at == datetime.fromtimestamp(end, UTC)
    door.clock.seconds += 10
    assert door.refuses(token)
    endless = unsigned({"iss": "k", "exp": "never"}, "RS256") + "AAAA"
    door.cluster.tokens[endless] = door.cluster.tokens[token]
    assert door.refuses(endless)


def test_other_users_of_the_cluster_are_not_accepted(door: Door) -> None:
    token = unsigned({"iss": "k"}, "RS256") + "AAAA"
    door.cluster.tokens[token] = {"username": "system:admin", "groups": ["system:masters"]}
    assert door.refuses(token)


def test_a_cluster_that_is_down_is_503_and_is_not_remembered(door: Door) -> None:
    token = unsigned({"iss": "k"}, "RS256") + "AAAA"
    door.cluster.tokens[token] = {"username": "system:serviceaccount:a:b"}
    door.cluster.down = True
    with pytest.raises(Problem) as raised:
        door.caller(token)
    assert raised.value.status == 503
    door.cluster.down = False
    assert door.caller(token).username == "system:serviceaccount:a:b"


def test_the_token_in_the_address_counts_on_streams_only(door: Door) -> None:
    query = {"access_token": door.admin.mint()}
    live = "/apis/magosproject.io/v1alpha1/workspaces/a/b/runs/current/log/stream"
    for path in (STREAM, live):
        assert door.of(request(path=path, query=query)).kind is CallerKind.ADMIN
    for asked in (
        request(query=query),
        request(path="/login/events", query=query),
        request("POST", STREAM, query=query),
        request(path=f"{live}/x", query=query),
        request(path=STREAM, query=f"access_token={query['access_token']}&access_token=x"),
    ):
        with pytest.raises(Problem, match="authentication required"):
            door.of(asked)


def test_a_request_with_a_bad_bearer_token_is_not_saved_by_its_cookie(door: Door) -> None:
    new = door.sessions.start(door.caller(door.issuer.token()), {})
    cookies = {"magos_session": new.cookie}
    assert door.of(request(cookies=cookies)).by_cookie
    for value in ("Bearer x.y.z", "Basic YTpi", "Bearer", ""):
        with pytest.raises(Problem, match="authentication required"):
            door.of(request(headers=[("authorization", value)], cookies=cookies))
