"""Keys, certificates and kubeconfigs of a one-machine control plane.

Each start makes new ones in the control plane's data folder, readable by their owner only; the key that signs
ServiceAccount tokens is kept, so that tokens stay valid over a restart.
"""

import base64
import secrets
import ssl
from pathlib import Path

import msgspec
import trustme
import yaml
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from magos.privatefile import write_private

ADMIN_USER = "magos-admin"
CONTROLLER_MANAGER_USER = "system:kube-controller-manager"


class KeyPair(msgspec.Struct, frozen=True):
    """A certificate and its private key, as PEM files."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority that the control plane trusts for servers and clients; its files lie in ``folder``."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._folder = folder
        self._ca = trustme.CA(organization_name="magos one-machine mode")
        self.certificate_pem: bytes = self._ca.cert_pem.bytes()
        self.certificate = self._write("ca.crt", self.certificate_pem)

    def issue(self, name: str, *hosts: str, common_name: str | None = None, group: str | None = None) -> KeyPair:
        """Make a certificate for ``hosts`` (names or addresses), in the files ``<name>.crt`` and ``<name>.key``.

        As a client certificate it authenticates the user ``common_name`` in ``group`` (Kubernetes convention).
        """
        issued = self._ca.issue_cert(*hosts, common_name=common_name, organization_name=group)
        chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
        key = self._write(f"{name}.key", issued.private_key_pem.bytes())
        return KeyPair(certificate=self._write(f"{name}.crt", chain), key=key)

    def server_context(self, name: str, *hosts: str) -> ssl.SSLContext:
        """Return TLS for a server at ``hosts`` that accepts only clients with a certificate of this authority.

        Blocks while the key is made and written.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        pair = self.issue(name, *hosts)
        context.load_cert_chain(pair.certificate, pair.key)
        context.load_verify_locations(self.certificate)
        context.verify_mode = ssl.CERT_REQUIRED
        return context

    def service_account_key(self) -> Path:
        """Return the key that signs ServiceAccount tokens, made once for a data folder."""
        path = self._folder / "service-account.key"
        if path.exists():
            return path
        key = ec.generate_private_key(ec.SECP256R1())
        # Kubernetes also reads the public key from this file; it can do so for SEC 1 keys, not for PKCS #8.
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
        return self._write(path.name, pem)

    def token_file(self) -> tuple[Path, dict[str, str]]:
        """Make new tokens; return the API server's static token file and the tokens by user name."""
        tokens = {user: secrets.token_urlsafe(32) for user in (ADMIN_USER, CONTROLLER_MANAGER_USER)}
        lines = (f'{token},{user},{user},"system:masters"\n' for user, token in tokens.items())
        return self._write("tokens.csv", "".join(lines).encode()), tokens

    def _write(self, name: str, content: bytes) -> Path:
        path = self._folder / name
        write_private(path, content)
        return path


def kubeconfig_text(*, url: str, authority_pem: bytes, user: str, token: str, namespace: str = "default") -> str:
    """Return a kubeconfig with one context ``magos``, the authority embedded, authenticated by bearer token."""
    authority = base64.b64encode(authority_pem).decode("ascii")
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "magos",
        "clusters": [{"name": "magos", "cluster": {"server": url, "certificate-authority-data": authority}}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": "magos", "context": {"cluster": "magos", "user": user, "namespace": namespace}}],
    }
    return yaml.safe_dump(document, sort_keys=False)
