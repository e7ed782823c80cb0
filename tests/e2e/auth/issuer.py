"""An identity provider of the tests' own: OpenID Connect with PKCE over TLS, as strict as the specifications are.

It knows two public clients. People log in with a form that asks for their name only. What is wrong with a request is
refused and noted in ``refused``.
"""

import asyncio
import base64
import hashlib
import secrets
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import trustme
import uvicorn
from joserfc import jwt
from joserfc.jwk import RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from magos.local.ports import free_ports

__all__ = ["CLI", "WEB", "Issuer", "running_issuer"]

WEB, CLI = "magos-web", "magos-cli"
_CODE_SECONDS = 60

Claims = Mapping[str, Any]


class Issuer:
    """The provider. ``redirect`` is the one address that codes of the web client go to."""

    def __init__(self, url: str, redirect: str, people: Mapping[str, Claims]) -> None:
        self.url = url
        self.refused: list[str] = []
        self._redirect = redirect
        self._people = people
        self._asked: dict[str, dict[str, str]] = {}
        self._codes: dict[str, tuple[float, str, dict[str, str]]] = {}
        self._keys = [_new_key()]

    @property
    def app(self) -> Starlette:
        """The web application."""
        return Starlette(
            routes=[
                Route("/.well-known/openid-configuration", self._discovery),
                Route("/keys", self._jwks),
                Route("/authorize", self._ask, methods=["GET"]),
                Route("/authorize", self._enter, methods=["POST"]),
                Route("/token", self._token, methods=["POST"]),
            ]
        )

    def rotate(self) -> None:
        """Sign with a new key from now on, and no longer publish the old one."""
        self._keys.append(_new_key())

    def token(self, person: str, audience: str, *, nonce: str = "", old_key: bool = False, lasts: int = 3600) -> str:
        """Return an ID token; ``lasts`` is in seconds and may be negative."""
        key = self._keys[0 if old_key else -1]
        now = int(time.time())
        claims = {"iss": self.url, "aud": audience, "iat": min(now, now + lasts), "exp": now + lasts}
        claims |= {"sub": f"id-of-{person}", **self._people[person], **({"nonce": nonce} if nonce else {})}
        return jwt.encode({"alg": "RS256", "kid": key.kid}, claims, key)

    async def _discovery(self, request: Request) -> Response:
        del request
        return JSONResponse(
            {
                "issuer": self.url,
                "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
                "jwks_uri": f"{self.url}/keys",
                "response_types_supported": ["code"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["RS256"],
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["none"],
            }
        )

    async def _jwks(self, request: Request) -> Response:
        del request
        key = self._keys[-1]
        return JSONResponse({"keys": [{**key.as_dict(private=False), "use": "sig", "alg": "RS256", "kid": key.kid}]})

    async def _ask(self, request: Request) -> Response:
        query = dict(request.query_params)
        if len(query) != len(request.query_params.multi_items()):
            return self._refuse("a parameter is there twice")
        wanted = {"response_type": "code", "code_challenge_method": "S256"}
        if not self._may_return(query.get("client_id", ""), query.get("redirect_uri", "")):
            return self._refuse("redirect_uri is not the client's")
        if any(query.get(name) != value for name, value in wanted.items()) or not query.get("state"):
            return self._refuse("no code flow with PKCE and state")
        if len(query.get("code_challenge", "")) != 43 or "openid" not in query.get("scope", "").split():
            return self._refuse("no challenge of SHA-256, or no scope openid")
        asked = secrets.token_urlsafe(16)
        self._asked[asked] = query
        form = f'<form method="post" action="/authorize?asked={asked}"><input name="person"><button>Go</button></form>'
        return HTMLResponse(form)

    async def _enter(self, request: Request) -> Response:
        query = self._asked.pop(request.query_params.get("asked", ""), None)
        person = dict(parse_qsl((await request.body()).decode())).get("person", "")
        if query is None or person not in self._people:
            return self._refuse("nobody asked, or nobody is called so")
        code = secrets.token_urlsafe(24)
        self._codes[code] = (time.monotonic(), person, query)
        answer = urlencode({"code": code, "state": query["state"]})
        return RedirectResponse(f"{query['redirect_uri']}?{answer}", 302)

    async def _token(self, request: Request) -> Response:
        pairs = parse_qsl((await request.body()).decode())
        form = dict(pairs)
        began, person, query = self._codes.pop(form.get("code", ""), (0.0, "", {}))
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form.get("code_verifier", "").encode()).digest())
        right = {
            "code": person != "" and time.monotonic() - began < _CODE_SECONDS,
            "grant_type": form.get("grant_type") == "authorization_code" and len(form) == len(pairs),
            "client_id": form.get("client_id") == query.get("client_id"),
            "redirect_uri": form.get("redirect_uri") == query.get("redirect_uri"),
            "code_verifier": challenge.rstrip(b"=").decode() == query.get("code_challenge"),
        }
        wrong = [name for name, fits in right.items() if not fits]
        if wrong:
            self.refused.append(f"wrong {wrong[0]}")
            return JSONResponse({"error": "invalid_grant"}, 400, {"Cache-Control": "no-store"})
        token = self.token(person, query["client_id"], nonce=query.get("nonce", ""))
        content = {"id_token": token, "access_token": secrets.token_urlsafe(16), "token_type": "Bearer"}
        return JSONResponse(content, headers={"Cache-Control": "no-store"})

    def _may_return(self, client: str, uri: str) -> bool:
        """Tell whether codes of the client may go there: for programs any port of this machine (RFC 8252)."""
        parts = urlsplit(uri)
        loopback = (parts.scheme, parts.hostname, parts.fragment) == ("http", "127.0.0.1", "")
        return uri == self._redirect if client == WEB else client == CLI and loopback

    def _refuse(self, why: str) -> Response:
        self.refused.append(why)
        return PlainTextResponse(why, 400)


@contextmanager
def running_issuer(folder: Path, redirect: str, people: Mapping[str, Claims]) -> Iterator[Issuer]:
    """Serve the provider around a block; ``folder`` then holds ``ca.pem``."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(folder / "issuer.pem"))
    [port] = free_ports(1)
    issuer = Issuer(f"https://127.0.0.1:{port}", redirect, people)
    config = uvicorn.Config(
        issuer.app,
        host="127.0.0.1",
        port=port,
        ssl_certfile=folder / "issuer.pem",
        ssl_version=ssl.PROTOCOL_TLS_SERVER,
        log_level="error",
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=2,
    )
    server = _Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()), daemon=True)
    thread.start()
    try:
        assert server.ready.wait(20), "the identity provider is not served"
        yield issuer
    finally:
        server.should_exit = True
        thread.join(20)


class _Server(uvicorn.Server):
    """Says when it is served."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = threading.Event()

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self.ready.set()


def _new_key() -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": secrets.token_hex(4)}, private=True)
