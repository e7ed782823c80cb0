"""When the key that signed a release ends, and what to say about it in good time.

A signature stays valid when its key expires later (the OpenPGP library judges a key as of the signature's date), but
releases signed after the date that *our copy* of the key names are refused until the extended key is installed.
Administrators should know before that.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pysequoia import Cert
    from pysequoia.packet import Packet

WARN_BEFORE: Final = timedelta(days=90)
"""How long before a key expires a run begins to warn: a release cycle of most installations."""

_ADVICE: Final = "put the vendor's extended key into the folder MAGOS_RELEASE_KEYS, or update the runner image"


def expiry_of(keys: Iterable["Cert"], issuer: str) -> datetime | None:
    """Return when the key or subkey ``issuer`` (fingerprint or key ID) of ``keys`` expires, its primary key included.

    None if it never does or is not among ``keys``.
    """
    ends: list[datetime] = []
    for certificate in keys:
        for identities, expiration in _components(certificate):
            if issuer.lower() in identities:
                ends += [end for end in (expiration, certificate.expiration) if end is not None]
    return min(ends, default=None)


def expiry_warning(issuer: str, expires: datetime | None, now: datetime) -> str | None:
    """Return what to tell about a key that made a valid signature, or None if there is time."""
    if expires is None or expires - now > WARN_BEFORE:
        return None
    if expires <= now:
        return f"the release key {issuer} expired on {expires:%Y-%m-%d}: releases signed since are refused; {_ADVICE}"
    days = (expires - now).days
    return (
        f"the release key {issuer} expires on {expires:%Y-%m-%d} (in {days} days): releases signed after that will be"
        f" refused; {_ADVICE}"
    )


def _made(signature: "Packet") -> datetime:
    return signature.signature_created or datetime.min.replace(tzinfo=UTC)


def _components(certificate: "Cert") -> Iterator[tuple[set[str], datetime | None]]:
    """Yield the names of every key of a certificate and when it expires by its own newest binding (RFC 9580 §10.1)."""
    from pysequoia.packet import PacketPile, SignatureType, Tag

    key: Packet | None = None
    binding: Packet | None = None
    for packet in PacketPile.from_bytes(bytes(certificate)):
        if packet.tag in (Tag.PublicKey, Tag.PublicSubkey):
            if key is not None:
                yield _ended(key, binding)
            key, binding = packet, None
        elif packet.signature_type == SignatureType.SubkeyBinding and (
            binding is None or _made(packet) > _made(binding)
        ):
            binding = packet
    if key is not None:
        yield _ended(key, binding)


def _ended(key: "Packet", binding: "Packet | None") -> tuple[set[str], datetime | None]:
    period = binding.key_validity_period if binding is not None else None
    names = {name.lower() for name in (key.fingerprint, key.key_id) if name}
    return names, key.key_created + period if key.key_created is not None and period is not None else None
