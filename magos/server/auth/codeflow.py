"""The authorization code flow of OpenID Connect with PKCE, as a public client (RFC 7636, RFC 8252, RFC 9700).

What a login began with (state, nonce, verifier, return path) is kept in a signed cookie of that browser for ten
minutes. A code that comes back in another browser, twice or late proves nothing.
"""

import base64
import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from msgspec import Struct

from magos.runtime.clock import Clock
from magos.server.auth.fetching import Refused, Unanswered, provider_down
from magos.server.auth.hidden import Hidden
from magos.server.auth.idtokens import IdTokens
from magos.server.auth.origins import is_loopback_http, return_path
from magos.server.auth.provider import Provider
from magos.server.auth.settings import OidcSettings
from magos.server.auth.signed import Unverified, check_times, sign, verify_own
from magos.server.identity import Caller
from magos.server.problems import Problem

LASTS = timedelta(minutes=10)
_MOST_USED = 10_000
_LONGEST = 4096

Post = Callable[[str, Mapping[str, str]], Awaitable[Mapping[str, Any]]]
"""Posts a form and returns the JSON object of the answer; raises ``Unanswered`` and ``Refused``."""


class Begun(Struct, frozen=True, kw_only=True):
    """A login that has begun: where the browser goes, and what it carries meanwhile."""

    location: str
    cookie: str

    def __repr__(self) -> str:
        """Hide both: they hold the secrets of the login."""
        return "Begun(<hidden>)"


class LoggedIn(Struct, frozen=True, kw_only=True):
    """A login that was proved, and the path to go on with."""

    caller: Caller
    return_path: str


class Exchanged(Struct, frozen=True, kw_only=True):
    """An ID token for a program, with its caller."""

    id_token: str
    caller: Caller

    def __repr__(self) -> str:
        """Hide the token."""
        return f"Exchanged(caller={self.caller!r})"


class CodeFlow:
    """Raises ``Problem`` 400 for a code or state that proves nothing, and 502 where the provider does not answer."""

    def __init__(  # noqa: PLR0913 - what a flow consists of, all by keyword
        self,
        *,
        settings: OidcSettings,
        provider: Provider,
        tokens: IdTokens,
        post: Post,
        base_url: str,
        key: Hidden,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._provider = provider
        self._tokens = tokens
        self._post = post
        self._redirect = f"{base_url}/login"
        self._key = key
        self._clock = clock
        self._used: OrderedDict[str, None] = OrderedDict()

    async def begin(self, path: str) -> Begun:
        """Begin a login of a browser that goes on with ``path`` afterwards."""
        metadata = await self._provider.metadata()
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        query = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": self._redirect,
            "scope": " ".join(self._settings.scopes),
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge_of(verifier),
            "code_challenge_method": "S256",
        }
        expiry = int((self._clock.now() + LASTS).timestamp())
        content = {"state": state, "nonce": nonce, "verifier": verifier, "path": return_path(path), "exp": expiry}
        joint = "&" if "?" in metadata.authorization_endpoint else "?"
        location = f"{metadata.authorization_endpoint}{joint}{urlencode(query)}"
        return Begun(location=location, cookie=sign(content, self._key))

    async def finish(self, cookie: str, state: str, code: str) -> LoggedIn:
        """Finish the login that this browser began."""
        try:
            content = verify_own(cookie, self._key)
            check_times(content, self._clock.now())
            kept = {name: str(content[name]) for name in ("state", "nonce", "verifier", "path")}
        except (Unverified, KeyError):
            raise _invalid() from None
        if not hmac.compare_digest(kept["state"].encode(), state.encode()) or kept["state"] in self._used:
            raise _invalid()
        self._used[kept["state"]] = None
        if len(self._used) > _MOST_USED:
            self._used.popitem(last=False)
        client = self._settings.client_id
        token = await self._exchange(client, code, kept["verifier"], self._redirect)
        try:
            caller = await self._tokens.caller(token, client=client, nonce=kept["nonce"])
        except Unverified:
            raise _invalid() from None
        return LoggedIn(caller=caller, return_path=return_path(kept["path"]))

    async def exchange(self, code: str, verifier: str, redirect_uri: str, client_id: str) -> Exchanged:
        """Exchange the code of a program that logged a person in: to one of our clients, on its own machine."""
        if client_id not in self._settings.clients:
            raise Problem(400, "clientID is not a client of this server, see public-config")
        if redirect_uri != self._redirect and not is_loopback_http(redirect_uri):
            raise Problem(400, "redirectURI is neither on the caller's machine nor the login page of this server")
        token = await self._exchange(client_id, code, verifier, redirect_uri)
        try:
            return Exchanged(id_token=token, caller=await self._tokens.caller(token, client=client_id))
        except Unverified:
            raise _invalid() from None

    async def _exchange(self, client: str, code: str, verifier: str, redirect_uri: str) -> str:
        if not code or not verifier or len(code) > _LONGEST or len(verifier) > _LONGEST:
            raise _invalid()
        metadata = await self._provider.metadata()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "client_id": client,
            "code_verifier": verifier,
        }
        try:
            answer = await self._post(metadata.token_endpoint, form)
        except Refused:
            raise _invalid() from None
        except Unanswered:
            raise provider_down() from None
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise provider_down()
        return token


def challenge_of(verifier: str) -> str:
    """Return the S256 challenge of a verifier."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def _invalid() -> Problem:
    return Problem(400, "the login has expired or is not valid, log in again")
