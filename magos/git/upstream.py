"""Requests of Git's fetch protocol to one origin, with its login (gitprotocol-http(5)).

What comes back is a fetch answer or an error of ours: no other body and no header of the server passes, and an answer
that repeats the login breaks off. Redirects are followed within the origin only, and remembered, because git asks in
two steps and would otherwise be sent away in the second.

The module imports the HTTP library and is itself imported lazily.
"""

import base64
import socket
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import SplitResult, urljoin, urlsplit

import msgspec
import urllib3
from urllib3.exceptions import HTTPError

from magos.git.credentials import CredentialKind, Credentials
from magos.git.deadline import Deadline
from magos.git.errors import GitError, GitReason
from magos.git.fetchpath import FetchPath, Step
from magos.git.http import tls_context
from magos.git.url import RepoURL
from magos.outbound.managers import Managers
from magos.outbound.peers import Peers

_REDIRECTS: Final = 5
_MOST_REMEMBERED: Final = 1000
_CONNECT_SECONDS: Final = 20.0
_READ_SECONDS: Final = 300.0
_CHUNK: Final = 64 * 1024
_MOST_BYTES: Final = 4 * 1024**3
_SHORTEST_FORM: Final = 8
_TYPES: Final = {
    Step.REFS: "application/x-git-upload-pack-advertisement",
    Step.PACK: "application/x-git-upload-pack-result",
}


