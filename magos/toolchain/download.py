"""Downloads with bounds: connect, read and total time, size, and a message that names the URL.

Redirects are followed, but never from HTTPS to HTTP; their bodies, and those of errors, are not read. A user name and a
password of the URL are sent to its own origin only. The module imports the HTTP library and is itself imported lazily.
"""

import socket
import ssl
import time
from pathlib import Path
from urllib.parse import unquote, urljoin

import urllib3
from urllib3.exceptions import HTTPError, LocationParseError
from urllib3.util import Url, make_headers, parse_url

from magos.bounds import HTTP_REDIRECTS, TOOL_TALK
from magos.outbound.cuts import Cuts
from magos.outbound.managers import Managers, cause_of
from magos.outbound.peers import Peers
from magos.toolchain.errors import ToolError, ToolReason
from magos.toolchain.releases import shown

_CHUNK = 1 << 16
_ATTEMPTS = 3
_RETRIED = {408, 425, 429, 500, 502, 503, 504}
_CONNECT_SECONDS = 15.0
_READ_SECONDS = 30.0


class Missing(ToolError):
    """The server says that there is no such file (404, 410, or 403 as object stores answer)."""

    def __init__(self, url: str, status: int) -> None:
        super().__init__(
            ToolReason.TOOL_DOWNLOAD_FAILED,
            f"{shown(url)} does not exist (HTTP {status}); check that the version exists and the mirror holds it",
        )
        self.status = status


class _Passing(Exception):
    """What a further attempt may not meet: a broken connection, a busy server."""


class Downloads:
    """Downloads of one installation, which take ``timeout`` seconds in all, from peers that are permitted.

    No connection outlives an attempt.
    """

    def __init__(self, timeout: float, peers: Peers = Peers()) -> None:  # noqa: B008  # immutable
        self._peers = peers
        self._end = time.monotonic() + timeout
        self._context = ssl.create_default_context()

    def get(self, url: str, target: Path, largest: int) -> None:
        """Write what ``url`` serves, at most ``largest`` bytes, to ``target``.

        A broken connection or a passing server error is tried three times in all. Raises ``Missing`` or ``ToolError``
        (ToolDownloadFailed).
        """
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                _Attempt(url, self._end, self._context, self._peers).run(target, largest)
            except _Passing as error:
                if attempt == _ATTEMPTS or time.monotonic() >= self._end:
                    raise _failed(url, str(error)) from error
                time.sleep(0.5 * attempt)
            else:
                return


class _Attempt:
    """One attempt; it is also the guard of its connections."""

    def __init__(self, url: str, end: float, context: ssl.SSLContext, peers: Peers) -> None:
        self.peers = peers
        self._url = url
        self._end = end
        self._cuts = Cuts()
        self._managers = Managers(self, context)
        self._talk = 0

    def received(self, size: int) -> None:
        self._talk += size
        if time.monotonic() >= self._end:
            raise _failed(self._url, "the download took too long")
        if self._talk > TOOL_TALK.limit:
            raise _failed(self._url, f"the server sent more than {TOOL_TALK.limit // 1024**2} MiB beside the file")

    def remaining(self) -> float:
        return max(self._end - time.monotonic(), 0.001)

    def cut(self, connection: socket.socket) -> None:
        self._cuts.cut(connection, self.remaining())

    def run(self, target: Path, largest: int) -> None:
        """Download. Raises ``_Passing`` where it is worth another attempt."""
        try:
            response = self._answer()
            try:
                self._write(response, target, largest)
            finally:
                response.close()
        except HTTPError as error:
            if time.monotonic() >= self._end:
                raise _failed(self._url, "the download took too long") from error
            raise _Passing(cause_of(error)) from error
        finally:
            self._managers.close()
            self._cuts.release()

    def _answer(self) -> urllib3.BaseHTTPResponse:
        """Return the answer with the file, behind the redirects."""
        url = first = _parsed(self._url, self._url)
        for _ in range(HTTP_REDIRECTS.limit + 1):
            response = self._send(url, first)
            location = response.get_redirect_location()
            if not location:
                return response
            response.close()
            url = redirected(url.url, location, self._url)
        raise _failed(self._url, f"there are more than {HTTP_REDIRECTS.limit} redirects")

    def _send(self, url: Url, first: Url) -> urllib3.BaseHTTPResponse:
        plain = url._replace(auth=None).url
        headers = {"User-Agent": "magos", "Accept-Encoding": "identity"}
        if first.auth and (url.scheme, url.host, url.port) == (first.scheme, first.host, first.port):
            headers |= make_headers(basic_auth=unquote(first.auth))
        left = self.remaining()
        response = self._managers.for_url(plain).request(
            "GET",
            plain,
            headers=headers,
            timeout=urllib3.Timeout(connect=min(_CONNECT_SECONDS, left), read=min(_READ_SECONDS, left)),
            redirect=False,
            retries=False,
            preload_content=False,
            decode_content=False,
        )
        if response.get_redirect_location():
            return response
        problem = self._problem(response)
        if problem is not None:
            response.close()
            raise problem
        return response

    def _problem(self, response: urllib3.BaseHTTPResponse) -> Exception | None:
        if response.status in {403, 404, 410}:
            return Missing(self._url, response.status)
        if response.status in _RETRIED:
            return _Passing(f"HTTP {response.status}")
        if response.status != 200:
            return _failed(self._url, f"HTTP {response.status}")
        if response.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
            return _failed(self._url, "the server compresses what it sends although it was asked not to")
        return None

    def _write(self, response: urllib3.BaseHTTPResponse, target: Path, largest: int) -> None:
        size = 0
        with target.open("wb") as file:
            while chunk := response.read1(_CHUNK):
                self._talk -= len(chunk)
                size += len(chunk)
                if size > largest:
                    raise _failed(self._url, f"it is larger than {largest:,} bytes")
                file.write(chunk)


def redirected(source: str, location: str, asked: str) -> Url:
    """Return where ``location`` leads from ``source``; ``asked`` is the URL for messages.

    Raises ``ToolError`` for what is no HTTP URL, and for HTTP behind HTTPS.
    """
    target = _parsed(urljoin(source, location), asked)
    if source.startswith("https:") and target.scheme != "https":
        raise _failed(asked, "the server redirects from https to another scheme")
    return target


def _parsed(url: str, asked: str) -> Url:
    try:
        parsed = parse_url(url)
    except LocationParseError as error:
        raise _failed(asked, "it is or leads to what is no URL") from error
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise _failed(asked, "it is or leads to what is no http or https URL")
    return parsed


def _failed(url: str, cause: str) -> ToolError:
    return ToolError(
        ToolReason.TOOL_DOWNLOAD_FAILED, f"cannot download {shown(url)}: {cause}; check the network, proxy and mirror"
    )
