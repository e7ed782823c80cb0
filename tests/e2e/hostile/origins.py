"""Servers of private repositories, and the server of a third party, which can keep those who ask waiting."""

import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_ssh_private_key

from magos.local.servers.loopback import serving
from tests.e2e.git.servers import HTTPServer, Repository, http_server, ssh_server

__all__ = ["Origin", "Stranger", "http_origin", "ssh_origin", "stranger"]


class Origin:
    """A server whose repositories need ``secret``; ``canaries`` are the parts of it that nobody may ever see."""

    def __init__(self, root: Path, base: str, secret: Mapping[str, str], canaries: tuple[str, ...]) -> None:
        self.root = root
        self.base = base
        self.secret = secret
        self.canaries = canaries
        self.raw_canaries: tuple[bytes, ...] = ()
        self.http: HTTPServer | None = None
        self._made: dict[str, Repository] = {}

    def url(self, name: str) -> str:
        """Return the URL of the bare repository ``name``."""
        return f"{self.base}/{name}"

    @property
    def environment(self) -> dict[str, str]:
        """The secret as a fetch stage that is a bare process gets it."""
        names = {"username": "GIT_USERNAME", "password": "GIT_PASSWORD", "known_hosts": "GIT_KNOWN_HOSTS"}
        return {names.get(key, "GIT_SSH_PRIVATE_KEY"): value for key, value in self.secret.items()}

    def repository(self, name: str, files: Mapping[str, str | bytes]) -> Repository:
        """Commit ``files`` to ``main`` of the repository ``name``, which is made if it is not there."""
        if name not in self._made:
            self._made[name] = Repository(self.root, name, "main")
        self._made[name].commit(dict(files))
        return self._made[name]


@contextmanager
def http_origin(root: Path) -> Iterator[Origin]:
    """Yield an HTTP server with a login."""
    root.mkdir()
    password = f"canary-{secrets.token_hex(12)}"
    with http_server(root) as running:
        running.login = ("robot", password)
        made = Origin(root, running.url, {"username": "robot", "password": password}, (password,))
        made.http = running
        yield made


@contextmanager
def ssh_origin(root: Path) -> Iterator[Origin]:
    """Yield an SSH server on a port of its own."""
    root.mkdir()
    (root / "sshd").mkdir()
    with ssh_server(root / "sshd") as running:
        lines = running.private_key.splitlines()
        # Of an Ed25519 key these lines hold the secret half; those before also stand in the public key.
        canaries = tuple(line for line in lines[-4:-1] if len(line) >= 24)
        base = f"ssh://{running.user}@127.0.0.1:{running.port}{root}"
        known = {"known_hosts": running.host_key}
        made = Origin(root, base, {"sshPrivateKey": running.private_key, **known}, canaries)
        key = load_ssh_private_key(running.private_key.encode(), None)
        assert isinstance(key, Ed25519PrivateKey)
        made.raw_canaries = (key.private_bytes_raw(),)
        yield made


class Stranger:
    """A server of somebody else: ``asked`` are the paths; ``/slow`` answers once ``release`` is set."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.waiting = threading.Event()
        self.release = threading.Event()
        self.url = ""


@contextmanager
def stranger() -> Iterator[Stranger]:
    """Yield a running one; its answer is always 404."""
    state = Stranger()

    class Handler(BaseHTTPRequestHandler):
        def handle_request(self) -> None:
            state.asked.append(self.path)
            if self.path.startswith("/slow"):
                state.waiting.set()
                state.release.wait(100)
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_HEAD = handle_request  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Keep quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_port}"
    with serving(server, "stranger"):
        try:
            yield state
        finally:
            state.release.set()
