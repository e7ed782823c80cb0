"""The API server's own part of the reference: its environment, its flags and its OpenAPI document."""

import json
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager

from msgspec import Struct

from magos.apps import server
from magos.apps.serverparts import join
from magos.errors import InvariantViolation
from magos.reference.asked import Asked
from magos.reference.flags import Flag, Listing, flags_of
from magos.reference.stores import MEANINGS as STORES
from magos.reference.stores import store_variables
from magos.runtime.client.client import ApiClient
from magos.runtime.client.transport import HttpRequest, HttpResponse, HttpStream, TransportError
from magos.runtime.clock import SystemClock
from magos.server.app import api_operations
from magos.server.auth.settings import load_auth_settings
from magos.server.openapi import document
from magos.server.settings import ServerSettings, load_server_settings
from magos.version import VERSION

_DEFAULTS = ServerSettings()
_MEANINGS: Mapping[str, tuple[str, str]] = {
    **STORES,
    "ADMIN_ACCOUNT_ENABLED": ("`false` switches the admin account off: all its tokens and sessions end.", "true"),
    "ADMIN_ACCOUNT_PASSWORD_HASH": ("bcrypt hash of the admin's password (`magos hash-password`).", ""),
    "ADMIN_ACCOUNT_TOKEN_SIGNING_KEY": (
        "Key of the admin's tokens, at least 32 bytes. Another key ends them all.",
        "random",
    ),
    "ADMIN_ACCOUNT_TOKEN_TTL": ("Lifetime of the admin's tokens.", "24h"),
    "MAGOS_BASE_URL": (
        "Scheme, host and path under which people reach the server, like `https://magos.example.com`.",
        "`http://localhost:<PORT>`",
    ),
    "MAGOS_DEX_CA_FILE": ("Path of the certificates to trust of Dex.", "the system's"),
    "MAGOS_DEX_URL": ("URL at which Dex answers inside of the cluster; `<base URL>/dex` is passed on to it.", ""),
    "MAGOS_GLOBAL_SERVICE_ACCOUNT_NAMESPACES": (
        "Namespaces whose ServiceAccounts are mapped to claims for every request.",
        "",
    ),
    "MAGOS_SESSION_SIGNING_KEY": (
        "Key of the sessions of browsers, at least 32 bytes. Another key ends them all.",
        "random",
    ),
    "MAGOS_SESSION_TTL": ("Lifetime of a session.", "24h"),
    "MAGOS_TRUSTED_PROXIES": ("Networks of the proxies whose `X-Forwarded-For` is believed, like `10.0.0.0/8`.", ""),
    "OIDC_ADDITIONAL_SCOPES": ("Scopes besides `openid profile email`.", "groups"),
    "OIDC_CA_FILE": ("Path of the certificates to trust of the identity provider.", "the system's"),
    "OIDC_CLIENT_ID": ("ID of the web UI at the identity provider. Needed with an issuer.", ""),
    "OIDC_CLI_CLIENT_ID": ("ID of the command line at the identity provider.", ""),
    "OIDC_ISSUER_URL": ("URL of the identity provider. Without it there is no login by OIDC.", ""),
    "OIDC_USERNAME_CLAIM": ("Claim that people are called by.", "email"),
    "POD_NAMESPACE": (
        "Namespace of the release, whose ServiceAccounts are mapped to claims. Set by the manifests.",
        "",
    ),
    "MAGOS_CORS_ORIGINS": (
        "Origins whose pages may call the API with a bearer token, like `https://portal.example.com`; never `*`.",
        "",
    ),
    "PORT": ("Port to listen on.", str(_DEFAULTS.port)),
}


_KNOWN = {
    "ADMIN_ACCOUNT_ENABLED": "false",
    "ADMIN_ACCOUNT_TOKEN_SIGNING_KEY": "a key of at least thirty-two bytes",
    "MAGOS_SESSION_SIGNING_KEY": "a key of at least thirty-two bytes",
    "MAGOS_BASE_URL": "https://magos.example.com",
    "OIDC_ISSUER_URL": "https://issuer.example.com",
    "OIDC_CLIENT_ID": "magos",
    "MAGOS_DEX_URL": "https://dex.example.com",
}
"""With these, everything is asked for."""


class ServerVariable(Struct, frozen=True, kw_only=True):
    """A variable that the API server reads."""

    name: str
    default: str
    meaning: str


def server_variables() -> tuple[ServerVariable, ...]:
    """Return what the API server reads from the environment, besides what the client needs."""
    asked = Asked(_KNOWN)
    load_server_settings(asked)
    load_auth_settings(asked)
    names = asked.names | store_variables()
    if unknown := sorted(names - _MEANINGS.keys()):
        raise InvariantViolation(f"say in magos/reference/server.py what {', '.join(unknown)} means")
    return tuple(
        ServerVariable(name=name, default=_MEANINGS[name][1], meaning=_MEANINGS[name][0]) for name in sorted(names)
    )


def server_flags() -> tuple[Flag, ...]:
    """Return the flags of the API server."""
    parser = Listing()
    server.add_flags(parser)
    return flags_of(parser)


class _Nowhere:
    """A transport that is never used: the document tells of the server as it is joined, which asks nobody."""

    async def request(self, request: HttpRequest) -> HttpResponse:
        raise TransportError(f"nobody asks for {request.path}", sent=False)

    def stream(self, request: HttpRequest) -> AbstractAsyncContextManager[HttpStream]:
        raise TransportError(f"nobody watches {request.path}", sent=False)

    async def aclose(self) -> None:
        """There is nothing to close."""


def openapi_text() -> str:
    """Return the OpenAPI document as it is checked in."""
    parts = join(_KNOWN, ServerSettings(), ApiClient(_Nowhere()), SystemClock())
    made = document(api_operations(lambda: "", VERSION, parts.operations), VERSION)
    return json.dumps(made, indent=2, default=dict) + "\n"
