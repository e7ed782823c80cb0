"""A server on loopback through which ``git`` fetches from one origin without knowing its login.

It answers the requests of Git's smart fetch protocol below a path that cannot be guessed, and refuses everything else:
pushing, the dumb protocol, LFS and every other address of the server.
"""

import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any, Final

from magos.git.credentials import Credentials
from magos.git.deadline import Deadline
from magos.git.fetchpath import FetchPath, Step
from magos.git.gitprograms import BODY_LIMIT
from magos.git.service import Service
from magos.git.upstream import Answer, Refusal, Upstream
from magos.git.url import RepoURL
from magos.outbound.peers import Peers

_MOST_CLIENTS: Final = 16
_IDLE_SECONDS: Final = 60.0
_LONGEST_SECONDS: Final = 3600.0
_REQUEST_TYPE: Final = "application/x-git-upload-pack-request"
_PROTOCOLS: Final = frozenset({"version=0", "version=1", "version=2"})


@contextmanager
def fetch_proxy(url: RepoURL, credentials: Credentials, peers: Peers) -> Iterator[str]:
    """Yield the base URL that stands for the origin of ``url`` as long as the block runs. Raises ``GitError``."""
    deadline = Deadline(_LONGEST_SECONDS, f"downloading modules from {url.origin}")
    upstream = Upstream(url, credentials, deadline, peers)
    prefix = f"/{secrets.token_urlsafe(32)}"
    listener = socket.create_server(("127.0.0.1", 0))
    service = Service(listener, lambda connection: _serve(connection, prefix, upstream), _MOST_CLIENTS)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}{prefix}"
    finally:
        deadline.cut_all()  # ends every wait for the server
        service.end()
        upstream.close()
        deadline.release()


def _serve(connection: socket.socket, prefix: str, upstream: Upstream) -> None:
    class Handler(_Handler):
        pass

    Handler.prefix = prefix
    Handler.upstream = upstream
    Handler(connection, ("127.0.0.1", 0), None)  # type: ignore[arg-type]  # the handler asks nothing of a server


class _Handler(BaseHTTPRequestHandler):
    """The requests of one connection."""

    protocol_version = "HTTP/1.1"
    timeout = _IDLE_SECONDS
    prefix: str
    upstream: Upstream

    def do_GET(self) -> None:
        """Answer with the references of a repository."""
        self._respond(Step.REFS)

    def do_POST(self) -> None:
        """Answer with objects of a repository."""
        self._respond(Step.PACK)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Say nothing: the address is not for the log."""

    def _respond(self, step: Step) -> None:
        try:
            answer = self._ask(step)
        except Refusal as error:
            self._refuse(error)
            return
        self.send_response_only(200)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for chunk in answer.chunks:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            self.wfile.write(b"0\r\n\r\n")
        except Refusal:
            self.close_connection = True  # without the last chunk git knows that the answer is not complete

    def _ask(self, step: Step) -> Answer:
        body = self._body()
        address, _, rest = self.path.removeprefix("/").partition("/")
        if not secrets.compare_digest(f"/{address}".encode(), self.prefix.encode()):
            raise Refusal(404, "magos: there is nothing here")
        try:
            path = FetchPath.parse(f"/{rest}")
        except ValueError as error:
            raise Refusal(403, f"magos: {error}") from None
        if path.step is not step:
            raise Refusal(405, "magos: only fetching is possible here")
        headers = {}
        protocol = self.headers.get("Git-Protocol")
        if protocol in _PROTOCOLS:
            headers["Git-Protocol"] = protocol
        if step is Step.REFS:
            return self.upstream.refs(path, headers)
        if self.headers.get("Content-Type") != _REQUEST_TYPE:
            raise Refusal(415, "magos: only fetching is possible here")
        if self.headers.get("Content-Encoding") == "gzip":
            headers["Content-Encoding"] = "gzip"
        return self.upstream.pack(path, {**headers, "Content-Type": _REQUEST_TYPE}, body)

    def _body(self) -> bytes:
        """Read the request to its end, or the next one on the connection could not be read."""
        length = self.headers.get("Content-Length", "0")
        if "Transfer-Encoding" in self.headers or not (length.isascii() and length.isdigit()):
            self.close_connection = True
            raise Refusal(411, "magos: the length of the request is missing")
        if int(length) > BODY_LIMIT:
            self.close_connection = True
            raise Refusal(413, "magos: the request is too large")
        body = self.rfile.read(int(length))
        if len(body) != int(length):
            raise ConnectionError("the request ended too early")
        return body

    def _refuse(self, refusal: Refusal) -> None:
        content = f"{refusal.message}\n".encode()
        self.send_response_only(refusal.status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")  # the type that git shows to the user
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
