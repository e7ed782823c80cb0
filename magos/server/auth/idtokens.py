"""ID tokens of the identity provider (OpenID Connect Core 3.1.3.7)."""

import hmac
from collections.abc import Mapping
from typing import Any

from magos.runtime.clock import Clock
from magos.server.auth.provider import Provider
from magos.server.auth.settings import OidcSettings
from magos.server.auth.signed import Unverified, check_times, header_of, verify
from magos.server.identity import Caller, CallerKind

_LONGEST_NAME = 256


class IdTokens:
    """Verifies them. Raises ``Unverified``, and ``Problem`` 502 where the provider is needed and does not answer."""

    def __init__(self, settings: OidcSettings, provider: Provider, clock: Clock) -> None:
        self._settings = settings
        self._provider = provider
        self._clock = clock

    async def caller(self, token: str, *, client: str = "", nonce: str | None = None) -> Caller:
        """Return the caller; ``client`` narrows the audience to one of our clients, ``nonce`` is that of the login."""
        header = header_of(token)
        kid, algorithm = header.get("kid"), header.get("alg")
        if not isinstance(algorithm, str) or not (kid is None or isinstance(kid, str)):
            raise Unverified("a malformed header")
        key = await self._provider.key(kid, algorithm)
        claims = verify(token, key.key, key.algorithms)
        self._check_parties(claims, frozenset({client}) if client else self._settings.clients)
        if nonce is not None and not hmac.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()):
            raise Unverified("another nonce")
        expires_at = check_times(claims, self._clock.now())
        subject = claims.get("sub")
        if not isinstance(subject, str) or not subject:
            raise Unverified("no subject")
        known = believed(claims)
        return Caller(
            kind=CallerKind.OIDC,
            username=_name(known.get(self._settings.username_claim, ()), subject),
            subject=subject,
            expires_at=expires_at,
            claims=known,
        )

    def _check_parties(self, claims: Mapping[str, Any], clients: frozenset[str]) -> None:
        if claims.get("iss") != self._settings.issuer:
            raise Unverified("another issuer")
        audience = claims.get("aud")
        audiences = [audience] if isinstance(audience, str) else audience
        if not isinstance(audiences, list) or not any(each in clients for each in audiences if isinstance(each, str)):
            raise Unverified("another audience")
        if "azp" in claims or len(audiences) > 1:
            party = claims.get("azp")
            if not isinstance(party, str) or party not in clients:
                raise Unverified("issued to another party")


def believed(claims: Mapping[str, Any]) -> Mapping[str, tuple[str, ...]]:
    """Return the claims as lists of text, without what is neither; an address that is not verified is left out."""
    unverified = "email_verified" in claims and claims["email_verified"] not in (True, "true")
    found = {name: _texts(value) for name, value in claims.items() if not (name == "email" and unverified)}
    return {name: values for name, values in found.items() if values}


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,) if value else ()
    if isinstance(value, bool):
        return ("true" if value else "false",)
    if isinstance(value, list):
        return tuple(each for each in value if isinstance(each, str) and each)
    return ()


def _name(values: tuple[str, ...], subject: str) -> str:
    name = values[0] if values else subject
    return "".join(char if char.isprintable() else "\ufffd" for char in name[:_LONGEST_NAME])
