"""HTTP clients of one operation, with the proxies of the environment as every HTTP client takes them.

The module imports the HTTP library and is itself imported lazily.
"""

import re
import ssl
from urllib.parse import unquote
from urllib.request import getproxies, proxy_bypass

import urllib3
from urllib3.exceptions import HTTPError
from urllib3.util import make_headers, parse_url

from magos.outbound.guard import Guard
from magos.outbound.pools import pools_with

_CONNECTION = re.compile(r"^(?:<[^>]*>|\w+\(host=.*?, port=\w+\)): ")
"""How the HTTP library names the connection in front of what went wrong."""


class Managers:
    """The clients by proxy; ``close`` ends their connections."""

    def __init__(self, guard: Guard, context: ssl.SSLContext) -> None:
        self._guard = guard
        self._context = context
        self._proxies = getproxies()
        self._managers: dict[str | None, urllib3.PoolManager] = {}

    def for_url(self, url: str) -> urllib3.PoolManager:
        """Return the client for ``url``."""
        parsed = parse_url(url)
        proxy = None if proxy_bypass(parsed.host or "") else self._proxies.get(parsed.scheme or "")
        if proxy not in self._managers:
            manager = self._through(proxy) if proxy else urllib3.PoolManager(ssl_context=self._context)
            manager.pool_classes_by_scheme = pools_with(self._guard)
            self._managers[proxy] = manager
        return self._managers[proxy]

    def close(self) -> None:
        """Close all connections that are not in use."""
        for manager in self._managers.values():
            manager.clear()

    def _through(self, proxy: str) -> urllib3.PoolManager:
        login = parse_url(proxy).auth
        headers = make_headers(proxy_basic_auth=unquote(login)) if login else None
        return urllib3.ProxyManager(proxy, proxy_headers=headers, ssl_context=self._context)


def cause_of(error: HTTPError) -> str:
    """Return what went wrong, for a message."""
    return _CONNECTION.sub("", str(getattr(error, "reason", None) or error))
