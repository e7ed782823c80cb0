"""A web server on loopback that takes one redirect of an identity provider (RFC 8252)."""

import hmac
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar, Self
from urllib.parse import parse_qs, urlsplit

from magos.cli.failures import TimedOut
from magos.errors import MagosError

_PAGE = b"<!doctype html><title>Magos</title><p>You may close this page and go back to the terminal."


class Redirect:
    """Listens on a free port of 127.0.0.1 as long as the block lasts; ``uri`` is where the browser has to lead."""

    path: ClassVar = "/callback"

    def __init__(self, state: str) -> None:
        self._state = state
        self._code = ""
        self._error = ""
        self._server = HTTPServer(("127.0.0.1", 0), self._handler())
        self.uri = f"http://127.0.0.1:{self._server.server_port}{self.path}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.server_close()

    def code(self, timeout: float) -> str:
        """Return the code that the browser brings within ``timeout`` seconds; what brings another state is ignored.

        Raises ``TimedOut``, or ``MagosError`` with the words of the identity provider.
        """
        from time import monotonic

        end = monotonic() + timeout
        while not self._code and not self._error:
            self._server.timeout = end - monotonic()
            if self._server.timeout <= 0:
                raise TimedOut(f"no login came back from the browser within {timeout:.0f} s")
            self._server.handle_request()
        if self._error:
            raise MagosError(f"the identity provider refused the login: {self._error}")
        return self._code

    def take(self, target: str) -> bool:
        """Look at the target of a request; tell whether it is the redirect that is waited for."""
        parts = urlsplit(target)
        query = parse_qs(parts.query)
        state = query.get("state", [""])[0]
        if parts.path != self.path or not hmac.compare_digest(state.encode(), self._state.encode()):
            return False
        self._code = query.get("code", [""])[0]
        if not self._code:
            self._error = " ".join(query.get("error", ["no code"]) + query.get("error_description", []))
        return True

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        redirect = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 10

            def do_GET(self) -> None:
                taken = redirect.take(self.path)
                self.send_response(200 if taken else 404)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.end_headers()
                self.wfile.write(_PAGE if taken else b"")

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
                """The request holds the code: it is written nowhere."""

        return Handler
