"""Sessions of browsers: a signed cookie, and the token that proves a request came from our own page.

The cookie holds who it is, until when, and those claims that mappings use. Nothing that came with the request goes into
a new one, so that nobody can be given a session. Its key is not that of admin tokens.
"""

import hmac
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from magos.runtime.clock import Clock
from magos.server.auth.admin import admin_caller
from magos.server.auth.settings import AuthSettings
from magos.server.auth.signed import Unverified, check_times, sign, verify_own
from magos.server.identity import Caller, CallerKind
from magos.server.problems import Problem

COOKIE = "magos_session"
LARGEST = 3900
"""Bytes of the cookie's value; browsers keep 4096 with name and attributes."""
_MOST_ENDED = 10_000


class Session(Struct, frozen=True, kw_only=True):
    """A session that is valid now."""

    id: str
    caller: Caller

    def __repr__(self) -> str:
        """Hide the identifier: the CSRF token is made from it."""
        return f"Session(caller={self.caller!r})"


class NewSession(Struct, frozen=True, kw_only=True):
    """What a browser gets when somebody has logged in."""

    cookie: str
    csrf: str

    def __repr__(self) -> str:
        """Hide both."""
        return "NewSession(<hidden>)"


class Sessions:
    """Makes, reads and ends them."""

    def __init__(self, settings: AuthSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._key = settings.session_key.derive("session")
        self._csrf = settings.session_key.derive("csrf")
        self._ended: OrderedDict[str, None] = OrderedDict()

    def start(self, caller: Caller, used: Mapping[str, frozenset[str]]) -> NewSession:
        """Return a new session of a caller; of its claims it keeps ``used``: the values that mappings name.

        Raises ``Problem`` 403 if they do not fit into a cookie.
        """
        now = self._clock.now()
        identifier = secrets.token_urlsafe(24)
        claims = {name: [value for value in caller.claims.get(name, ()) if value in used[name]] for name in used}
        content = {
            "sid": identifier,
            "kind": caller.kind.value,
            "name": caller.username,
            "sub": caller.subject,
            "iat": int(now.timestamp()),
            "exp": int((now + self._settings.session_ttl).timestamp()),
            "claims": {name: values for name, values in claims.items() if values},
        }
        cookie = sign(content, self._key)
        if len(cookie) > LARGEST:
            raise Problem(403, "too many matching claims")
        return NewSession(cookie=cookie, csrf=self.csrf(identifier))

    def read(self, cookie: str) -> Session:
        """Return the session; raise ``Unverified``."""
        content = verify_own(cookie, self._key)
        expires_at = check_times(content, self._clock.now())
        identifier = content.get("sid")
        if not isinstance(identifier, str) or not identifier or identifier in self._ended:
            raise Unverified("ended")
        return Session(id=identifier, caller=self._caller(content, expires_at))

    def end(self, cookie: str) -> None:
        """Refuse the session from now on, as far as this process remembers; the browser is to forget it besides."""
        try:
            identifier = str(verify_own(cookie, self._key).get("sid"))
        except Unverified:
            return
        self._ended[identifier] = None
        if len(self._ended) > _MOST_ENDED:
            self._ended.popitem(last=False)

    def csrf(self, identifier: str) -> str:
        """Return the token that unsafe requests of this session carry."""
        return self._csrf.mac(identifier)

    def csrf_matches(self, identifier: str, given: str) -> bool:
        """Compare in constant time."""
        return hmac.compare_digest(self.csrf(identifier).encode(), given.encode(errors="surrogatepass"))

    def _caller(self, content: Mapping[str, Any], expires_at: datetime) -> Caller:
        kind = content.get("kind")
        if kind == CallerKind.ADMIN.value:
            if not self._settings.admin.enabled:
                raise Unverified("the admin account is disabled")
            return admin_caller(expires_at, by_cookie=True)
        if kind != CallerKind.OIDC.value or self._settings.oidc is None:
            raise Unverified("no such kind of session")
        claims = content.get("claims")
        return Caller(
            kind=CallerKind.OIDC,
            username=str(content.get("name")),
            subject=str(content.get("sub")),
            expires_at=expires_at.astimezone(UTC),
            claims={str(name): tuple(map(str, values)) for name, values in claims.items()}
            if isinstance(claims, dict)
            else {},
            by_cookie=True,
        )
