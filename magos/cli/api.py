"""The API server of Magos over HTTP (spec §9.2).

The token goes to the one server that it is for: redirects are not followed, and no proxy credentials or netrc are used.
"""

import ssl
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote, urlsplit

import httpx
import msgspec
from msgspec import Struct

from magos.api.names import JobType
from magos.cli.failures import NotAllowed, NotFound
from magos.errors import ConfigurationError, MagosError
from magos.history.runs import RunPage
from magos.ids import parse_run_id

T = TypeVar("T")

_BASE = "/apis/magosproject.io/v1alpha1"
_AUTH = "/api/v1alpha1/auth"
_TIMEOUT = httpx.Timeout(30.0, connect=10.0)
_LONGEST_TEXT = 1_000


class Identity(Struct, frozen=True, kw_only=True, rename="camel"):
    """Who the server takes the caller for."""

    kind: str = ""
    username: str = ""
    subject: str = ""
    service_accounts: tuple[str, ...] = ()


class Oidc(Struct, frozen=True, kw_only=True, rename="camel"):
    """How to log in at the identity provider."""

    issuer_url: str = msgspec.field(default="", name="issuerURL")
    client_id: str = msgspec.field(default="", name="clientID")
    cli_client_id: str = msgspec.field(default="", name="cliClientID")
    scopes: tuple[str, ...] = ()


class PublicConfig(Struct, frozen=True, kw_only=True, rename="camel"):
    """What the server tells everybody."""

    admin_enabled: bool = False
    oidc: Oidc | None = None
    version: str = ""


class Token(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a login gives."""

    id_token: str
    expires_at: str = ""


class _Refusal(Struct, frozen=True, kw_only=True):
    error: str = ""


class Api:
    """A connection to one server. Every refusal is a ``MagosError`` with the server's own words.

    ``login`` is the command that a refused token leads to. ``transport`` is for tests.
    """

    def __init__(
        self,
        address: str,
        token: str = "",
        *,
        ca_file: str = "",
        login: str = "magos login",
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("https", "http") or not parts.hostname or parts.username or parts.query:
            raise ConfigurationError(f"the address of the server has to be like https://magos.example.org: {address!r}")
        self._login = login
        self._address = address
        self._client = httpx.Client(
            base_url=address,
            headers={"Authorization": f"Bearer {token}"} if token else {},
            timeout=_TIMEOUT,
            verify=trust(ca_file),
            trust_env=False,
            transport=transport,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._client.close()

    def runs(self, namespace: str, name: str, *, limit: int, cursor: str = "") -> RunPage:
        """Return a page of the runs of a Workspace, newest first."""
        query = {"limit": str(limit), **({"cursor": cursor} if cursor else {})}
        return self._read(_workspace(namespace, name, "runs"), RunPage, query)

    def log(self, namespace: str, name: str, run_id: str, phase: JobType) -> Iterator[bytes]:
        """Yield an archived log in chunks."""
        path = _workspace(namespace, name, "runs", parse_run_id(run_id), "log")
        try:
            with self._client.stream("GET", path, params={"phase": str(phase)}) as response:
                if not response.is_success:
                    response.read()
                    raise self._refused(response)
                yield from response.iter_bytes()
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error

    def whoami(self) -> Identity:
        """Return who the server takes the caller for."""
        return self._read(f"{_AUTH}/whoami", Identity)

    def public_config(self) -> PublicConfig:
        """Return which logins there are."""
        return self._read("/api/v1alpha1/system/public-config", PublicConfig)

    def login_admin(self, password: str) -> Token:
        """Return a token for the administrator's password."""
        try:
            header = {"Authorization": f"Bearer {password.encode('ascii').decode()}"}
        except UnicodeEncodeError:
            header = {"Authorization": b"Bearer " + password.encode()}  # type: ignore[dict-item]
        return self._decoded(self._sent("POST", f"{_AUTH}/login", headers=header), Token)

    def exchange(self, body: Mapping[str, str]) -> Token:
        """Return the token for a code of the identity provider."""
        return self._decoded(self._sent("POST", f"{_AUTH}/token", json=dict(body)), Token)

    def _read(self, path: str, type_: type[T], query: Mapping[str, str] | None = None) -> T:
        return self._decoded(self._sent("GET", path, params=query), type_)

    def _sent(self, method: str, path: str, **options: Any) -> httpx.Response:
        try:
            response = self._client.request(method, path, **options)
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error
        if not response.is_success:
            raise self._refused(response)
        return response

    def _decoded(self, response: httpx.Response, type_: type[T]) -> T:
        try:
            return msgspec.json.decode(response.content, type=type_)
        except msgspec.MsgspecError as error:
            raise MagosError(
                f"the answer of {self._address} is not one of a Magos API server ({error}); is the address right?"
            ) from error

    def _refused(self, response: httpx.Response) -> MagosError:
        told = _words(response)
        match response.status_code:
            case 401:
                return NotAllowed(f"{self._address} does not know you: {told}; run {self._login}")
            case 403:
                return NotAllowed(f"{self._address} does not allow it: {told}")
            case 404:
                return NotFound(f"{self._address}: {told}")
            case 429:
                after = response.headers.get("Retry-After", "")
                pause = f"; try again in {after} s" if after.isdecimal() else ""
                return MagosError(f"{self._address} refuses for now: {told}{pause}")
            case status if 300 <= status < 400:
                where = response.headers.get("Location", "elsewhere")
                return MagosError(f"{self._address} redirects to {where}, which is not followed; give that address")
            case status:
                return MagosError(f"{self._address} answered with {status}: {told}")

    def _unreachable(self, error: httpx.HTTPError) -> MagosError:
        words = str(error) or type(error).__name__
        if isinstance(error, httpx.TimeoutException):
            return MagosError(f"{self._address} did not answer in time ({type(error).__name__})")
        if "CERTIFICATE_VERIFY_FAILED" in words or "certificate" in words.lower():
            return MagosError(
                f"the certificate of {self._address} is not trusted: {words}; if its authority is your own, give it"
                " with --ca-file or MAGOS_CA_FILE"
            )
        return MagosError(f"{self._address} cannot be reached: {words}")


def _workspace(namespace: str, name: str, *rest: str) -> str:
    return "/".join((_BASE, "workspaces", *(quote(part, safe="") for part in (namespace, name, *rest))))


def _words(response: httpx.Response) -> str:
    """Return the server's own words, also if a proxy answered in its place."""
    try:
        told = msgspec.json.decode(response.content, type=_Refusal).error
    except msgspec.MsgspecError:
        told = response.text.strip()
    text = " ".join(told.split())
    return text[:_LONGEST_TEXT] or response.reason_phrase or "no reason given"


def trust(ca_file: str, *, beside_usual: bool = False) -> ssl.SSLContext:
    """Return the authorities of a file, alone or ``beside_usual`` ones of the system; the system's if it is empty.

    Raises ``ConfigurationError``.
    """
    if not ca_file:
        return ssl.create_default_context()
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"the authorities in {ca_file} cannot be read: {error}") from error
    if beside_usual:
        context.load_default_certs()
    return context
