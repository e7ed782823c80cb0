"""Where the API server is and who we are there: from kubeconfig files, or from the pod that we run in.

Nothing here reads the environment: the applications pass what they found there.
"""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from magos.errors import ConfigurationError
from magos.runtime.client.credentials import Credentials, TokenFile
from magos.runtime.client.tls import TlsSource
from magos.runtime.clock import Clock, SystemClock

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet mounts token, authority and namespace of a pod's ServiceAccount."""


class ConnectionConfig(Struct, frozen=True, kw_only=True):
    """Everything a transport needs. ``server`` is a URL without a trailing slash; its path, if any, is a prefix."""

    server: str
    tls: TlsSource
    credentials: Credentials
    namespace: str = "default"


def load_config(
    kubeconfig: str | None,
    context: str | None = None,
    *,
    environ: Mapping[str, str],
    clock: Clock | None = None,
) -> ConnectionConfig:
    """Return the connection by ``kubeconfig``, else ``$KUBECONFIG``, else this pod's, else by ``~/.kube/config``.

    ``kubeconfig`` may be several paths, separated as in ``PATH``. Does file I/O and no network. Raises
    ``ConfigurationError`` that says what was looked for and what is missing.
    """
    clock = clock or SystemClock()
    text = kubeconfig or environ.get("KUBECONFIG", "")
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "")
    if not text and host and port and not context:
        return in_cluster(host, port, clock=clock)
    home = Path(environ.get("HOME", "/nonexistent")) / ".kube" / "config"
    paths = [Path(part).expanduser() for part in text.split(":") if part] or [home]
    if len(paths) > 1:
        paths = [path for path in paths if path.exists()] or paths[:1]
    if not text and not home.exists():
        raise ConfigurationError(
            f"no Kubernetes cluster is configured: this is not a pod with a ServiceAccount and {home} does not exist; "
            "give --kubeconfig or set KUBECONFIG"
        )
    from magos.runtime.client.kubeconfig import read_kubeconfig

    found = read_kubeconfig(paths, context or "", environ, clock)
    return ConnectionConfig(
        server=_checked(found.server), tls=found.tls, credentials=found.credentials, namespace=found.namespace
    )


def in_cluster(
    host: str, port: str, *, clock: Clock | None = None, directory: Path = SERVICE_ACCOUNT
) -> ConnectionConfig:
    """Return the connection of a pod to its own cluster; the token is read again as the kubelet rotates it."""
    authority, token = directory / "ca.crt", directory / "token"
    for path in (authority, token):
        if not path.is_file():
            raise ConfigurationError(
                f"this looks like a pod, but {path} is missing; does it run with automountServiceAccountToken: false?"
            )
    try:
        namespace = (directory / "namespace").read_text("utf-8").strip()
    except OSError:
        namespace = "default"  # a projected volume may leave it out
    address = f"[{host}]" if ":" in host else host
    return ConnectionConfig(
        server=_checked(f"https://{address}:{port}"),
        tls=TlsSource(authority=authority),
        credentials=TokenFile(token, clock or SystemClock()),
        namespace=namespace,
    )


def _checked(server: str) -> str:
    if not server.startswith(("https://", "http://")):
        raise ConfigurationError(f"the API server's address {server!r} does not start with https:// or http://")
    return server.rstrip("/")
