"""Bounded requests to an identity provider: ten seconds, a megabyte, no redirects, JSON objects only."""

import asyncio
import ssl
from collections.abc import Mapping
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import httpx
import msgspec

from magos.server.problems import Problem

TIMEOUT = 10.0
LARGEST = 1 << 20


class Unanswered(Exception):
    """The provider did not answer as it should. The text is for the log and holds nothing of the request."""


class Refused(Exception):
    """The provider answered that what it was given is wrong (4xx)."""


def provider_down() -> Problem:
    """Return the answer where the identity provider is needed and does not answer."""
    return Problem(502, "the identity provider does not answer, try again later")


def http_client(ca_file: str) -> httpx.AsyncClient:
    """Return a client that trusts the usual authorities and those in ``ca_file``."""
    context: ssl.SSLContext = httpx.create_ssl_context()
    if ca_file:
        context.load_verify_locations(ca_file)
    limits = httpx.Limits(max_connections=20, max_keepalive_connections=4)
    return httpx.AsyncClient(
        verify=context, timeout=TIMEOUT, limits=limits, follow_redirects=False, cookies=no_cookies()
    )


def no_cookies() -> CookieJar:
    """Return a jar that keeps nothing: one client serves many people, and a cookie of one is not for another."""
    return CookieJar(policy=DefaultCookiePolicy(allowed_domains=()))


async def fetch_object(client: httpx.AsyncClient, url: str, form: Mapping[str, str] | None = None) -> Mapping[str, Any]:
    """Return the JSON object that a GET, or a POST of ``form``, is answered with; ``Unanswered`` or ``Refused``."""
    method = "GET" if form is None else "POST"
    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    body = bytearray()
    try:
        async with asyncio.timeout(TIMEOUT), client.stream(method, url, data=form, headers=headers) as response:
            async for chunk in response.aiter_bytes(LARGEST):
                body += chunk
                if len(body) > LARGEST:
                    raise Unanswered(f"{method} {url}: the answer has more than {LARGEST} bytes")
            status = response.status_code
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, ValueError) as error:
        raise Unanswered(f"{method} {url}: {type(error).__name__}") from None
    if 400 <= status < 500 and form is not None and status not in (408, 429):
        raise Refused(f"{method} {url}: {status}")
    if status != 200:
        raise Unanswered(f"{method} {url}: {status}")
    try:
        return msgspec.json.decode(bytes(body), type=dict[str, Any])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise Unanswered(f"{method} {url}: the answer is no JSON object") from None
