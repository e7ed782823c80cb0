"""The connections of one transport: a pool per lane, kept alive, and replaced as a whole when certificates rotate.

* Each lane has its own pool and in-flight cap, so that a burst of Events can never delay the renewal of a lease.
* Certificates are read again every ``RELOAD_SECONDS``; if they changed, new requests use new connections. A pool that
  was replaced serves its running requests to their end and is closed behind the last one.
* While certificates are unusable (a rotation seen half-way) the old ones stay in use.
"""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import structlog

from magos.errors import ConfigurationError
from magos.runtime.client.config import ConnectionConfig
from magos.runtime.client.credentials import Credential
from magos.runtime.client.tls import TlsMaterial, client_context
from magos.runtime.client.transport import Lane
from magos.runtime.clock import Clock

if TYPE_CHECKING:
    import aiohttp

RELOAD_SECONDS = 300.0
RETRY_RELOAD_SECONDS = 10.0

CAPS = {Lane.LEASE: 4, Lane.WATCH: 0, Lane.READ: 8, Lane.WRITE: 16, Lane.EVENTS: 1}
"""Requests in flight per lane; 0 is without limit (a watch holds its connection for minutes)."""

IDLE_SECONDS = 45.0
"""How long an unused connection is kept: shorter than any server's own limit, so that it rarely closes under us."""

_log = structlog.get_logger(__name__)

_KEEPALIVE = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 30_000))


class ConnectionPool:
    """Sessions by lane for one TLS material."""

    def __init__(self, material: TlsMaterial, user_agent: str, *, tls: bool) -> None:
        self.material = material
        self._user_agent = user_agent
        self._tls = tls
        self._context: Any = None
        self._sessions: dict[Lane, aiohttp.ClientSession] = {}
        self._in_use = 0
        self._retired = False

    async def open(self) -> None:
        """Build the TLS context in a thread; raises ``ConfigurationError`` for unusable certificates."""
        if self._tls:
            self._context = await asyncio.to_thread(client_context, self.material)

    @asynccontextmanager
    async def session(self, lane: Lane) -> AsyncIterator["aiohttp.ClientSession"]:
        """Lend the lane's session for one request."""
        if lane not in self._sessions:
            self._sessions[lane] = self._session(CAPS[lane])
        self._in_use += 1
        try:
            yield self._sessions[lane]
        finally:
            self._in_use -= 1
            if self._retired and not self._in_use:
                await self.close()

    @property
    def busy(self) -> bool:
        """Tell whether a request runs."""
        return self._in_use > 0

    async def retire(self) -> None:
        """Take no new requests; close when the running ones have ended."""
        self._retired = True
        if not self._in_use:
            await self.close()

    async def close(self) -> None:
        """Close every connection, whatever runs on it."""
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            await session.close()

    def _session(self, limit: int) -> "aiohttp.ClientSession":
        import aiohttp

        from magos.runtime.client.fencing import FencedRequest

        connector = aiohttp.TCPConnector(
            limit=limit,
            limit_per_host=limit,
            ssl=self._context if self._tls else False,
            keepalive_timeout=IDLE_SECONDS,
            socket_factory=_socket,
        )
        session = aiohttp.ClientSession(
            connector=connector,
            request_class=FencedRequest,
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": self._user_agent},
            skip_auto_headers=("Content-Type",),
            timeout=aiohttp.ClientTimeout(total=None),
        )
        # aiohttp would silently send PUT and DELETE twice over a stale connection: what is repeated is decided above.
        session._retry_connection = False  # noqa: SLF001
        return session


class Connections:
    """The pool of this moment, and those that still serve what began before a rotation."""

    def __init__(self, config: ConnectionConfig, user_agent: str, clock: Clock) -> None:
        self._config = config
        self._user_agent = user_agent
        self._clock = clock
        self._pool: ConnectionPool | None = None
        self._pool_for = b""
        self._reload_at = 0.0
        self._opening = asyncio.Lock()
        self._retiring: set[ConnectionPool] = set()

    async def aclose(self) -> None:
        """Close all connections."""
        pools = [*self._retiring, *([self._pool] if self._pool else [])]
        self._pool = None
        self._retiring.clear()
        for pool in pools:
            await pool.close()

    async def ready(self) -> tuple[ConnectionPool, str]:
        """Return connections and token for the credential of this moment."""
        credential = await self._config.credentials.current()
        async with self._opening:
            try:
                return await self._current_pool(credential), credential.token
            except ConfigurationError as error:
                if self._pool is None:
                    raise
                # A rotation seen half-way (the certificate is new, the key not yet) is no reason to stop working.
                _log.warning("cannot reload certificates, keeping the old ones", error=str(error))
                self._reload_at = self._clock.monotonic() + RETRY_RELOAD_SECONDS
                return self._pool, credential.token

    async def _current_pool(self, credential: Credential) -> ConnectionPool:
        now = self._clock.monotonic()
        if self._pool is not None and now < self._reload_at and self._pool_for == credential.certificate:
            return self._pool
        material = await asyncio.to_thread(self._config.tls.load)
        if credential.certificate:
            material = msgspec.structs.replace(material, certificate=credential.certificate, key=credential.key)
        pool = self._pool
        if pool is None or pool.material != material:
            pool = await self._replace(material)
        self._pool_for, self._reload_at = credential.certificate, now + RELOAD_SECONDS
        return pool

    async def _replace(self, material: TlsMaterial) -> ConnectionPool:
        pool = ConnectionPool(material, self._user_agent, tls=self._config.server.startswith("https://"))
        await pool.open()
        old, self._pool = self._pool, pool
        if old is not None:
            self._retiring = {each for each in self._retiring if each.busy} | {old}
            await old.retire()
        return pool


def _socket(address: Any) -> socket.socket:
    """Return a socket that notices a dead peer within half a minute: HTTP/1.1 itself has no ping."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        option = getattr(socket, name, None)  # not every platform has all of them
        if option is not None:
            made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made
