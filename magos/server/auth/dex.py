"""``/dex/*`` as a reverse proxy to Dex, so that people reach it at the address of Magos (spec §9.2).

Our own cookies are not passed on and cannot be set from there. Bodies and time are bounded, hop-by-hop headers stay
behind, and a path cannot leave what Dex has been given.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any
from urllib.parse import unquote

import httpx
import msgspec
import structlog
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from magos.server.auth import csrf
from magos.server.auth.clientaddress import UNKNOWN, client_address
from magos.server.auth.fetching import LARGEST, TIMEOUT, provider_down
from magos.server.auth.sessions import COOKIE
from magos.server.auth.settings import AuthSettings, DexSettings
from magos.server.problems import Problem

PATH = "/dex"
METHODS = ("GET", "POST", "PUT", "DELETE", "OPTIONS")
STATE_COOKIE = "magos_oidc"
OURS = frozenset({COOKIE, csrf.COOKIE, csrf.LoginTokens.COOKIE, STATE_COOKIE})
LASTS = 60.0
LARGEST_ANSWER = 8 << 20
_HOPS = frozenset(
    (
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    )
)
_WRITTEN = frozenset({"host", "cookie", "content-length", "accept-encoding", "forwarded"})

log = structlog.get_logger(__name__)


class DexProxy:
    """Passes requests on. ``Problem`` 400, 413 and 502."""

    def __init__(self, settings: AuthSettings, dex: DexSettings, client: httpx.AsyncClient) -> None:
        self._settings = settings
        self._dex = dex
        self._client = client

    async def handle(self, request: Request) -> Response:
        """Answer with what Dex answers."""
        rest = rest_of(request)
        body = await csrf.body_of(request, LARGEST) if "content-length" in request.headers else b""
        if "transfer-encoding" in request.headers:
            raise Problem(411, "the request has no Content-Length")
        query = request.scope.get("query_string", b"").decode("latin-1")
        url = f"{self._dex.url}{rest}{f'?{query}' if query else ''}"
        sent = self._client.build_request(request.method, url, headers=self._headers(request), content=body or None)
        try:
            async with asyncio.timeout(TIMEOUT):
                answer = await self._client.send(sent, stream=True)
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
            log.warning("Dex does not answer", error=type(error).__name__)
            raise provider_down() from None
        if rest == "/.well-known/openid-configuration":
            return await self._discovery(answer)
        response = StreamingResponse(_bounded(answer), status_code=answer.status_code)
        response.raw_headers = list(self._answered(answer.headers.multi_items()))
        return response

    def _headers(self, request: Request) -> list[tuple[str, str]]:
        named = {part.strip().lower() for part in request.headers.get("connection", "").split(",")}
        dropped = _HOPS | _WRITTEN | named
        kept = [
            (name, value)
            for name, value in request.headers.items()
            if name not in dropped and not name.startswith("x-forwarded-") and name != "x-csrf-token"
        ]
        cookies = [part.strip() for part in "; ".join(request.headers.getlist("cookie")).split(";")]
        theirs = "; ".join(part for part in cookies if part and part.partition("=")[0].strip() not in OURS)
        address = client_address(request, self._settings.trusted_proxies)
        base = httpx.URL(self._settings.base_url)
        written = [
            ("x-forwarded-proto", base.scheme),
            ("x-forwarded-host", base.netloc.decode("ascii")),
            ("accept-encoding", "identity"),
        ]
        if address != UNKNOWN:
            written.append(("x-forwarded-for", address.partition("/")[0]))
        return [*kept, *written, *([("cookie", theirs)] if theirs else [])]

    def _answered(self, headers: Iterable[tuple[str, str]]) -> Iterable[tuple[bytes, bytes]]:
        pairs = [(name.lower(), value) for name, value in headers]
        named = {part.strip().lower() for name, value in pairs if name == "connection" for part in value.split(",")}
        for name, value in pairs:
            ours = name == "set-cookie" and value.partition("=")[0].strip() in OURS
            if name in _HOPS or name in named or name == "content-length" or ours:
                continue
            shown = self._rewritten(value) if name == "location" else value
            yield name.encode("latin-1"), shown.encode("latin-1", "replace")

    async def _discovery(self, answer: httpx.Response) -> Response:
        """Return the document with addresses that browsers reach."""
        body = b"".join([chunk async for chunk in _bounded(answer)])
        if answer.status_code != 200:
            raise provider_down()
        try:
            document = msgspec.json.decode(body, type=dict[str, Any])
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise provider_down() from None
        return Response(msgspec.json.encode(self.rewritten(document)), media_type="application/json")

    def rewritten(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the discovery document with ``<base>/dex`` instead of Dex's own address and issuer."""
        issuer = document.get("issuer")
        known = (self._dex.url, *((issuer.rstrip("/"),) if isinstance(issuer, str) and issuer.strip("/") else ()))
        return {
            name: self._rewritten(value, known) if isinstance(value, str) else value for name, value in document.items()
        }

    def _rewritten(self, url: str, known: tuple[str, ...] = ()) -> str:
        for prefix in known or (self._dex.url,):
            if url == prefix or url.startswith((f"{prefix}/", f"{prefix}?")):
                return f"{self._settings.base_url}{PATH}{url.removeprefix(prefix)}"
        return url


def rest_of(request: Request) -> str:
    """Return what follows ``/dex`` in the path as it was sent; ``Problem`` 400 for a path that leads out of it."""
    raw = request.scope.get("raw_path") or str(request.scope["path"]).encode()
    sent = raw.decode("latin-1").partition("?")[0].removeprefix(str(request.scope.get("root_path", "")))
    rest = sent.removeprefix(PATH)
    plain = unquote(unquote(rest))
    outside = any(part in (".", "..") for part in plain.split("/")) or "\\" in plain or "#" in rest
    if not sent.startswith(PATH) or not (rest == "" or rest.startswith("/")) or outside or not plain.isprintable():
        raise Problem(400, "the path is not one of the identity provider's")
    return rest


async def _bounded(answer: httpx.Response) -> AsyncIterator[bytes]:
    size = 0
    try:
        async with asyncio.timeout(LASTS):
            async for chunk in answer.aiter_raw():
                size += len(chunk)
                if size > LARGEST_ANSWER:
                    raise provider_down()
                yield chunk
    except (httpx.HTTPError, TimeoutError):
        raise provider_down() from None
    finally:
        await answer.aclose()
