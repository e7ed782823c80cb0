"""Claims of magos/runtime/client/tls.py, over real connections to a real TLS server."""

import datetime as dt
import ipaddress
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from magos.runtime.client.tls import TlsMaterial, client_context

NOW = dt.datetime.now(dt.UTC)
Key = ec.EllipticCurvePrivateKey


def name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def certificate(
    subject: str, key: Key, issuer: str, signer: Key, extensions: tuple[tuple[x509.ExtensionType, bool], ...]
) -> bytes:
    """Return a certificate with these extensions and no others: neither key identifiers nor key usage."""
    builder = (
        x509.CertificateBuilder()
        .subject_name(name(subject))
        .issuer_name(name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - dt.timedelta(days=1))
        .not_valid_after(NOW + dt.timedelta(days=1))
    )
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical=critical)
    return builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


class OldCluster:
    """An authority as old clusters have it, and the certificate that it gave the API server on 127.0.0.1."""

    def __init__(self, folder: Path) -> None:
        signer, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
        basic = x509.BasicConstraints(ca=True, path_length=None)
        self.authority = certificate("old-ca", signer, "old-ca", signer, ((basic, True),))
        address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        self.chain = folder / "server.pem"
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        self.chain.write_bytes(certificate("api", key, "old-ca", signer, ((address, False),)) + private)

    @contextmanager
    def serving(self) -> Iterator[int]:
        """Serve TLS handshakes on a port of 127.0.0.1 until the block ends."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.chain)
        listener = socket.create_server(("127.0.0.1", 0))

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                try:
                    with context.wrap_socket(connection, server_side=True) as secure:
                        secure.sendall(b"hello")
                except (OSError, ssl.SSLError):
                    continue  # a client that refuses us

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield int(listener.getsockname()[1])
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
            thread.join()


def greeting(context: ssl.SSLContext, port: int, server: str = "127.0.0.1") -> bytes:
    with (
        socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname=server) as secure,
    ):
        return secure.recv(5)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> OldCluster:
    return OldCluster(tmp_path_factory.mktemp("tls"))


@pytest.fixture(autouse=True)
def strict_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every Python does as 3.13 does, so that the claims can fail on older ones too."""
    original = ssl.create_default_context

    def strict(*args: object, **options: object) -> ssl.SSLContext:
        context = original(*args, **options)  # type: ignore[arg-type]
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", strict)


def test_an_authority_without_key_identifiers_is_accepted_as_by_every_client_of_kubernetes(cluster: OldCluster) -> None:
    with cluster.serving() as port:
        with pytest.raises(ssl.SSLCertVerificationError, match=r"[Kk]ey"):
            greeting(ssl.create_default_context(cadata=cluster.authority.decode()), port)
        assert greeting(client_context(TlsMaterial(authority=cluster.authority)), port) == b"hello"


def test_certificates_are_verified_all_the_same(cluster: OldCluster, tmp_path: Path) -> None:
    other = OldCluster(tmp_path)
    with cluster.serving() as port:
        with pytest.raises(ssl.SSLCertVerificationError, match="certificate verify failed"):
            greeting(client_context(TlsMaterial(authority=other.authority)), port)
        with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
            greeting(client_context(TlsMaterial(authority=cluster.authority)), port, "api.example.com")
        assert greeting(client_context(TlsMaterial(authority=other.authority, verify=False)), port) == b"hello"
