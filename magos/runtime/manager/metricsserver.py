"""The ``/metrics`` endpoint: plain HTTP, or HTTPS for those whom the cluster lets read it.

In secure mode the certificate is a mounted one, which is read again every minute because mounted certificates rotate,
and every request needs the token of a user who may ``get`` the non-resource URL ``/metrics`` (``metricsauth``).
"""

import asyncio
import ssl
from pathlib import Path

import anyio
import structlog

from magos.errors import ConfigurationError
from magos.runtime.manager.metrics import CONTENT_TYPE, Metrics
from magos.runtime.manager.metricsauth import AccessDecision, MetricsAuth
from magos.runtime.manager.settings import Settings
from magos.runtime.manager.webserver import WebRequest, WebResponse

RELOAD_SECONDS = 60.0

_log = structlog.get_logger(__name__)
_WORDS = {
    AccessDecision.UNAUTHENTICATED: "authentication required: send the token of a Kubernetes account",
    AccessDecision.FORBIDDEN: "this account may not get the non-resource URL /metrics",
    AccessDecision.UNKNOWN: "the API server could not be asked who you are; try again",
}


class MetricsEndpoint:
    """Answers requests for the metrics; without ``auth`` everybody may read them."""

    def __init__(self, metrics: Metrics, auth: MetricsAuth | None) -> None:
        self._metrics = metrics
        self._auth = auth

    async def handle(self, request: WebRequest) -> WebResponse:
        """Return the exposition, or why not."""
        if self._auth is not None:
            access = await self._auth.judge(request.authorization)
            if access is not AccessDecision.ALLOWED:
                headers = {"WWW-Authenticate": "Bearer"} if access is AccessDecision.UNAUTHENTICATED else {}
                return WebResponse(status=int(access), body=f"{_WORDS[access]}\n".encode(), headers=headers)
        if request.path != "/metrics":
            return WebResponse(status=404, body=b"404 page not found\n")
        return WebResponse(body=await self._metrics.render(), content_type=CONTENT_TYPE)


class ServingCertificate:
    """The certificate of the metrics server; a changed one serves the connections that follow."""

    def __init__(self, settings: Settings) -> None:
        """Load it; ``ConfigurationError`` if there is none or it cannot be used."""
        if not settings.metrics_cert_path:
            raise ConfigurationError(
                "--metrics-secure needs a certificate: mount one and give --metrics-cert-path, or serve plain HTTP "
                "with --metrics-secure=false"
            )
        directory = Path(settings.metrics_cert_path)
        self._files = (directory / settings.metrics_cert_name, directory / settings.metrics_cert_key)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._loaded = self._read()
        self._load()

    async def keep_fresh(self) -> None:
        """Read the files again and again; what cannot be used is logged, and the old certificate stays."""
        while True:
            await anyio.sleep(RELOAD_SECONDS)
            try:
                await asyncio.to_thread(self._refresh)
            except ConfigurationError as error:
                _log.warning("metrics certificate not renewed", error=str(error))

    def _refresh(self) -> None:
        found = self._read()
        if found != self._loaded:
            self._load()
            self._loaded = found

    def _read(self) -> tuple[bytes, ...]:
        try:
            return tuple(path.read_bytes() for path in self._files)
        except OSError as error:
            raise ConfigurationError(
                f"the metrics certificate cannot be read: {error}; check --metrics-cert-path, -name and -key"
            ) from error

    def _load(self) -> None:
        certificate, key = self._files
        try:
            self.context.load_cert_chain(certificate, key)
        except (ssl.SSLError, OSError) as error:
            raise ConfigurationError(
                f"the metrics certificate {certificate} and its key {key} cannot be used: {error}"
            ) from error
