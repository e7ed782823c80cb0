"""Checksums and OpenPGP signatures of releases.

A release is trusted because its checksum file is signed by a key we hold, and its archive because it has the checksum
that stands there. The OpenPGP library applies its standard policy: expired and revoked keys, SHA-1 and weak keys do not
count.
"""

import hashlib
import re
from collections.abc import Callable, Iterable
from datetime import datetime
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from magos.api.tool import Distribution
from magos.toolchain.errors import ToolError, ToolReason
from magos.toolchain.keyexpiry import expiry_of

if TYPE_CHECKING:
    from pysequoia import Cert, Sig

_LINE = re.compile(r"([0-9a-fA-F]{64})[ \t]+\*?(\S+)", re.ASCII)
_LARGEST_KEY = 1024 * 1024
_VENDOR_KEYS = {Distribution.TERRAFORM: "hashicorp.asc", Distribution.OPENTOFU: "opentofu.asc"}


class SigningKey(msgspec.Struct, frozen=True):
    """The key or subkey that made a valid signature, and when our copy of it expires, if ever."""

    fingerprint: str
    expires: datetime | None


def parse_checksums(text: str) -> dict[str, str]:
    """Return file name -> lower-case SHA-256 of a ``SHA256SUMS`` file (sha256sum(1)).

    Raises ``ValueError`` naming the line that is none, or a file that is named twice with different sums.
    """
    sums: dict[str, str] = {}
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line:
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise ValueError(f"line {number} is not '<sha256>  <file>'")
        checksum, name = match[1].lower(), match[2]
        if sums.setdefault(name, checksum) != checksum:
            raise ValueError(f"line {number} gives {name} another checksum than before")
    if not sums:
        raise ValueError("it is empty")
    return sums


def checksum_of(path: Path) -> str:
    """Return the SHA-256 of a file's content as hex, in constant memory."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_checksums(path: Path, source: str) -> dict[str, str]:
    """Return the content of a checksum file that came from ``source``.

    Raises ``ToolError`` (ChecksumMismatch) if it is none, for instance a proxy's error page served with status 200.
    """
    try:
        return parse_checksums(path.read_bytes().decode())
    except ValueError as error:
        raise ToolError(
            ToolReason.CHECKSUM_MISMATCH,
            f"the checksum file {path.name} from {source} cannot be read: {error};"
            " does the mirror serve an error page?",
        ) from error


def verify_archive(archive: Path, sums: dict[str, str], source: str) -> None:
    """Raise ``ToolError`` (ChecksumMismatch) unless ``archive`` has the checksum that ``sums`` gives for its name."""
    expected = sums.get(archive.name)
    if expected is None:
        raise ToolError(
            ToolReason.CHECKSUM_MISMATCH,
            f"the checksum file from {source} does not list {archive.name};"
            " check that the version exists for this architecture",
        )
    found = checksum_of(archive)
    if found != expected:
        raise ToolError(
            ToolReason.CHECKSUM_MISMATCH,
            f"{archive.name} from {source}: expected SHA-256 {expected}, found {found}"
            f" ({archive.stat().st_size:,} bytes); check the mirror or a proxy on the way",
        )


def release_keys(folder: Path | None, distribution: Distribution) -> list["Cert"]:
    """Return the public keys in ``folder``, whatever the files' names, or else the vendor's, shipped with Magos.

    Raises ``ToolError`` (SignatureInvalid) if there is none or a file cannot be read as OpenPGP keys.
    """
    from pysequoia import Cert

    root = folder if folder is not None else resources.files("magos.toolchain") / "keys"
    vendor = None if folder is not None else _VENDOR_KEYS[distribution]
    place = f"the folder {folder}" if folder else "the keys shipped with Magos"
    keys: list[Cert] = []
    try:
        # names with a leading dot are the bookkeeping of a mounted ConfigMap or Secret
        for entry in sorted(root.iterdir(), key=lambda item: item.name):
            if vendor not in {None, entry.name}:
                continue
            if entry.is_file() and not entry.name.startswith("."):
                content = entry.read_bytes()
                try:
                    keys += Cert.split_bytes(content[:_LARGEST_KEY])
                except Exception as error:  # the library raises bare exceptions
                    raise _unusable(
                        f"{entry.name} in {place} holds no OpenPGP public key ({_first_line(error)})"
                    ) from error
    except OSError as error:
        raise _unusable(f"{place} cannot be read ({error.strerror})") from error
    if not keys:
        raise _unusable(f"{place} holds no OpenPGP public key")
    return keys


def verify_signature(content: bytes, signature: bytes, keys: Iterable["Cert"], source: str) -> SigningKey:
    """Return which of ``keys`` made the detached ``signature`` of ``content``.

    Raises ``ToolError`` (SignatureInvalid) if none did, or a key that had expired by then as far as ``keys`` tell.
    """
    import pysequoia

    certificates = list(keys)
    try:
        parsed = pysequoia.Sig.from_bytes(signature)
    except Exception as error:  # the library raises bare exceptions
        raise _invalid(
            source, f"the signature is not an OpenPGP signature ({_first_line(error)})", certificates
        ) from error
    found = parsed.issuer_fingerprint or parsed.issuer_key_id or "unknown"
    try:
        result = pysequoia.verify(content, store=_all(certificates), signature=parsed)
    except Exception as error:  # the library raises bare exceptions
        raise _invalid(
            source, f"the signature by key {found} {_refusal(parsed, found, certificates, error)}", certificates
        ) from error
    if not result.valid_sigs:
        raise _invalid(source, f"no key vouches for the signature by key {found}", certificates)
    issuer = str(result.valid_sigs[0].signing_key)
    return SigningKey(issuer, expiry_of(certificates, issuer))


def _refusal(signature: "Sig", issuer: str, keys: Iterable["Cert"], error: Exception) -> str:
    """Tell why a signature does not hold; an expired key is the one cause that time brings by itself."""
    expires = expiry_of(keys, issuer)
    if expires is not None and signature.created is not None and signature.created >= expires:
        return f"was made on {signature.created:%Y-%m-%d}, after our copy of the key expired on {expires:%Y-%m-%d}"
    return f"is not valid ({_first_line(error)})"


def _first_line(error: Exception) -> str:
    """Return what went wrong without the stack trace that the library adds to its messages."""
    return next(iter(str(error).splitlines()), type(error).__name__)


def _all(certificates: list["Cert"]) -> Callable[[list[str]], list["Cert"]]:
    return lambda _wanted: certificates


def _invalid(source: str, found: str, keys: list["Cert"]) -> ToolError:
    expected = ", ".join(key.fingerprint for key in keys)
    return ToolError(
        ToolReason.SIGNATURE_INVALID,
        f"checksum file from {source}: {found}; expected one by {expected};"
        " check the mirror, or put the vendor's new key into the folder MAGOS_RELEASE_KEYS",
    )


def _unusable(problem: str) -> ToolError:
    return ToolError(
        ToolReason.SIGNATURE_INVALID,
        f"release signatures cannot be verified: {problem};"
        " name a folder of armoured public keys in MAGOS_RELEASE_KEYS",
    )
