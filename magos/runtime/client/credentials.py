"""Who we are at the API server: tokens and client certificates that change while the process runs.

Promises: a token file is read again after ``REREAD_SECONDS`` and after a 401; an exec plugin runs again
``LEEWAY_SECONDS`` before its credential expires (at half of a shorter life) and after a 401, once at a time. What
cannot be renewed is used for as long as it is good. Nothing here blocks the loop.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import msgspec
import structlog
from msgspec import Struct

from magos.errors import ConfigurationError, MagosError
from magos.runtime.clock import Clock

REREAD_SECONDS = 60.0
"""How long the content of a token file is trusted; the kubelet rotates it well before it expires."""

LEEWAY_SECONDS = 60.0
"""How long before its expiry a credential of an exec plugin is replaced."""

RETRY_SECONDS = 10.0
"""How long a plugin that failed is left alone while its last credential is still good."""

PLUGIN_SECONDS = 60.0
"""How long an exec plugin may take."""

_log = structlog.get_logger(__name__)

_API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


class CredentialError(MagosError):
    """The credential cannot be had right now; asking again may help."""


class Credential(Struct, frozen=True, kw_only=True):
    """What a request is sent with: a bearer token, or a client certificate with its key (PEM), or neither."""

    token: str = ""
    certificate: bytes = b""
    key: bytes = b""


class Credentials(Protocol):
    """A source of the current credential."""

    async def current(self) -> Credential:
        """Return what to use now; raise ``CredentialError`` if there is nothing usable."""
        ...

    def rejected(self) -> None:
        """The server answered 401: what ``current`` returned last must not be returned from memory again."""
        ...


class Anonymous:
    """No credential, or only the client certificate that the TLS configuration carries."""

    async def current(self) -> Credential:
        """Return an empty credential."""
        return Credential()

    def rejected(self) -> None:
        """There is nothing to forget."""


class StaticToken:
    """A token that does not change."""

    def __init__(self, token: str) -> None:
        self._credential = Credential(token=token)

    async def current(self) -> Credential:
        """Return the token."""
        return self._credential

    def rejected(self) -> None:
        """There is no other one."""


class TokenFile:
    """A token in a file that another program, such as the kubelet, keeps fresh."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._token = ""
        self._read_at: float | None = None

    async def current(self) -> Credential:
        """Return the content without blanks; while the file is unreadable the last token is kept."""
        now = self._clock.monotonic()
        if self._read_at is None or now - self._read_at >= REREAD_SECONDS:
            try:
                text = (await asyncio.to_thread(self._path.read_text, "utf-8")).strip()
            except (OSError, UnicodeDecodeError) as error:
                text = ""
                problem = str(error)
            else:
                problem = "it is empty"
            if text:
                self._token = text
            elif not self._token:
                raise CredentialError(f"cannot use the token file {self._path}: {problem}; is the token mounted?")
            self._read_at = now
        return Credential(token=self._token)

    def rejected(self) -> None:
        """Read the file again next time."""
        self._read_at = None


class ExecSpec(Struct, frozen=True, kw_only=True):
    """The ``exec`` section of a kubeconfig user, with the environment the plugin runs in and its cluster's facts."""

    api_version: str
    command: str
    args: Sequence[str] = ()
    environ: Mapping[str, str] = msgspec.field(default_factory=dict)
    install_hint: str = ""
    cluster: Mapping[str, Any] | None = None


class _PluginStatus(Struct, rename="camel"):
    token: str = ""
    expiration_timestamp: datetime | None = None
    client_certificate_data: str = ""
    client_key_data: str = ""


class _PluginAnswer(Struct, rename="camel"):
    kind: str
    api_version: str
    status: _PluginStatus


class ExecPlugin:
    """Runs a client-go credential plugin and keeps its answer until shortly before it expires."""

    def __init__(self, spec: ExecSpec, clock: Clock) -> None:
        if spec.api_version not in _API_VERSIONS:
            raise ConfigurationError(
                f"the exec plugin {spec.command} asks for {spec.api_version or 'no apiVersion'}; "
                f"supported are {' and '.join(_API_VERSIONS)}"
            )
        self._spec = spec
        self._clock = clock
        self._lock = asyncio.Lock()
        self._credential: Credential | None = None
        self._expires: datetime | None = None
        self._renew_at: datetime | None = None

    async def current(self) -> Credential:
        """Return the plugin's credential, running the plugin if it is needed; it runs once for all who wait."""
        async with self._lock:
            now = self._clock.now()
            if self._credential is None or (self._renew_at is not None and now >= self._renew_at):
                self._credential = await self._renewed(now)
            return self._credential

    def rejected(self) -> None:
        """Run the plugin again next time."""
        self._credential = None

    async def _renewed(self, now: datetime) -> Credential:
        try:
            credential, self._expires = await self._run()
        except CredentialError as error:
            if self._credential is None or self._expires is None or now >= self._expires:
                raise
            _log.warning("credential not renewed, keeping the old one", error=str(error))
            self._renew_at = now + timedelta(seconds=RETRY_SECONDS)
            return self._credential
        self._renew_at = None
        if self._expires is not None:
            self._renew_at = self._expires - min(timedelta(seconds=LEEWAY_SECONDS), (self._expires - now) / 2)
        return credential

    async def _run(self) -> tuple[Credential, datetime | None]:
        spec = self._spec
        info: dict[str, Any] = {"interactive": False}
        if spec.cluster is not None:
            info["cluster"] = spec.cluster
        request = {"apiVersion": spec.api_version, "kind": "ExecCredential", "spec": info}
        environ = {**spec.environ, "KUBERNETES_EXEC_INFO": msgspec.json.encode(request).decode()}
        output = await self._output(environ)
        try:
            status = msgspec.json.decode(output, type=_PluginAnswer).status
            certificate = status.client_certificate_data.encode()
            key = status.client_key_data.encode()
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise CredentialError(f"the exec plugin {spec.command} did not print an ExecCredential: {error}") from error
        if not (status.token or certificate):
            raise CredentialError(f"the exec plugin {spec.command} returned neither a token nor a certificate")
        expires = status.expiration_timestamp
        if expires is not None and expires.tzinfo is None:
            expires = expires.replace(tzinfo=UTC)
        return Credential(token=status.token, certificate=certificate, key=key), expires

    async def _output(self, environ: Mapping[str, str]) -> bytes:
        spec = self._spec
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                spec.command, *spec.args, env=environ, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
            )
        except OSError as error:
            hint = f"; {spec.install_hint}" if spec.install_hint else "; is it installed and on PATH?"
            raise CredentialError(f"cannot run the exec plugin {spec.command}: {error.strerror}{hint}") from error
        try:
            async with asyncio.timeout(PLUGIN_SECONDS):
                output, errors = await process.communicate()
        except TimeoutError:
            raise CredentialError(f"the exec plugin {spec.command} did not end within {PLUGIN_SECONDS:.0f} s") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode != 0:
            words = errors.decode("utf-8", "replace").strip()[-512:]
            raise CredentialError(f"the exec plugin {spec.command} ended with {process.returncode}: {words}")
        return output
