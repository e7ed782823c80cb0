"""The API server's own part of the reference: its environment, its flags and its OpenAPI document."""

import json
from collections.abc import Mapping

from msgspec import Struct

from magos.apps import server
from magos.errors import InvariantViolation
from magos.reference.asked import Asked
from magos.reference.flags import Flag, Listing, flags_of
from magos.server.app import api_operations
from magos.server.openapi import document
from magos.server.settings import ServerSettings, load_server_settings
from magos.version import VERSION

_DEFAULTS = ServerSettings()
_MEANINGS: Mapping[str, tuple[str, str]] = {
    "MAGOS_BASE_URL": (
        "Scheme, host and path under which people reach the server, like `https://magos.example.com`.",
        "`http://localhost:<PORT>`",
    ),
    "MAGOS_CORS_ORIGINS": (
        "Origins whose pages may call the API with a bearer token, like `https://portal.example.com`; never `*`.",
        "",
    ),
    "PORT": ("Port to listen on.", str(_DEFAULTS.port)),
}


class ServerVariable(Struct, frozen=True, kw_only=True):
    """A variable that the API server reads."""

    name: str
    default: str
    meaning: str


def server_variables() -> tuple[ServerVariable, ...]:
    """Return what the API server reads from the environment, besides what the client needs."""
    asked = Asked({})
    load_server_settings(asked)
    if unknown := sorted(asked.names - _MEANINGS.keys()):
        raise InvariantViolation(f"say in magos/reference/server.py what {', '.join(unknown)} means")
    return tuple(
        ServerVariable(name=name, default=_MEANINGS[name][1], meaning=_MEANINGS[name][0])
        for name in sorted(asked.names)
    )


def server_flags() -> tuple[Flag, ...]:
    """Return the flags of the API server."""
    parser = Listing()
    server.add_flags(parser)
    return flags_of(parser)


def openapi_text() -> str:
    """Return the OpenAPI document as it is checked in."""
    made = document(api_operations(lambda: "", VERSION), VERSION)
    return json.dumps(made, indent=2, default=dict) + "\n"
