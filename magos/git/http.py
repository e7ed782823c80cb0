"""The smart HTTP transport with our own rules for redirects, credentials and time.

Basic authentication is sent to the repository's own origin only. A redirect to the same origin (a missing ``.git``) is
followed with credentials; one to another origin is followed anonymously, after which this client never sends
credentials again; from HTTPS to HTTP, or to a scheme that is not allowed, it is refused. Only the first request may be
redirected, like ``http.followRedirects=initial`` of git-config(1). Bodies of redirects and errors are not read.

The module imports the Git library and is itself imported lazily.
"""

import base64
import ssl
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urljoin

import urllib3
from dulwich.client import Urllib3HttpGitClient
from urllib3.exceptions import HTTPError
from urllib3.util import parse_url

from magos.bounds import HTTP_REDIRECTS
from magos.git.credentials import CredentialKind, Credentials
from magos.git.errors import GitError, GitReason
from magos.git.url import Origin, RepoURL, Scheme, strip_userinfo
from magos.git.wire import Wire
from magos.masking.message import cleared, compose
from magos.outbound.managers import Managers, cause_of

_CONNECT_SECONDS = 20.0
_READ_SECONDS = 60.0
_ADVERTISEMENT = "application/x-git-upload-pack-advertisement"


class SmartHTTPClient(Urllib3HttpGitClient):
    """A Git client for one HTTP(S) repository. Not safe for use by two threads at once."""

    def __init__(self, wire: Wire, credentials: Credentials, allowed: Collection[str]) -> None:
        url = wire.url
        self._repo = url
        self._wire = wire
        self._schemes = {scheme for scheme in ("https", "http") if scheme in allowed}
        self._deadline = wire.deadline
        self._responses: list[urllib3.BaseHTTPResponse] = []
        self._managers = Managers(wire, tls_context(url, credentials))
        login = credentials.basic_auth()
        # RFC 7617 §2.1: UTF-8 is what servers understand beyond ASCII
        self._login = "Basic " + base64.b64encode(":".join(login).encode()).decode() if login else None
        super().__init__(str(url), pool_manager=self._managers.for_url(str(url)), quiet=True)

    def close(self) -> None:
        """Close all connections, also those of answers that were not read to the end."""
        for response in self._responses:
            response.close()
        self._managers.close()

    def _http_request(
        self,
        url: str,
        headers: dict[str, str] | None = None,
        data: bytes | Iterator[bytes] | None = None,
        raise_for_status: bool = True,
    ) -> tuple[Any, Callable[[int], bytes]]:
        """Perform one request for the Git library; returns the response and a reader of exact lengths."""
        current = url
        for _ in range(HTTP_REDIRECTS.limit + 1):
            response = self._send(current, dict(headers or {}), data)
            location = response.get_redirect_location()
            if not location:
                break
            response.close()
            current = self._redirected(current, location, is_first=data is None)
        else:
            raise GitError(
                GitReason.GIT_FAILED, f"{self._repo}: more than {HTTP_REDIRECTS.limit} redirects; correct the URL"
            )
        if raise_for_status:
            self._check_status(response)
        if response.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
            raise GitError(
                GitReason.GIT_FAILED,
                f"{self._repo} sends its answers compressed although it was asked not to; check the server and proxies"
                " on the way",
            )
        kind = response.headers.get("Content-Type")
        if data is None and (kind or "").split(";")[0].strip() != _ADVERTISEMENT:
            raise GitError(
                GitReason.GIT_FAILED,
                f"{self._repo} did not answer as a Git server;"
                " is this the clone URL, and does the server speak the smart HTTP protocol?",
            )
        response.content_type = kind  # type: ignore[attr-defined]
        response.redirect_location = current if current != url else ""  # type: ignore[attr-defined]
        return response, self._reader(response)

    def _send(
        self, url: str, headers: dict[str, str], data: bytes | Iterator[bytes] | None
    ) -> urllib3.BaseHTTPResponse:
        self._deadline.check()
        headers |= {"Pragma": "no-cache", "User-Agent": "git/2 (magos)", "Accept-Encoding": "identity"}
        if self._login and _origin(url) == self._repo.origin:
            headers["Authorization"] = self._login
        remaining = self._deadline.remaining()
        timeout = urllib3.Timeout(connect=min(_CONNECT_SECONDS, remaining), read=min(_READ_SECONDS, remaining))
        try:
            response = self._managers.for_url(url).request(
                "GET" if data is None else "POST",
                url,
                headers=headers,
                body=data,
                timeout=timeout,
                redirect=False,
                retries=False,
                preload_content=False,
                decode_content=False,
            )
        except HTTPError as error:
            if _origin(url) != self._repo.origin and not self._deadline.expired():
                # the message must not tell the user about a server that only the first one named
                raise GitError(
                    GitReason.GIT_FAILED,
                    f"cannot reach the server that {self._repo} redirects to; check the network and the URL",
                ) from error
            raise self._unreachable(error) from error
        self._responses.append(response)
        self._deadline.check()  # headers that were cut off look like headers that ended
        return response

    def _redirected(self, source: str, location: str, *, is_first: bool) -> str:
        target = urljoin(source, location)
        parsed = parse_url(target)
        if not is_first:
            raise GitError(GitReason.GIT_FAILED, f"{self._repo}: redirected in the middle; correct the URL")
        allowed = {"https"}.intersection(self._schemes) if source.startswith("https:") else self._schemes
        if parsed.scheme not in allowed:
            raise GitError(
                GitReason.SCHEME_NOT_ALLOWED,
                f"{self._repo}: redirected to a URL whose scheme is not allowed (allowed:"
                f" {', '.join(sorted(allowed))}); correct the URL",
            )
        if parsed.auth:
            raise GitError(GitReason.GIT_FAILED, f"{self._repo}: redirected to a URL with credentials; correct the URL")
        if _origin(target) != self._repo.origin:
            self._login = None  # for good: what another origin sends us to is not our repository any more
        return target

    def _check_status(self, response: urllib3.BaseHTTPResponse) -> None:
        if response.status == 200:
            return
        response.close()
        if response.status == 401:
            kind = CredentialKind.BASIC if self._login else CredentialKind.NONE
            raise GitError(
                GitReason.GIT_AUTHENTICATION_FAILED,
                compose(
                    "{host} did not accept {kind} for {repo} (HTTP 401);"
                    " check the repository Secret: its label, username, password, repoURL (equal to that of the spec)",
                    host=self._repo.host,
                    kind=cleared(kind),
                    repo=self._repo,
                ),
            )
        if response.status == 403:
            raise GitError(
                GitReason.GIT_AUTHENTICATION_FAILED,
                compose(
                    "{host} refused access to {repo} (HTTP 403); check what the user of the repository Secret may read",
                    host=self._repo.host,
                    repo=self._repo,
                ),
            )
        if response.status == 404:
            raise GitError(
                GitReason.GIT_FAILED,
                compose(
                    "{repo} was not found (HTTP 404): it does not exist, or it is hidden from {whom};"
                    " check the URL and the repository Secret",
                    repo=self._repo,
                    whom=cleared("this user" if self._login else "anonymous access"),
                ),
            )
        wait = retry_after(response.headers.get("Retry-After"), datetime.now(UTC))
        if response.status == 429:
            cause, advice = "too many requests", "ask less often: raise magosproject.io/git-poll-interval"
        elif response.status == 407:
            cause, advice = "the proxy wants to authenticate", "check the server"
        else:
            cause, advice = "an unexpected answer", "check the server"
        raise GitError(
            GitReason.GIT_FAILED, f"{self._repo}: {cause} (HTTP {response.status}); {advice}", retry_after=wait
        )

    def _reader(self, response: urllib3.BaseHTTPResponse) -> Callable[[int], bytes]:
        def read(size: int) -> bytes:
            chunks: list[bytes] = []
            missing = size
            while missing > 0:
                self._deadline.check()
                try:
                    chunk = response.read1(missing)
                except HTTPError as error:
                    raise self._unreachable(error) from error
                if not chunk:
                    break
                chunks.append(chunk)
                missing -= len(chunk)
            return b"".join(chunks)

        return self._wire.reader(read)

    def _unreachable(self, error: HTTPError) -> GitError:
        if self._deadline.expired():
            return self._deadline.error()
        cause = strip_userinfo(cause_of(error))
        advice = "check the network and the URL"
        if "CERTIFICATE" in cause.upper():
            advice = "add the server's CA under caBundle of the repository Secret"
        return GitError(GitReason.GIT_FAILED, f"cannot reach {self._repo}: {cause}; {advice}")


