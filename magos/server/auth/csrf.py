"""Unsafe requests by cookie: they must come from a page of ours, and carry what only such a page knows (spec §9.3)."""

import hmac
import secrets
from urllib.parse import parse_qsl

from starlette.requests import Request

from magos.server.auth.hidden import Hidden
from magos.server.auth.origins import origin_of
from magos.server.auth.sessions import Session, Sessions
from magos.server.problems import Problem

COOKIE = "magos_csrf"
HEADER = "x-csrf-token"
FIELD = "csrf_token"
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
LARGEST_FORM = 64 * 1024
_FORM = "application/x-www-form-urlencoded"


def unverifiable() -> Problem:
    """Return the answer to a request that another page may have made."""
    return Problem(403, "request could not be verified, reload the page")


class CsrfGuard:
    """See the module. Raises ``Problem`` 403."""

    def __init__(self, sessions: Sessions, base_url: str) -> None:
        self._sessions = sessions
        self._origin = origin_of(base_url)

    async def check(self, request: Request, session: Session) -> None:
        """Accept a request that changes something only if it has the origin, the cookie and the token of the session.

        The token is in the header, or, where there is none, in the field ``csrf_token`` of a form.
        """
        if request.method in SAFE:
            return
        self.check_origin(request)
        given = request.headers.get(HEADER)
        if given is None:
            given = (await form_of(request)).get(FIELD, "")
        cookie = request.cookies.get(COOKIE, "")
        same = hmac.compare_digest(given.encode(errors="replace"), cookie.encode(errors="replace"))
        if not same or not self._sessions.csrf_matches(session.id, given):
            raise unverifiable()

    def check_origin(self, request: Request) -> None:
        """Accept only what ``Origin``, or ``Referer`` where there is no ``Origin``, says came from our own pages."""
        origins = request.headers.getlist("origin") or request.headers.getlist("referer")
        if len(origins) != 1 or origin_of(origins[0]) != self._origin:
            raise unverifiable()


async def form_of(request: Request) -> dict[str, str]:
    """Return the fields of an HTML form, empty for any other body; ``Problem`` 413 for one that is too large.

    A field that is there twice is left out: two readers could disagree which of them counts.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
        return {}
    text = (await body_of(request, LARGEST_FORM)).decode("utf-8", "replace")
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=100)
    except ValueError:
        return {}
    names = [name for name, _ in pairs]
    return {name: value for name, value in pairs if names.count(name) == 1}


async def body_of(request: Request, largest: int) -> bytes:
    """Return the body; ``Problem`` 411 and 413 for one without a length, or larger than ``largest`` bytes."""
    length = request.headers.get("content-length", "")
    if not length.isascii() or not length.isdecimal():
        raise Problem(411, "the request has no Content-Length")
    if len(length) > 9 or int(length) > largest:
        raise Problem(413, f"the request is larger than {largest} bytes")
    return await request.body()


class LoginTokens:
    """The token of the login form, where there is no session yet: a cookie and a field that equal each other."""

    COOKIE = "magos_login"

    def __init__(self, key: Hidden) -> None:
        self._key = key

    def make(self) -> str:
        """Return a new token."""
        nonce = secrets.token_urlsafe(24)
        return f"{nonce}.{self._key.mac(nonce)}"

    def is_ours(self, token: str) -> bool:
        """Tell whether we made it."""
        nonce, _, mac = token.partition(".")
        return hmac.compare_digest(self._key.mac(nonce).encode(), mac.encode(errors="replace"))

    def check(self, request: Request, given: str) -> None:
        """Accept the form only in the browser that got it."""
        cookie = request.cookies.get(self.COOKIE, "")
        same = hmac.compare_digest(given.encode(errors="replace"), cookie.encode(errors="replace"))
        if not same or not self.is_ours(given):
            raise unverifiable()
