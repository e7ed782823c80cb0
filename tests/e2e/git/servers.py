"""Git servers on loopback: smart HTTP(S) by ``git http-backend``, ``git daemon`` and a real ``sshd``."""

import base64
import os
import re
import shutil
import socket
import socketserver
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from magos.local.ports import free_ports
from magos.local.servers.loopback import serving

IDENTITY = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org",
}
DEADLINE_SECONDS = 20.0


def git(folder: Path, *arguments: str, content: bytes | None = None) -> str:
    """Run the git binary in ``folder`` and return what it printed."""
    result = subprocess.run(
        ["git", "-c", "protocol.file.allow=always", *arguments],
        cwd=folder,
        env={**os.environ, **IDENTITY},
        input=content,
        capture_output=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr.decode()
    return result.stdout.decode().strip()


class Repository:
    """A bare repository with a work tree beside it."""

    def __init__(self, root: Path, name: str, branch: str = "trunk") -> None:
        self.bare = root / name
        self.work = root / f"{name}.work"
        self.work.mkdir(parents=True)
        git(root, "init", "-q", "--bare", "-b", "missing-default", str(self.bare))
        git(self.work, "init", "-q", "-b", branch)
        git(self.bare, "config", "http.uploadpack", "true")

    def commit(self, files: dict[str, str | bytes], *, push: bool = True) -> str:
        """Commit ``files`` and return the SHA."""
        for name, content in files.items():
            path = self.work / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        git(self.work, "add", "-A")
        git(self.work, "commit", "-q", "-m", "change", "--allow-empty")
        if push:
            self.push()
        return git(self.work, "rev-parse", "HEAD")

    def push(self) -> None:
        """Send all branches and tags to the bare repository."""
        git(self.work, "push", "-q", "--force", "--all", str(self.bare))
        git(self.work, "push", "-q", "--force", "--tags", str(self.bare))


class HTTPServer:
    """Serves repositories below ``root``; ``seen`` records path and Authorization of every request."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.login: tuple[str, str] | None = None
        self.version_2 = True
        self.peels = True
        self.refused: bytes | None = None  # what is in the body of requests that are answered with 429
        self.redirects: dict[str, str] = {}
        self.answers: dict[str, tuple[int, str, bytes]] = {}
        self.seen: list[tuple[str, str | None]] = []
        self.url = ""
        self.port = 0

    def run_backend(self, request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        """Hand a request to ``git http-backend`` (CGI)."""
        if self.refused is not None and self.refused in body:
            return 429, [("Retry-After", "7")], b""
        path, _, query = request.path.partition("?")
        environment = {
            **os.environ,
            **IDENTITY,
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": request.command,
            "CONTENT_TYPE": request.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "REMOTE_ADDR": "127.0.0.1",
        }
        if self.version_2 and "Git-Protocol" in request.headers:
            environment["GIT_PROTOCOL"] = request.headers["Git-Protocol"]
        done = subprocess.run(
            ["git", "-c", "safe.directory=*", "http-backend"],
            env=environment,
            input=body,
            capture_output=True,
            check=False,
        )
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        headers = [tuple(line.split(": ", 1)) for line in head.decode().split("\r\n") if ": " in line]
        if not self.peels and (path.endswith("/info/refs") or b"command=ls-refs" in body):
            content = unpeeled(content)
        status = next((int(value.split()[0]) for name, value in headers if name == "Status"), 200)
        return status, [(name, value) for name, value in headers if name != "Status"], content


def unpeeled(content: bytes) -> bytes:
    """Return the packets of a listing without what says where tags point to."""
    out = b""
    while content:
        size = int(content[:4], 16)
        packet, content = content[4 : max(size, 4)], content[max(size, 4) :]
        if size <= 4:
            out += f"{size:04x}".encode()
        elif not packet.endswith(b"^{}\n"):
            packet = re.sub(rb" peeled:[0-9a-f]{40}", b"", packet)
            out += f"{len(packet) + 4:04x}".encode() + packet
    return out


@contextmanager
def http_server(root: Path, tls: ssl.SSLContext | None = None) -> Iterator[HTTPServer]:
    """Yield a running server."""
    state = HTTPServer(root)

    class Handler(BaseHTTPRequestHandler):
        def handle_request(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            authorization = self.headers.get("Authorization")
            if self.path.startswith("http://"):  # as a proxy is asked
                self.path = "/" + self.path.split("/", 3)[3]
            state.seen.append((self.path, authorization))
            path = self.path.partition("?")[0]
            for prefix, target in state.redirects.items():
                if path.startswith(prefix + "/"):
                    self.answer(301, [("Location", target + self.path[len(prefix) :])], b"")
                    return
            if path in state.answers:
                status, kind, content = state.answers[path]
                self.answer(status, [("Content-Type", kind)], content)
                return
            expected = "Basic " + base64.b64encode(":".join(state.login).encode()).decode() if state.login else None
            if expected and authorization != expected:
                self.answer(401, [("WWW-Authenticate", 'Basic realm="git"')], b"")
                return
            self.answer(*state.run_backend(self, body))

        do_GET = do_POST = handle_request  # noqa: N815

        def answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
            self.send_response(status)
            for name, value in headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Keep quiet."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """Keep quiet: a client that breaks off a TLS handshake is part of the tests."""

    server = Server(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    state.port = server.server_port
    state.url = f"http{'s' if tls else ''}://127.0.0.1:{state.port}"
    with serving(server, "smart HTTP"):
        yield state


def wait_for_port(port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until something listens on ``port``."""
    end = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < end:
        assert process.poll() is None, f"the server ended with {process.returncode}"
        with socket.socket() as probe:
            probe.settimeout(0.2)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
    raise AssertionError(f"nothing listens on port {port}")


def end(process: subprocess.Popen[bytes]) -> None:
    """End a server that we started."""
    process.terminate()
    process.wait(timeout=DEADLINE_SECONDS)


@contextmanager
def git_daemon(root: Path) -> Iterator[str]:
    """Yield the base URL of a ``git daemon``."""
    port = free_ports(1)[0]
    process = subprocess.Popen(
        [f"{subprocess.check_output(['git', '--exec-path'], text=True).strip()}/git-daemon", "--reuseaddr",
         "--export-all", "--listen=127.0.0.1", f"--port={port}", f"--base-path={root}", str(root)],
        env={**os.environ, **IDENTITY, "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory",
             "GIT_CONFIG_VALUE_0": "*"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_for_port(port, process)
        yield f"git://127.0.0.1:{port}"
    finally:
        end(process)


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    """Hand on what ``source`` sends, its end included."""
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


@contextmanager
def of_version_0(base: str) -> Iterator[str]:
    """Yield the base URL of what stands before the daemon at ``base`` and keeps from it that version 2 is asked for."""
    host, _, port = base.removeprefix("git://").partition(":")

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            client: socket.socket = self.request
            length = int(client.recv(4, socket.MSG_WAITALL), 16)
            asked = client.recv(length - 4, socket.MSG_WAITALL).partition(b"\0\0version=")[0].rstrip(b"\0") + b"\0"
            with socket.create_connection((host, int(port))) as daemon:
                daemon.sendall(f"{len(asked) + 4:04x}".encode() + asked)
                back = threading.Thread(target=_pass_on, args=(daemon, client))
                back.start()
                _pass_on(client, daemon)
                back.join()

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    with serving(server, "git of version 0"):
        yield f"git://127.0.0.1:{server.server_address[1]}"


class SSHServer:
    """A running ``sshd``; ``host_key`` is its ``known_hosts`` line, ``private_key`` lets the current user in."""

    def __init__(self, port: int, host_key: str, private_key: str, fingerprint: str, user: str) -> None:
        self.port = port
        self.host_key = host_key
        self.private_key = private_key
        self.fingerprint = fingerprint
        self.user = user

    def url(self, path: Path) -> str:
        """Return the ``ssh://`` URL of a repository on this machine."""
        return f"ssh://{self.user}@127.0.0.1:{self.port}{path}"


@contextmanager
def ssh_server(
    folder: Path, *, accept_env: bool = True, kind: tuple[str, ...] = ("-t", "ed25519")
) -> Iterator[SSHServer]:
    """Yield an ``sshd`` for the current user; without ``accept_env`` it speaks Git protocol v0 only.

    ``kind`` says to ssh-keygen(1) of which type the keys of host and user are.
    """
    program = shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
    if program is None and os.geteuid() != 0:
        pytest.skip("needs sshd, which only root can install here (package openssh-server)")
    assert program, "these tests need sshd: run scripts/install-test-servers"
    port = free_ports(1)[0]
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", *kind, "-N", "", "-C", "", "-f", str(folder / name)], check=True)
    (folder / "authorized").write_text((folder / "user.pub").read_text())
    (folder / "authorized").chmod(0o600)
    configuration = [
        f"Port {port}", "ListenAddress 127.0.0.1", f"HostKey {folder / 'host'}", f"PidFile {folder / 'pid'}",
        f"AuthorizedKeysFile {folder / 'authorized'}", "StrictModes no", "UsePAM no", "PasswordAuthentication no",
        "KbdInteractiveAuthentication no", "PermitRootLogin prohibit-password", "MaxStartups 50",
        "SetEnv GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0=*",
        *(["AcceptEnv GIT_PROTOCOL"] if accept_env else []),
    ]  # fmt: skip
    (folder / "sshd_config").write_text("\n".join(configuration) + "\n")
    if os.geteuid() == 0:  # where sshd confines itself; an ordinary user's sshd does not
        Path("/run/sshd").mkdir(exist_ok=True)
    with (folder / "sshd.log").open("wb") as log:
        process = subprocess.Popen([program, "-D", "-e", "-f", str(folder / "sshd_config")], stderr=log)
    try:
        wait_for_port(port, process)
        algorithm, key, *_ = (folder / "host.pub").read_text().split()
        fingerprint = subprocess.check_output(["ssh-keygen", "-lf", str(folder / "host.pub")], text=True).split()[1]
        user = subprocess.check_output(["id", "-un"], text=True).strip()
        line = f"[127.0.0.1]:{port} {algorithm} {key}"
        yield SSHServer(port, line, (folder / "user").read_text(), fingerprint, user)
    finally:
        end(process)
