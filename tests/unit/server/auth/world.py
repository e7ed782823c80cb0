"""What the tests of authentication stand on: clocks, an issuer in memory, a cluster that answers reviews, requests."""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import bcrypt
import msgspec
from joserfc import jwt
from joserfc.jwk import ECKey, Key, RSAKey
from starlette.requests import Request

from magos.api.kube.mappedaccounts import MAPPED_ACCOUNTS, MappedAccount
from magos.api.meta import ObjectMeta
from magos.runtime.cache.cache import Change
from magos.runtime.cache.informer import Informer
from magos.runtime.client.client import ApiClient
from magos.runtime.client.transport import HttpRequest, HttpResponse, TransportError
from magos.server.auth.settings import AuthSettings, load_auth_settings

BASE = "https://magos.example.com"
ISSUER = "https://issuer.example.com"
PASSWORD = "correct horse battery"
HASH = bcrypt.hashpw(PASSWORD.encode(), b"$2b$04$" + b"u" * 22).decode()  # one salt: ids of tests hold the hash
ENVIRON = {
    "MAGOS_BASE_URL": BASE,
    "ADMIN_ACCOUNT_PASSWORD_HASH": HASH,
    "ADMIN_ACCOUNT_TOKEN_SIGNING_KEY": "t" * 32,
    "MAGOS_SESSION_SIGNING_KEY": "s" * 32,
    "OIDC_ISSUER_URL": ISSUER,
    "OIDC_CLIENT_ID": "ui",
    "OIDC_CLI_CLIENT_ID": "cli",
    "POD_NAMESPACE": "magos",
    "MAGOS_GLOBAL_SERVICE_ACCOUNT_NAMESPACES": "shared",
}
RSA = RSAKey.generate_key(2048, {"kid": "one"}, private=True)
OTHER_RSA = RSAKey.generate_key(2048, {"kid": "two"}, private=True)
EC = ECKey.generate_key("P-256", {"kid": "curve"}, private=True)


def settings(**changes: str) -> AuthSettings:
    return load_auth_settings({**ENVIRON, **changes})


class Hands:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.start = datetime(2026, 1, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return self.start + timedelta(seconds=self.seconds)


class Issuer:
    """An identity provider in memory: ``fetch`` answers as its web server would."""

    def __init__(self, clock: Hands, url: str = ISSUER) -> None:
        self.url = url
        self.clock = clock
        self.keys: list[Key] = [RSA]
        self.asked: list[str] = []
        self.down = False
        self.changes: dict[str, Any] = {}
        self.algorithms = ["RS256", "ES256"]

    async def fetch(self, url: str) -> Mapping[str, Any]:
        from magos.server.auth.fetching import Unanswered

        self.asked.append(url)
        if self.down:
            raise Unanswered("down")
        if url.endswith("/keys"):
            return {"keys": [{**key.as_dict(private=False), "use": "sig"} for key in self.keys]}
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/auth",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            "id_token_signing_alg_values_supported": self.algorithms,
            **self.changes,
        }

    def claims(self, **changes: Any) -> dict[str, Any]:
        now = int(self.clock.now().timestamp())
        claims = {
            "iss": self.url,
            "aud": "ui",
            "sub": "s-1",
            "exp": now + 300,
            "iat": now,
            "email": "ann@example.com",
            "groups": ["team-a", "team-b"],
            **changes,
        }
        return {name: value for name, value in claims.items() if value is not None}

    def token(self, key: Key = RSA, header: Mapping[str, Any] | None = None, **changes: Any) -> str:
        return jwt.encode(
            {"alg": "RS256", "kid": "one", **(header or {})}, self.claims(**changes), key, algorithms=["RS256", "ES256"]
        )


class Cluster:
    """Answers TokenReviews and SubjectAccessReviews, and counts them."""

    def __init__(self) -> None:
        self.allowed: Callable[[Mapping[str, Any]], bool] = lambda _spec: False
        self.tokens: dict[str, dict[str, Any]] = {}
        self.reviews: list[dict[str, Any]] = []
        self.token_reviews = 0
        self.down = False
        self.at_once = 0
        self.most_at_once = 0

    async def request(self, request: HttpRequest) -> HttpResponse:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(0)
            if self.down:
                raise TransportError("down", sent=False)
            body = msgspec.json.decode(request.body or b"")
            if request.path.endswith("/tokenreviews"):
                self.token_reviews += 1
                user = self.tokens.get(body["spec"]["token"])
                status: dict[str, Any] = {"authenticated": user is not None}
                if user is not None:
                    status["user"] = user
            else:
                self.reviews.append(body["spec"])
                status = {"allowed": self.allowed(body["spec"])}
            answer = {**body, "status": status}
            return HttpResponse(status=201, headers={}, body=msgspec.json.encode(answer))
        finally:
            self.at_once -= 1


def client_of(cluster: Cluster) -> ApiClient:
    return ApiClient(cluster)  # type: ignore[arg-type]


def accounts_of(clock: Hands, *accounts: MappedAccount, synced: bool = True) -> Informer[MappedAccount]:
    """Return an informer that holds these accounts and never runs."""
    informer = Informer(client_of(Cluster()), MAPPED_ACCOUNTS, clock=clock, rng=random.Random(1))
    informer.cache.replace(accounts, (), "1")
    if synced:
        informer._synced.set()
    return informer


def tell(informer: Informer[MappedAccount], old: MappedAccount | None, new: MappedAccount | None) -> None:
    for handler in informer._handlers:
        handler(Change(old=old, new=new))


def account(namespace: str, name: str, claims: object = None, **annotations: str) -> MappedAccount:
    listed = dict(annotations)
    if claims is not None:
        listed["rbac.magosproject.io/claims"] = (
            claims if isinstance(claims, str) else msgspec.json.encode(claims).decode()
        )
    return MappedAccount(metadata=ObjectMeta(namespace=namespace, name=name, annotations=listed))


def request(
    method: str = "GET",
    path: str = "/apis/magosproject.io/v1alpha1/workspaces",
    headers: Sequence[tuple[str, str]] = (),
    *,
    query: Mapping[str, str] | str = "",
    cookies: Mapping[str, str] | None = None,
    form: Mapping[str, str] | None = None,
    peer: str = "203.0.113.7",
) -> Request:
    """Return a request as the server would make it."""
    body = urlencode(form).encode() if form is not None else b""
    sent = list(headers)
    if cookies:
        sent.append(("cookie", "; ".join(f"{name}={value}" for name, value in cookies.items())))
    if form is not None:
        sent += [("content-type", "application/x-www-form-urlencoded"), ("content-length", str(len(body)))]

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    text = query if isinstance(query, str) else urlencode(query)
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": text.encode(),
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in sent],
        "client": (peer, 1234),
        "server": ("magos.example.com", 443),
        "scheme": "https",
    }
    return Request(scope, receive)
