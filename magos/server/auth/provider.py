"""What the identity provider says of itself: its endpoints and its keys, fetched when needed and kept for an hour.

An unknown key makes it be asked again, at most every ``PAUSE`` seconds, so that forged tokens cannot flood it. The
algorithms are those of ours that the provider announces; none of them is symmetric, so that a public key is never taken
for a secret.
"""

import asyncio
import base64
import binascii
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import structlog
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, Key, RSAKey
from msgspec import Struct

from magos.runtime.clock import Clock
from magos.server.auth.fetching import Unanswered, provider_down
from magos.server.auth.origins import is_loopback
from magos.server.auth.signed import Unverified

ALGORITHMS = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
}
_ALL = frozenset(each for several in ALGORITHMS.values() for each in several)
KEPT = 3600.0
PAUSE = 10.0
_MOST_KEYS = 64
_SHORTEST_RSA = 256

log = structlog.get_logger(__name__)


class VerificationKey(Struct, frozen=True, kw_only=True):
    """A public key, and the algorithms it may be used with."""

    kid: str
    key: Key
    algorithms: tuple[str, ...]


class Metadata(Struct, frozen=True, kw_only=True):
    """The discovery document, as far as it is used, and the keys."""

    authorization_endpoint: str
    token_endpoint: str
    keys: tuple[VerificationKey, ...]


Fetch = Callable[[str], Awaitable[Mapping[str, Any]]]
"""Returns the JSON object at a URL or raises ``Unanswered``."""


class Provider:
    """One issuer. Raises ``Problem`` 502 where it is needed and does not answer."""

    def __init__(self, issuer: str, fetch: Fetch, clock: Clock, *, insecure: bool) -> None:
        self._issuer = issuer
        self._fetch = fetch
        self._clock = clock
        self._insecure = insecure
        self._known: Metadata | None = None
        self._fetched = 0.0
        self._asked: float | None = None
        self._lock = asyncio.Lock()

    async def metadata(self) -> Metadata:
        """Return what is known, at most an hour old."""
        now = self._clock.monotonic()
        if self._known is None or now - self._fetched >= KEPT:
            await self._refresh()
        if self._known is None or self._clock.monotonic() - self._fetched >= KEPT:
            raise provider_down()
        return self._known

    async def key(self, kid: str | None, algorithm: str) -> VerificationKey:
        """Return the one key that the token can mean; raise ``Unverified`` if there is none."""
        if algorithm not in _ALL:
            raise Unverified("an algorithm that is never accepted")
        metadata = await self.metadata()
        found = _chosen(metadata.keys, kid, algorithm)
        if found is None:
            await self._refresh()
            found = _chosen((self._known or metadata).keys, kid, algorithm)
        if found is None:
            raise Unverified("no such key")
        return found

    async def _refresh(self) -> None:
        """Ask the provider, unless it was asked a moment ago. What is known stays where it does not answer."""
        before = self._asked
        async with self._lock:
            now = self._clock.monotonic()
            if self._asked is not None and (self._asked != before or now - self._asked < PAUSE):
                return
            self._asked = now
            try:
                self._known = await self._ask()
                self._fetched = now
            except Unanswered as error:
                log.warning("identity provider does not answer", issuer=self._issuer, error=str(error))

    async def _ask(self) -> Metadata:
        document = await self._fetch(f"{self._issuer.rstrip('/')}/.well-known/openid-configuration")
        if document.get("issuer") != self._issuer:
            raise Unanswered("the discovery document names another issuer than OIDC_ISSUER_URL; compare them exactly")
        announced = document.get("id_token_signing_alg_values_supported", ["RS256"])
        keys = await self._fetch(self._endpoint(document, "jwks_uri"))
        return Metadata(
            authorization_endpoint=self._endpoint(document, "authorization_endpoint"),
            token_endpoint=self._endpoint(document, "token_endpoint"),
            keys=_keys(
                keys.get("keys"), frozenset(map(str, announced)) if isinstance(announced, list) else frozenset()
            ),
        )

    def _endpoint(self, document: Mapping[str, Any], name: str) -> str:
        url = document.get(name)
        try:
            parts = urlsplit(url) if isinstance(url, str) else urlsplit("")
        except ValueError:
            parts = urlsplit("")
        plain = parts.scheme == "http" and self._insecure and is_loopback(parts)
        if not isinstance(url, str) or not parts.hostname or not (parts.scheme == "https" or plain):
            raise Unanswered(f"{name} of the discovery document is not an https URL")
        return url


def _chosen(keys: tuple[VerificationKey, ...], kid: str | None, algorithm: str) -> VerificationKey | None:
    fitting = [key for key in keys if algorithm in key.algorithms and (kid is None or key.kid == kid)]
    return fitting[0] if len(fitting) == 1 else None


def _keys(document: object, announced: frozenset[str]) -> tuple[VerificationKey, ...]:
    if not isinstance(document, list):
        raise Unanswered("the document of keys has no list of keys")
    found = (_key(each, announced) for each in document[:_MOST_KEYS])
    return tuple(key for key in found if key is not None)


def _key(jwk: object, announced: frozenset[str]) -> VerificationKey | None:
    """Return a key that may verify signatures; None for one of another kind, use or size, which is no fault."""
    if not isinstance(jwk, dict) or jwk.get("use", "sig") != "sig":
        return None
    kind, kid = jwk.get("kty"), jwk.get("kid", "")
    algorithms = tuple(each for each in ALGORITHMS.get(str(kind), ()) if each in announced)
    if "alg" in jwk:
        algorithms = tuple(each for each in algorithms if each == jwk["alg"])
    if not algorithms or not isinstance(kid, str):
        return None
    try:
        if kind == "RSA":
            if len(base64.urlsafe_b64decode(str(jwk["n"]) + "==").lstrip(b"\0")) < _SHORTEST_RSA:
                return None
            return VerificationKey(kid=kid, algorithms=algorithms, key=RSAKey.import_key(_public(jwk, "n", "e")))
        return VerificationKey(kid=kid, algorithms=algorithms, key=ECKey.import_key(_public(jwk, "crv", "x", "y")))
    except (JoseError, KeyError, ValueError, TypeError, binascii.Error):
        return None


def _public(jwk: Mapping[str, Any], *names: str) -> dict[str, str | list[str]]:
    return {name: jwk[name] for name in ("kty", *names)}
