"""Keys, certificates and kubeconfigs of a one-machine control plane.

Everything is made anew for each control plane and lies in its data folder, readable by its owner only.
"""

import base64
import os
import secrets
from pathlib import Path

import msgspec
import trustme
import yaml
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

__all__ = ["ADMIN_USER", "CONTROLLER_MANAGER_USER", "Authority", "KeyPair", "kubeconfig_text", "write_private"]

ADMIN_USER = "magos-admin"
CONTROLLER_MANAGER_USER = "system:kube-controller-manager"


def write_private(path: Path, content: bytes | str) -> Path:
    """Write a file that only its owner may read, never readable by others for an instant; returns the path."""
    data = content.encode() if isinstance(content, str) else content
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)
    return path


class KeyPair(msgspec.Struct, frozen=True):
    """A certificate and its private key, as PEM files."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority whose certificates are trusted by the control plane, for servers and clients."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._folder = folder
        self._ca = trustme.CA(organization_name="magos one-machine mode")
        self.certificate_pem: bytes = self._ca.cert_pem.bytes()
        self.certificate = write_private(folder / "ca.crt", self.certificate_pem)

    def issue(self, name: str, *hosts: str, common_name: str | None = None, group: str | None = None) -> KeyPair:
        """A certificate for ``hosts`` (names or addresses), in the files ``<name>.crt`` and ``<name>.key``.

        As a client certificate it stands for the user ``common_name`` in ``group`` (Kubernetes convention).
        """
        issued = self._ca.issue_cert(*hosts, common_name=common_name, organization_name=group)
        chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
        return KeyPair(
            certificate=write_private(self._folder / f"{name}.crt", chain),
            key=write_private(self._folder / f"{name}.key", issued.private_key_pem.bytes()),
        )

    def service_account_key(self) -> Path:
        """The key that signs ServiceAccount tokens; kept over restarts, so that tokens stay valid."""
        path = self._folder / "service-account.key"
        if path.exists():
            return path
        key = ec.generate_private_key(ec.SECP256R1())
        # Kubernetes reads the public half from this file too, which it does for SEC 1 keys, not for PKCS #8.
        return write_private(path, key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()))

    def token_file(self) -> tuple[Path, dict[str, str]]:
        """The static token file of the API server and the tokens by user name."""
        tokens = {user: secrets.token_urlsafe(32) for user in (ADMIN_USER, CONTROLLER_MANAGER_USER)}
        lines = (f'{token},{user},{user},"system:masters"\n' for user, token in tokens.items())
        return write_private(self._folder / "tokens.csv", "".join(lines)), tokens


def kubeconfig_text(*, url: str, authority_pem: bytes, user: str, token: str, namespace: str = "default") -> str:
    """A kubeconfig with one context ``magos``, its authority embedded, authenticated by bearer token."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "magos",
        "clusters": [
            {
                "name": "magos",
                "cluster": {
                    "server": url,
                    "certificate-authority-data": base64.b64encode(authority_pem).decode("ascii"),
                },
            }
        ],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": "magos", "context": {"cluster": "magos", "user": user, "namespace": namespace}}],
    }
    return yaml.safe_dump(document, sort_keys=False)
