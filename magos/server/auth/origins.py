"""Where browsers and people come from: the origin of the server's own pages, and return paths that stay on them."""

import ipaddress
from urllib.parse import SplitResult, urlsplit

HOME = "/"
_LONGEST = 2048
_PORTS = {"http": 80, "https": 443}


def origin_of(url: str) -> str:
    """Return ``scheme://host:port`` of a URL in one spelling, empty if it has none."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return ""
    scheme = parts.scheme.lower()
    if scheme not in _PORTS or not parts.hostname or parts.username is not None or parts.password is not None:
        return ""
    return f"{scheme}://{parts.hostname}:{_PORTS[scheme] if port is None else port}"


def is_loopback(parts: SplitResult) -> bool:
    """Tell whether a URL leads to this machine."""
    host = parts.hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_loopback_http(url: str) -> bool:
    """Tell whether the URL is plain HTTP to this machine, with a port or without, and without user and fragment."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return False
    plain = parts.username is None and parts.password is None and not parts.fragment
    return parts.scheme == "http" and plain and is_loopback(parts)


def return_path(text: str) -> str:
    """Return ``text`` if it is a path on this server, else the first page.

    Printable ASCII that begins with one slash. Browsers read a backslash as a slash and drop control characters, and
    two slashes begin the name of a host. The pages of the login itself would lead in a circle.
    """
    if not text.startswith("/") or text.startswith("//") or len(text) > _LONGEST:
        return HOME
    if any(not "!" <= char <= "~" for char in text) or "\\" in text:
        return HOME
    path = urlsplit(text).path
    if path.startswith("//") or path.rstrip("/") in ("/login", "/logout"):
        return HOME
    return text
