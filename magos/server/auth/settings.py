"""The settings of authentication (spec §9.5): one clear line for what is wrong, and no secret in it.

An empty variable counts as unset, because that is how a manifest leaves one out.
"""

import ipaddress
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import structlog
from msgspec import Struct

from magos.durations import parse_duration
from magos.errors import ConfigurationError
from magos.server.auth.hidden import Hidden
from magos.server.auth.origins import is_loopback, origin_of

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

BASE_URL = "MAGOS_BASE_URL"
ADMIN_ENABLED = "ADMIN_ACCOUNT_ENABLED"
ADMIN_HASH = "ADMIN_ACCOUNT_PASSWORD_HASH"
ADMIN_KEY = "ADMIN_ACCOUNT_TOKEN_SIGNING_KEY"
ADMIN_TTL = "ADMIN_ACCOUNT_TOKEN_TTL"
SESSION_KEY = "MAGOS_SESSION_SIGNING_KEY"
SESSION_TTL = "MAGOS_SESSION_TTL"
OIDC_ISSUER = "OIDC_ISSUER_URL"
OIDC_CLIENT = "OIDC_CLIENT_ID"
OIDC_CLI_CLIENT = "OIDC_CLI_CLIENT_ID"
OIDC_SCOPES = "OIDC_ADDITIONAL_SCOPES"
OIDC_USERNAME = "OIDC_USERNAME_CLAIM"
OIDC_CA = "OIDC_CA_FILE"
DEX_URL = "MAGOS_DEX_URL"
DEX_CA = "MAGOS_DEX_CA_FILE"
GLOBAL_NAMESPACES = "MAGOS_GLOBAL_SERVICE_ACCOUNT_NAMESPACES"
TRUSTED_PROXIES = "MAGOS_TRUSTED_PROXIES"
POD_NAMESPACE = "POD_NAMESPACE"

_SHORTEST_KEY = 32
_HASH = re.compile(r"\$2[aby]\$(0[4-9]|1[0-6])\$[./A-Za-z0-9]{53}")
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")

log = structlog.get_logger(__name__)


class AdminSettings(Struct, frozen=True, kw_only=True):
    """The admin account. ``enabled`` is False too where it has no password."""

    enabled: bool
    password_hash: Hidden
    signing_key: Hidden
    ttl: timedelta


class OidcSettings(Struct, frozen=True, kw_only=True):
    """The identity provider and the two public clients that we are there."""

    issuer: str
    client_id: str
    cli_client_id: str
    scopes: tuple[str, ...]
    username_claim: str
    ca_file: str

    @property
    def clients(self) -> frozenset[str]:
        """The client IDs whose tokens are ours."""
        return frozenset(client for client in (self.client_id, self.cli_client_id) if client)


class DexSettings(Struct, frozen=True, kw_only=True):
    """Where Dex answers inside of the cluster, path included; ``<base>/dex`` is passed on to it."""

    url: str
    ca_file: str


class AuthSettings(Struct, frozen=True, kw_only=True):
    """All of them. ``base_url`` has no slash at the end."""

    base_url: str
    admin: AdminSettings
    session_key: Hidden
    session_ttl: timedelta
    oidc: OidcSettings | None
    dex: DexSettings | None
    release_namespace: str
    global_namespaces: tuple[str, ...]
    trusted_proxies: tuple[Network, ...]

    @property
    def secure(self) -> bool:
        """Whether cookies are sent over HTTPS only."""
        return self.base_url.startswith("https:")

    @property
    def cookie_path(self) -> str:
        """The path below which browsers send our cookies."""
        return urlsplit(self.base_url).path or "/"

    @property
    def insecure_issuer(self) -> bool:
        """Whether an identity provider may be asked without HTTPS: only where all of it is on this machine."""
        parts = urlsplit(self.base_url)
        return parts.scheme == "http" and is_loopback(parts)


def load_auth_settings(environ: Mapping[str, str]) -> AuthSettings:
    """Return the settings in ``environ``; raise ``ConfigurationError`` that names the variable."""
    base_url = _url(environ, BASE_URL, f"http://localhost:{environ.get('PORT') or 8080}")
    dex = environ.get(DEX_URL) or ""
    settings = AuthSettings(
        base_url=base_url,
        admin=_admin(environ),
        session_key=_key(environ, SESSION_KEY, "sessions"),
        session_ttl=_duration(environ, SESSION_TTL),
        oidc=_oidc(environ),
        dex=DexSettings(url=_url(environ, DEX_URL, ""), ca_file=_file(environ, DEX_CA)) if dex else None,
        release_namespace=_namespaces(environ, POD_NAMESPACE)[0] if environ.get(POD_NAMESPACE) else "",
        global_namespaces=_namespaces(environ, GLOBAL_NAMESPACES),
        trusted_proxies=_networks(environ, TRUSTED_PROXIES),
    )
    if settings.oidc is not None:
        _check_issuer(settings, settings.oidc.issuer)
    return settings


