"""A read-only Git server on loopback, smart HTTP, without a git program.

It serves the bare repositories directly below one folder as ``http://127.0.0.1:<port>/<name>``, to anyone or to a user
with basic authentication. Like a strict real server it gives out only commits that a reference points at, and says so
in the protocol's own words; clients that want another commit have to deepen. Pushing is refused: commit to the bare
repository through its path.
"""

import base64
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler
from wsgiref.types import StartResponse, WSGIEnvironment

from dulwich.errors import GitProtocolError, NotGitRepository
from dulwich.repo import Repo
from dulwich.server import Backend, UploadPackHandler
from dulwich.web import GunzipFilter, HTTPGitApplication, LimitedInputFilter

from magos.local.servers.loopback import RequestLog, Served, WebServer, serving

__all__ = ["GitServer", "git_server"]


class GitServer:
    """A running server; made by :func:`git_server`."""

    def __init__(self, url: str, log: RequestLog) -> None:
        self.url = url
        self.log = log

    def clone_url(self, name: str) -> str:
        """The address of the repository in the folder ``name`` (``demo.git``) below the served folder."""
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
    """Answers a want that may not be served in git's words, and demands no more of a client than git does."""

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


class _Handler(WSGIRequestHandler):
    log: RequestLog

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        del size
        self.log.add(Served(self.command, self.path, int(code)))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base class's name
        """Nothing is printed."""

    def get_stderr(self) -> Any:
        """A failing request is seen by its client as 500; its traceback is of no use on a user's terminal."""
        return _Nowhere()


class _Nowhere:
    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None: ...


def _with_login(
    application: Callable[[WSGIEnvironment, StartResponse], Iterable[bytes]], user: str, password: str
) -> Callable[[WSGIEnvironment, StartResponse], Iterable[bytes]]:
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
    """Serve the bare repositories below ``root`` for the length of the block; ``login`` is user and password."""
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