class Refusal(Exception):
    """There is no answer to pass on; git gets ``status`` and ``message`` instead."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class Answer(msgspec.Struct, frozen=True):
    """A fetch answer; ``chunks`` raises ``Refusal`` where it must not go on, and must be read or closed."""

    content_type: str
    chunks: Iterator[bytes]


class _Operation:
    """Watches over the connections of all requests together."""

    def __init__(self, deadline: Deadline, peers: Peers) -> None:
        self.peers = peers
        self._deadline = deadline
        self._received = 0

    def received(self, size: int) -> None:
        """Count ``size`` bytes; raise ``GitError`` if they are too many or too late."""
        self._deadline.check()
        self._received += size
        if self._received > _MOST_BYTES:
            raise GitError(GitReason.GIT_FAILED, f"modules of more than {_MOST_BYTES // 1024**3} GiB; split them")

    def remaining(self) -> float:
        """Return the seconds left."""
        return self._deadline.remaining()

    def cut(self, connection: socket.socket) -> None:
        """Shut ``connection`` down at the deadline."""
        self._deadline.cut(connection)


class Upstream:
    """The origin of ``url``; for any number of threads."""

    def __init__(self, url: RepoURL, credentials: Credentials, deadline: Deadline, peers: Peers) -> None:
        self._url = url
        self._deadline = deadline
        self._login = credentials.basic_auth()
        self._forms = _forms(self._login)
        self._managers = Managers(_Operation(deadline, peers), tls_context(url, credentials))
        self._moved: dict[str, str] = {}

    def close(self) -> None:
        """Close all connections."""
        self._managers.close()

    def refs(self, path: FetchPath, headers: Mapping[str, str]) -> Answer:
        """Ask for the references of a repository. Raises ``Refusal``."""
        current = path
        for _ in range(_REDIRECTS + 1):
            response = self._request("GET", current, headers, None)
            location = response.get_redirect_location()
            if not location:
                if current != path and len(self._moved) < _MOST_REMEMBERED:
                    self._moved[path.repository] = current.repository
                return self._checked(response, current)
            response.close()
            current = self._redirected(current, location)
        raise Refusal(502, f"{self._shown(path)}: more than {_REDIRECTS} redirects; correct the URL")

    def pack(self, path: FetchPath, headers: Mapping[str, str], body: bytes) -> Answer:
        """Ask for objects of a repository. Raises ``Refusal``."""
        moved = self._moved.get(path.repository, path.repository)
        current = msgspec.structs.replace(path, repository=moved)
        response = self._request("POST", current, headers, body)
        if response.get_redirect_location():
            response.close()
            raise Refusal(502, f"{self._shown(path)}: redirected in the middle; use the URL that it redirects to")
        return self._checked(response, current)

    def _request(
        self, method: str, path: FetchPath, headers: Mapping[str, str], body: bytes | None
    ) -> urllib3.BaseHTTPResponse:
        sent = {**headers, "User-Agent": "git/2 (magos)", "Accept-Encoding": "identity", "Pragma": "no-cache"}
        if self._login:
            sent["Authorization"] = _basic(self._login)
        remaining = self._deadline.remaining()
        timeout = urllib3.Timeout(connect=min(_CONNECT_SECONDS, remaining), read=min(_READ_SECONDS, remaining))
        try:
            address = f"{self._url.origin}{path.target}"
            return self._managers.for_url(address).request(
                method,
                address,
                headers=sent,
                body=body,
                timeout=timeout,
                redirect=False,
                retries=False,
                preload_content=False,
            )
        except HTTPError as error:
            raise Refusal(502, self._unreachable(error)) from None
        except GitError as error:
            raise Refusal(504, error.message) from None

    def _redirected(self, source: FetchPath, location: str) -> FetchPath:
        target = urljoin(f"{self._url.origin}{source.target}", location)
        parts = urlsplit(target)
        if not self._is_own(parts) or "@" in parts.netloc:
            raise Refusal(502, f"{self._shown(source)}: redirected to another server, which gets no login; correct it")
        try:
            return FetchPath.parse(parts.path + (f"?{parts.query}" if parts.query else ""))
        except ValueError:
            raise Refusal(502, f"{self._shown(source)}: redirected to something else; correct the URL") from None

    def _is_own(self, parts: SplitResult) -> bool:
        try:
            port = parts.port or {"https": 443, "http": 80}.get(parts.scheme)
        except ValueError:
            return False
        own = self._url.origin
        return (parts.scheme, parts.hostname, port) == (own.scheme.value, own.host, own.port)

    def _checked(self, response: urllib3.BaseHTTPResponse, path: FetchPath) -> Answer:
        kind = response.headers.get("Content-Type", "").partition(";")[0].strip()
        if response.status == 200 and kind == _TYPES[path.step]:
            return Answer(kind, self._chunks(response, path))
        response.close()
        raise self._refused(response.status, path)

    def _refused(self, status: int, path: FetchPath) -> Refusal:
        shown = self._shown(path)
        kind = CredentialKind.BASIC if self._login else CredentialKind.NONE
        if status in {401, 403}:  # never 401: git would look for another login
            return Refusal(403, f"{self._url.host} did not accept {kind} for {shown} (HTTP {status})")
        if status == 404:
            return Refusal(404, f"{shown} was not found (HTTP 404): it does not exist or is hidden from this user")
        if status == 200:
            return Refusal(502, f"{shown} did not answer as a Git server that speaks the smart HTTP protocol")
        return Refusal(502, f"{shown}: an unexpected answer (HTTP {status}); check the server")

    def _chunks(self, response: urllib3.BaseHTTPResponse, path: FetchPath) -> Iterator[bytes]:
        longest = max((len(form) for form in self._forms), default=1) - 1
        before = b""
        try:
            while chunk := response.read1(_CHUNK):
                seen = before + chunk
                if any(form in seen for form in self._forms):
                    raise Refusal(502, f"{self._shown(path)}: the answer repeats the login")
                before = seen[-longest:] if longest else b""
                yield chunk
        except HTTPError as error:
            raise Refusal(502, self._unreachable(error)) from None
        except GitError as error:
            raise Refusal(504, error.message) from None
        finally:
            response.close()

    def _shown(self, path: FetchPath) -> str:
        return f"{self._url.origin}{path.repository}"

    def _unreachable(self, error: HTTPError) -> str:
        # Its text may name a proxy with its password, so the message has only the kind of the cause.
        cause = getattr(error, "reason", None) or error
        advice = "check the network and the URL"
        if "CERTIFICATE" in str(cause).upper():
            advice = "its certificate is not trusted: add the server's CA under caBundle of the repository Secret"
        return f"cannot reach {self._url.origin} ({type(cause).__name__}); {advice}"


def _basic(login: tuple[str, str]) -> str:
    return "Basic " + base64.b64encode(":".join(login).encode()).decode()


def _forms(login: tuple[str, str] | None) -> tuple[bytes, ...]:
    """Return how a server may repeat the login; what is too short also stands in packs by chance."""
    if login is None:
        return ()
    password = login[1].encode()
    forms = (password, base64.b64encode(password).rstrip(b"="), _basic(login).removeprefix("Basic ").encode())
    return tuple(form for form in forms if len(form) >= _SHORTEST_FORM)