def retry_after(header: str | None, now: datetime) -> float | None:
    """Return the seconds that a Retry-After header asks for (RFC 9110 section 10.2.3), None if it asks for nothing."""
    text = (header or "").strip()
    if text.isascii() and text.isdecimal() and len(text) < 10:
        return float(text)
    try:
        until = parsedate_to_datetime(text)
    except ValueError:
        return None
    if until.tzinfo is None:  # RFC 9110 dates are GMT whatever they say
        until = until.replace(tzinfo=UTC)
    return max((until - now).total_seconds(), 0.0)


def tls_context(url: RepoURL, credentials: Credentials) -> ssl.SSLContext:
    """Return what checks the server: the system's authorities and those of the Secret. Raises ``GitError``."""
    context = ssl.create_default_context()
    if credentials.ca_bundle and url.scheme is Scheme.HTTPS:
        try:
            context.load_verify_locations(cadata=credentials.ca_bundle)
        except (ssl.SSLError, ValueError) as error:
            raise GitError(
                GitReason.GIT_FAILED,
                f"{url}: caBundle of the repository Secret is not a list of PEM certificates ({error}); correct it",
            ) from error
    return context


def _origin(url: str) -> Origin | None:
    parsed = parse_url(url)
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        return None
    scheme = Scheme(parsed.scheme)
    host = parsed.host.strip("[]").lower()
    return Origin(scheme, host, parsed.port or (443 if scheme is Scheme.HTTPS else 80))
