"""JSON Web Tokens with the algorithms that the reader names, never those that the token names.

``issuer_of`` reads a token without believing it: its answer chooses the verifier and decides nothing else.
"""

import base64
import binascii
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import Key, OctKey
from joserfc.jws import JWSRegistry

from magos.server.auth.hidden import Hidden

LONGEST = 16 * 1024
"""Characters of a token that is looked at; an ID token with some hundred groups is smaller."""
LEEWAY = 60.0
"""Seconds by which the clock of whoever issued a token may be ahead of ours. An expiry has no leeway."""


class Unverified(Exception):
    """A token that proves nothing. The text says why, for tests and debug logs; callers learn only that it is so."""


class _Registry(JWSRegistry):
    max_header_length = 4096  # certificates stand in the header of some issuers


def sign(claims: Mapping[str, Any], key: Hidden) -> str:
    """Return the claims signed with HS256."""
    return jwt.encode({"alg": "HS256"}, dict(claims), OctKey.import_key(key.reveal()), algorithms=["HS256"])


def verify_own(token: str, key: Hidden) -> Mapping[str, Any]:
    """Return the claims of a token that ``sign`` made with this key; raise ``Unverified`` for anything else."""
    return verify(token, OctKey.import_key(key.reveal()), ("HS256",))


def verify(token: str, key: Key, algorithms: tuple[str, ...]) -> Mapping[str, Any]:
    """Return the claims if the signature is by this key with one of these algorithms; raise ``Unverified``."""
    if len(token) > LONGEST:
        raise Unverified("longer than any token")
    if not algorithms:
        raise Unverified("no algorithm is accepted")  # an empty list would mean the defaults of the library
    try:
        registry = _Registry(algorithms=algorithms, strict_check_header=False)
        return jwt.decode(token, key, algorithms=algorithms, registry=registry).claims
    except (JoseError, ValueError, TypeError, UnicodeError, RecursionError) as error:
        raise Unverified(type(error).__name__) from None


def check_times(claims: Mapping[str, Any], now: datetime) -> datetime:
    """Return when the token expires; raise ``Unverified`` if it has, if it is not valid yet, or says nothing of it."""
    moment = now.timestamp()
    expiry = _seconds(claims, "exp")
    if expiry is None or expiry <= moment:
        raise Unverified("expired, or without an expiry")
    for name in ("nbf", "iat"):
        begin = _seconds(claims, name)
        if begin is not None and begin > moment + LEEWAY:
            raise Unverified(f"{name} lies ahead")
    try:
        return datetime.fromtimestamp(expiry, tz=now.tzinfo)
    except (OverflowError, ValueError, OSError):
        raise Unverified("an expiry that no clock shows") from None


def _seconds(claims: Mapping[str, Any], name: str) -> float | None:
    if name not in claims:
        return None
    value = claims[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # noqa: PLR0124 - NaN
        raise Unverified(f"{name} is no time")
    return float(value)


def header_of(token: str) -> Mapping[str, Any]:
    """Return the header without believing it; raise ``Unverified`` if this is no token."""
    return _part(token, 0)


def issuer_of(token: str) -> str:
    """Return who claims to have issued the token, unproved; raise ``Unverified`` if this is no token."""
    issuer = _part(token, 1).get("iss")
    if not isinstance(issuer, str) or not issuer:
        raise Unverified("no issuer")
    return issuer


def end_of(token: str, now: datetime) -> datetime | None:
    """Return when a token that somebody else has verified expires, None if it never does; ``Unverified`` if it has."""
    claims = _part(token, 1)
    return check_times({"exp": claims["exp"]}, now) if "exp" in claims else None


def _part(token: str, index: int) -> Mapping[str, Any]:
    parts = token.split(".") if len(token) <= LONGEST else []
    if len(parts) != 3:
        raise Unverified("not a signed token")
    try:
        text = base64.b64decode(parts[index] + "=" * (-len(parts[index]) % 4), altchars=b"-_", validate=True)
        return msgspec.json.decode(text, type=dict[str, Any])
    except (binascii.Error, ValueError, msgspec.MsgspecError, RecursionError):
        raise Unverified("not a signed token") from None
