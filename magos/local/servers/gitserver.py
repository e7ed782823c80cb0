"""A read-only Git server on loopback: smart HTTP, served by dulwich, without a git program.

It serves the bare repositories directly below one folder as ``http://127.0.0.1:<port>/<name>``, to every client or only
to clients with the right user name and password. Like a strict Git host it serves only commits that a reference points
at and answers other requests with the protocol's own error; a client that wants an older commit has to deepen its
clone. It refuses pushes: commit to the bare repository through its path.
"""

import base64
import io
import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from dulwich.errors import GitProtocolError, NotGitRepository
from dulwich.repo import Repo
from dulwich.server import Backend, UploadPackHandler
from dulwich.web import GunzipFilter, HTTPGitApplication, LimitedInputFilter
from msgspec import Struct

from magos.local.servers.loopback import LoggedHandler, RequestLog, WebServer, serving


class GitServer(Struct, frozen=True):
    """A running server, made by :func:`git_server`; ``log`` has the requests it answered."""

    url: str
    log: RequestLog

    def clone_url(self, name: str) -> str:
        """Return the address of the repository in the folder ``name``, for example ``demo.git``."""
        return f"{self.url}/{name}"


class _Folder(Backend):
    """The bare repositories directly below one folder."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()

    def open_repository(self, path: str | bytes) -> Repo:
        name = (path.decode() if isinstance(path, bytes) else path).strip("/")
        if name in {"", ".", ".."} or "/" in name:
            raise NotGitRepository(f"no repository {name}")
        return Repo(str(self._root / name))


class _UploadPack(UploadPackHandler):
    """Refuses a commit as git does, with an ``ERR`` line, and requires no more capabilities of a client than git."""

    @classmethod
    def required_capabilities(cls) -> tuple[bytes, ...]:
        return ()

    def handle(self) -> None:
        try:
            super().handle()
        except GitProtocolError as error:
            refused = re.search(r"wants invalid object b'([0-9a-f]+)'", str(error))
            text = f"not our ref {refused[1]}" if refused else str(error)
            self.proto.write_pkt_line(f"ERR upload-pack: {text}".encode())


class _Handler(LoggedHandler, WSGIRequestHandler):
    def get_stderr(self) -> io.StringIO:
        """Where the WSGI server writes tracebacks; the client gets a 500 and a user's terminal stays clean."""
        return io.StringIO()


def _with_login(application: WSGIApplication, user: str, password: str) -> WSGIApplication:
    expected = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode("ascii")

    def guarded(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        given = str(environ.get("HTTP_AUTHORIZATION", ""))
        if secrets.compare_digest(given.encode(), expected.encode()):
            return application(environ, start_response)
        headers = [("Content-Type", "text/plain"), ("WWW-Authenticate", 'Basic realm="git"')]
        start_response("401 Unauthorized", headers)
        return [b"authentication required\n"]

    return guarded


@contextmanager
def git_server(root: Path, *, login: tuple[str, str] | None = None) -> Iterator[GitServer]:
    """Serve the bare repositories below ``root`` for the length of the block; ``login`` is (user name, password)."""
    git = HTTPGitApplication(_Folder(root), handlers={b"git-upload-pack": _UploadPack})
    for refused in (b"git-receive-pack", b"git-upload-archive"):
        git.handlers.pop(refused, None)
    application: Any = GunzipFilter(LimitedInputFilter(git))
    if login is not None:
        application = _with_login(application, *login)
    log = RequestLog()
    handler = type("Handler", (_Handler,), {"log": log})
    server = WebServer(("127.0.0.1", 0), handler)
    server.set_app(application)
    with serving(server, "git server"):
        yield GitServer(f"http://127.0.0.1:{server.server_port}", log)
