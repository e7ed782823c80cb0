"""Tokens of the admin account: HS256, issued by the base URL, for the subject ``admin`` (spec §9.3).

The account is asked for with every request: once it is disabled, or its signing key changed, no token counts.
"""

from datetime import datetime

from magos.runtime.clock import Clock
from magos.server.auth.settings import AdminSettings
from magos.server.auth.signed import Unverified, check_times, sign, verify_own
from magos.server.identity import Caller, CallerKind

SUBJECT = "admin"


class AdminTokens:
    """Makes and verifies them."""

    def __init__(self, settings: AdminSettings, base_url: str, clock: Clock) -> None:
        self._settings = settings
        self._issuer = base_url
        self._clock = clock

    def mint(self) -> str:
        """Return a token. Whoever calls this has checked the password."""
        now = self._clock.now()
        times = {"iat": int(now.timestamp()), "exp": int((now + self._settings.ttl).timestamp())}
        return sign({"iss": self._issuer, "sub": SUBJECT, **times}, self._settings.signing_key)

    def caller(self, token: str) -> Caller:
        """Return the admin; raise ``Unverified``."""
        if not self._settings.enabled:
            raise Unverified("the admin account is disabled")
        claims = verify_own(token, self._settings.signing_key)
        if claims.get("iss") != self._issuer or claims.get("sub") != SUBJECT:
            raise Unverified("another issuer or subject")
        if "iat" not in claims:
            raise Unverified("no iat")
        return admin_caller(check_times(claims, self._clock.now()))


def admin_caller(expires_at: datetime, *, by_cookie: bool = False) -> Caller:
    """Return the admin as a caller."""
    return Caller(kind=CallerKind.ADMIN, username=SUBJECT, subject=SUBJECT, expires_at=expires_at, by_cookie=by_cookie)
