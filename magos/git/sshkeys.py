"""Private keys that sign and host keys that are checked, in the formats of SSH (RFC 4253 §6.6, RFC 5656, RFC 8332).

A private key is read and used in this process alone. The module imports the cryptography library and is itself imported
lazily.
"""

import base64
from typing import Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from magos.git.errors import GitError, GitReason
from magos.git.sshwire import Reader, pack_integer, pack_string

_RSA_HASHES: Final[dict[bytes, hashes.HashAlgorithm]] = {
    b"rsa-sha2-512": hashes.SHA512(),
    b"rsa-sha2-256": hashes.SHA256(),
}
_RSA_FLAGS: Final = {4: b"rsa-sha2-512", 2: b"rsa-sha2-256"}
_CURVES: Final[dict[str, tuple[bytes, hashes.HashAlgorithm]]] = {
    "secp256r1": (b"ecdsa-sha2-nistp256", hashes.SHA256()),
    "secp384r1": (b"ecdsa-sha2-nistp384", hashes.SHA384()),
    "secp521r1": (b"ecdsa-sha2-nistp521", hashes.SHA512()),
}


class PrivateKey:
    """A key that only signs. Raises ``GitError`` (GitAuthenticationFailed) if ``text`` is no usable private key."""

    def __init__(self, text: str) -> None:
        key = _load(text)
        if not isinstance(key, Ed25519PrivateKey | ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
            raise _unreadable("of a type that is not supported")
        self._key = key
        self.blob = _blob(key.public_key())

    def sign(self, data: bytes, flags: int) -> bytes:
        """Return the signature blob; ``flags`` choose the hash of an RSA key, ``ValueError`` if they choose none."""
        key = self._key
        if isinstance(key, Ed25519PrivateKey):
            return pack_string(b"ssh-ed25519") + pack_string(key.sign(data))
        if isinstance(key, ec.EllipticCurvePrivateKey):
            name, digest = _CURVES[key.curve.name]
            r, s = decode_dss_signature(key.sign(data, ec.ECDSA(digest)))
            return pack_string(name) + pack_string(pack_integer(r) + pack_integer(s))
        algorithm = next((name for flag, name in _RSA_FLAGS.items() if flags & flag), None)
        if algorithm is None:
            raise ValueError("SHA-1 signatures are not made")
        return pack_string(algorithm) + pack_string(key.sign(data, padding.PKCS1v15(), _RSA_HASHES[algorithm]))


class HostIdentity:
    """What a server proved to be. ``trusted`` is the key that known hosts must list: its own, or its authority's.

    Raises ``ValueError`` if ``blob`` is not the blob of a host's key or certificate.
    """

    def __init__(self, blob: bytes) -> None:
        kind = Reader(blob).string()
        try:
            identity = serialization.load_ssh_public_identity(kind + b" " + base64.b64encode(blob))
        except UnsupportedAlgorithm as error:
            raise ValueError(str(error)) from None
        self.certified = isinstance(identity, serialization.SSHCertificate)
        if isinstance(identity, serialization.SSHCertificate):
            _check_certificate(identity)
            self.trusted = _blob(identity.signature_key())
            self._key: object = identity.public_key()
        else:
            self.trusted = blob
            self._key = identity

    def signed(self, signature: bytes, data: bytes) -> bool:
        """Tell whether the server signed ``data``; SHA-1 does not count."""
        try:
            reader = Reader(signature)
            algorithm, value = reader.string(), reader.string()
            reader.end()
            self._verify(algorithm, value, data)
        except (InvalidSignature, ValueError, LookupError):
            return False
        return True

    def _verify(self, algorithm: bytes, value: bytes, data: bytes) -> None:
        key = self._key
        if isinstance(key, Ed25519PublicKey) and algorithm == b"ssh-ed25519":
            key.verify(value, data)
        elif isinstance(key, ec.EllipticCurvePublicKey):
            name, digest = _CURVES[key.curve.name]
            if algorithm != name:
                raise ValueError("a signature of another type than the key")
            numbers = Reader(value)
            r, s = (int.from_bytes(numbers.string(), "big") for _ in range(2))
            numbers.end()
            key.verify(encode_dss_signature(r, s), data, ec.ECDSA(digest))
        elif isinstance(key, rsa.RSAPublicKey):
            key.verify(value, data, padding.PKCS1v15(), _RSA_HASHES[algorithm])
        else:
            raise ValueError("a key of a type that is not supported")


def _check_certificate(certificate: serialization.SSHCertificate) -> None:
    if certificate.type is not serialization.SSHCertificateType.HOST:
        raise ValueError("not a certificate of a host")
    try:
        certificate.verify_cert_signature()
    except InvalidSignature:
        raise ValueError("the certificate was not made by its authority") from None


def _load(text: str) -> object:
    content = text.encode()
    try:
        if "BEGIN OPENSSH PRIVATE KEY" in text:
            return serialization.load_ssh_private_key(content, password=None)
        return serialization.load_pem_private_key(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):  # their texts speak of the library, not of the Secret
        raise _unreadable("not a private key, or it has a passphrase") from None


def _unreadable(cause: str) -> GitError:
    return GitError(
        GitReason.GIT_AUTHENTICATION_FAILED,
        f"the SSH key of the repository Secret cannot be read ({cause}); put an Ed25519, ECDSA or RSA key without a"
        " passphrase under sshPrivateKey",
    )


def _blob(key: object) -> bytes:
    if not isinstance(key, Ed25519PublicKey | ec.EllipticCurvePublicKey | rsa.RSAPublicKey):
        raise ValueError("a key of a type that is not supported")  # noqa: TRY004 - the server chose it
    line = key.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return base64.b64decode(line.split()[1])
