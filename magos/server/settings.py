"""The settings of the API server's process, but for those of login (spec §9.5).

An empty variable counts as unset. Whatever is wrong is one line that names the variable.
"""

from collections.abc import Mapping
from urllib.parse import urlsplit

from msgspec import Struct

from magos.errors import ConfigurationError

PORT = "PORT"
BASE_URL = "MAGOS_BASE_URL"
CORS_ORIGINS = "MAGOS_CORS_ORIGINS"

USUAL_PORT = 8080


class ServerSettings(Struct, frozen=True, kw_only=True):
    """What the process can be set to."""

    port: int = USUAL_PORT
    base_url: str = f"http://localhost:{USUAL_PORT}"
    """Scheme, host and path that users see, without a slash at the end."""

    cors_origins: tuple[str, ...] = ()
    """Origins whose pages may call the API, none by default."""


def load_server_settings(environ: Mapping[str, str]) -> ServerSettings:
    """Return the settings in ``environ``; raise ``ConfigurationError`` that names the variable."""
    port = _port(environ.get(PORT) or str(USUAL_PORT))
    base_url = environ.get(BASE_URL) or f"http://localhost:{port}"
    return ServerSettings(
        port=port,
        base_url=_base_url(base_url),
        cors_origins=tuple(_origin(part.strip()) for part in environ.get(CORS_ORIGINS, "").split(",") if part.strip()),
    )


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text[:6]) < 65536):
        raise ConfigurationError(f"{PORT}: {text!r} is not a port from 1 to 65535")
    return int(text)


def _base_url(text: str) -> str:
    url = _parsed(text)
    if url is None or url[2:] != ("", "") or any(character in text for character in ' "\\'):
        raise ConfigurationError(f"{BASE_URL}: {text!r} is not a URL such as https://magos.example.com")
    return text.rstrip("/")


def _origin(text: str) -> str:
    if text == "*":
        raise ConfigurationError(f"{CORS_ORIGINS}: '*' would let every page in the web call the API: list the origins")
    url = _parsed(text)
    if url is None or url[1:] != ("", "", "") or text != text.lower():
        raise ConfigurationError(f"{CORS_ORIGINS}: {text!r} is not an origin such as https://portal.example.com")
    return text


def _parsed(text: str) -> tuple[str, str, str, str] | None:
    """Return origin, path, query and fragment of an http URL without a user; None if it is none."""
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:
        return None
    if url.scheme not in ("http", "https") or not url.hostname or "@" in url.netloc or port == 0:
        return None
    return f"{url.scheme}://{url.netloc}", url.path, url.query, url.fragment