def _check_issuer(settings: AuthSettings, issuer: str) -> None:
    parts = urlsplit(issuer)
    if issuer == settings.base_url:
        raise ConfigurationError(f"{OIDC_ISSUER} equals {BASE_URL}: tokens of both could not be told apart")
    if parts.scheme != "https" and not (settings.insecure_issuer and is_loopback(parts)):
        raise ConfigurationError(
            f"{OIDC_ISSUER} is {issuer!r}: use https; plain http is accepted only if it and {BASE_URL} are on this"
            " machine"
        )


def _admin(environ: Mapping[str, str]) -> AdminSettings:
    enabled = environ.get(ADMIN_ENABLED) or "true"
    if enabled not in ("true", "false"):
        raise ConfigurationError(f"{ADMIN_ENABLED} is {enabled!r}: set it to true or false")
    password_hash = environ.get(ADMIN_HASH) or ""
    if password_hash and _HASH.fullmatch(password_hash) is None:
        raise ConfigurationError(
            f"{ADMIN_HASH} is not a bcrypt hash of the form $2a$, $2b$ or $2y$ with a cost of 4 to 16: make one with"
            " htpasswd -nBC 12 admin, and take what follows the colon"
        )
    if enabled == "true" and not password_hash:
        log.warning("nobody can log in as admin: no password is set", set=f"{ADMIN_HASH}, or {ADMIN_ENABLED}=false")
    return AdminSettings(
        enabled=enabled == "true" and bool(password_hash),
        password_hash=Hidden(password_hash.encode()),
        signing_key=_key(environ, ADMIN_KEY, "admin tokens"),
        ttl=_duration(environ, ADMIN_TTL),
    )


def _oidc(environ: Mapping[str, str]) -> OidcSettings | None:
    issuer, client = environ.get(OIDC_ISSUER) or "", environ.get(OIDC_CLIENT) or ""
    cli_client = environ.get(OIDC_CLI_CLIENT) or ""
    if not issuer and not client and not cli_client:
        return None
    if not issuer or not client:
        missing, given = (OIDC_CLIENT, OIDC_ISSUER) if issuer else (OIDC_ISSUER, OIDC_CLIENT)
        raise ConfigurationError(f"{missing} is not set: set it, because {given} alone logs nobody in")
    _url(environ, OIDC_ISSUER, "")
    additional = environ.get(OIDC_SCOPES, "groups").replace(",", " ").split()
    return OidcSettings(
        issuer=issuer,  # compared with the tokens letter by letter, so a slash at the end stays
        client_id=client,
        cli_client_id=cli_client,
        scopes=tuple(dict.fromkeys(("openid", "profile", "email", *additional))),
        username_claim=environ.get(OIDC_USERNAME) or "email",
        ca_file=_file(environ, OIDC_CA),
    )


def _key(environ: Mapping[str, str], name: str, signs: str) -> Hidden:
    value = (environ.get(name) or "").encode()
    if not value:
        log.warning(
            "random signing key: what it signs ends with this process, and one replica only can run",
            signs=signs,
            set=name,
        )
        return Hidden.random()
    if len(value) < _SHORTEST_KEY:
        raise ConfigurationError(f"{name} has {len(value)} bytes: set it to at least {_SHORTEST_KEY} random ones")
    return Hidden(value)


def _duration(environ: Mapping[str, str], name: str) -> timedelta:
    try:
        value = parse_duration(environ.get(name) or "24h")
    except ValueError as error:
        raise ConfigurationError(f"{name}: {error}") from None
    if not timedelta(seconds=1) <= value <= timedelta(days=365):
        raise ConfigurationError(f"{name} is out of range: set it to between 1s and 8760h")
    return value


def _url(environ: Mapping[str, str], name: str, default: str) -> str:
    url = (environ.get(name) or default).rstrip("/")
    parts = urlsplit(url)
    if not origin_of(url) or parts.query or parts.fragment or not url.isprintable() or " " in url:
        raise ConfigurationError(
            f"{name} is not a URL of the form https://host or https://host/path, without user, query and fragment"
        )
    return url


def _file(environ: Mapping[str, str], name: str) -> str:
    path = environ.get(name) or ""
    if path and not Path(path).is_file():
        raise ConfigurationError(f"{name} is {path!r}: there is no such file; it holds certificates as PEM")
    return path


def _namespaces(environ: Mapping[str, str], name: str) -> tuple[str, ...]:
    parts = [part.strip() for part in (environ.get(name) or "").split(",")]
    names = tuple(dict.fromkeys(part for part in parts if part))
    wrong = next((part for part in names if _NAMESPACE.fullmatch(part) is None), None)
    if wrong is not None:
        raise ConfigurationError(f"{name}: {wrong!r} is not the name of a namespace")
    return names


def _networks(environ: Mapping[str, str], name: str) -> tuple[Network, ...]:
    parts = [part.strip() for part in (environ.get(name) or "").split(",")]
    try:
        return tuple(ipaddress.ip_network(part) for part in parts if part)
    except ValueError as error:
        raise ConfigurationError(f"{name}: {error} (a list separated by commas, like 10.0.0.0/8)") from None
