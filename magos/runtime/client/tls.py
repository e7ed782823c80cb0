"""What a TLS connection to the API server is made with, re-readable because certificates rotate.

Sources are files, or base64 data taken from a kubeconfig. ``load`` and ``client_context`` do file I/O and cost about
30 ms: they belong into a thread.
"""

import ssl
import tempfile
from pathlib import Path

from msgspec import Struct

from magos.errors import ConfigurationError

PemSource = Path | bytes | None
"""A file that is read again, fixed PEM data, or nothing."""


class TlsMaterial(Struct, frozen=True, kw_only=True):
    """PEM data as read at one moment; compares by value, so a rotation is seen as a difference."""

    authority: bytes = b""
    certificate: bytes = b""
    key: bytes = b""
    server_name: str = ""
    verify: bool = True


class TlsSource(Struct, frozen=True, kw_only=True):
    """Where the material comes from. Without an authority the system's trust store is used."""

    authority: PemSource = None
    certificate: PemSource = None
    key: PemSource = None
    server_name: str = ""
    verify: bool = True

    def load(self) -> TlsMaterial:
        """Read everything; ``ConfigurationError`` names the file that cannot be read."""
        return TlsMaterial(
            authority=_read(self.authority, "the certificate authority"),
            certificate=_read(self.certificate, "the client certificate"),
            key=_read(self.key, "the client key"),
            server_name=self.server_name,
            verify=self.verify,
        )


def client_context(material: TlsMaterial) -> ssl.SSLContext:
    """Return a context for TLS 1.2 or newer; ``ConfigurationError`` if the PEM data is not usable.

    Certificates are verified as OpenSSL does by default, not strictly by RFC 5280, as Python does from 3.13 on: cluster
    authorities without key identifiers (older EKS, MicroK8s) are in use, and all clients of Kubernetes accept them.
    """
    try:
        context = ssl.create_default_context(cadata=material.authority.decode("ascii") or None)
    except (ssl.SSLError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the certificate authority of the API server is not PEM: {error}") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not material.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if material.certificate:
        _load_chain(context, material)
    return context


def _load_chain(context: ssl.SSLContext, material: TlsMaterial) -> None:
    # OpenSSL's binding takes certificates from files only: they exist for the moment of loading, for this user only.
    with tempfile.TemporaryDirectory(prefix="magos-tls-") as directory:
        chain = Path(directory) / "client.pem"
        chain.touch(mode=0o600)
        chain.write_bytes(material.certificate + b"\n" + material.key)
        try:
            context.load_cert_chain(chain)
        except (ssl.SSLError, ValueError) as error:
            raise ConfigurationError(
                f"the client certificate and key for the API server do not fit together or are not PEM: {error}"
            ) from error


def _read(source: PemSource, what: str) -> bytes:
    if source is None:
        return b""
    if isinstance(source, bytes):
        return source
    try:
        return source.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"cannot read {what} {source}: {error.strerror}; check the path") from error
