"""Transactions in PostgreSQL, with connections that may break at any time.

What this module promises:

1. Each call is one transaction: nothing of a connection's state outlives it. So a pooler in transaction mode may stand
   between (no named prepared statement, no session setting, no session lock).
2. Each call ends in bounded time, also where the server hangs; what it began there ends by itself.
3. A connection on which anything failed is not used again. If it was the connection's fault (closed by the server,
   fallen back to a read-only replica, tables gone), the call is made once more on a new one.
4. Whatever fails is a ``HistoryUnavailable`` that names host, database and cause, and never the password.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar

import anyio
import asyncpg
import structlog

from magos.history.schema import Migration, load_migrations, migrate, schema_version
from magos.history.settings import PostgresSettings, SSLMode
from magos.history.store import HistoryUnavailable

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

    Session: TypeAlias = PoolConnectionProxy[asyncpg.Record]

_T = TypeVar("_T")

_CONNECTIONS: Final = 4
_IDLE_SECONDS: Final = 60.0
_MIGRATION_SECONDS: Final = 60.0
"""Building an index over years of runs takes longer than any other call may."""

_CLOSE_SECONDS: Final = 5.0

_BROKEN = (
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # what the client says of a server that hung up between two calls
    ConnectionError,
)
"""The same call may succeed on another connection."""

_TABLES_GONE = (asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError)
"""The database was replaced or restored since the tables were looked at."""

_FAILED = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, UnicodeError, EOFError)
"""Everything that speaking with a server may end in; ``OSError`` includes TLS and name resolution."""

_log = structlog.get_logger("magos.history")


class Database:
    """Connections to one database, made when they are needed. Every call takes ``timeout`` seconds at most.

    The first call of a process brings the tables up to date, for which it may take a minute more.
    """

    def __init__(self, settings: PostgresSettings, *, timeout: float = 10.0) -> None:
        self._settings = settings
        self._timeout = timeout
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None
        self._migrations: tuple[Migration, ...] = ()
        self._ready = False
        self._one_at_a_time = asyncio.Lock()

    async def write(self, work: "Callable[[Session], Awaitable[_T]]") -> _T:
        """Carry out ``work`` in one transaction. It may be carried out twice: it must be idempotent."""
        return await self._call(work, "BEGIN")

    async def read(self, work: "Callable[[Session], Awaitable[_T]]") -> _T:
        """Carry out ``work``, which only reads and sees one state of the database."""
        return await self._call(work, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    async def aclose(self) -> None:
        """Close all connections; what is under way is cut off after a few seconds."""
        pool, self._pool = self._pool, None
        if pool is None:
            return
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await pool.close()
        except (TimeoutError, *_FAILED):
            pool.terminate()

    async def _call(self, work: "Callable[[Session], Awaitable[_T]]", begin: str) -> _T:
        begun = anyio.current_time()
        try:
            return await self._once(work, begin, self._timeout)
        except _TABLES_GONE:
            self._ready = False
        except _BROKEN as error:
            _log.info("a connection to the run history was replaced", cause=self._cause(error))
            if self._pool is not None:
                # Its neighbours have led to the same server.
                await self._pool.expire_connections()
        except (TimeoutError, *_FAILED) as error:
            raise self._unavailable(error) from error
        try:
            return await self._once(work, begin, begun + self._timeout - anyio.current_time())
        except (TimeoutError, *_FAILED) as error:
            raise self._unavailable(error) from error

    async def _once(self, work: "Callable[[Session], Awaitable[_T]]", begin: str, seconds: float) -> _T:
        if not self._ready:
            # Whoever waits here waits no longer than for an answer: else calls to a dead server would queue up.
            async with asyncio.timeout(self._timeout):
                await self._one_at_a_time.acquire()
            try:
                if not self._ready:
                    await self._bring_up_to_date()
            finally:
                self._one_at_a_time.release()
        return await self._transaction(work, begin, seconds)

    async def _bring_up_to_date(self) -> None:
        if not self._migrations:
            self._migrations = await asyncio.to_thread(load_migrations)
        version = await self._transaction(schema_version, "BEGIN", self._timeout)
        if version < len(self._migrations):
            version = await self._transaction(partial(migrate, self._migrations), "BEGIN", _MIGRATION_SECONDS)
        if version > len(self._migrations):
            _log.warning(
                "the run history has tables of a later version of Magos; they are used as far as they are known",
                version=version,
                known=len(self._migrations),
            )
        self._ready = True

    async def _transaction(self, work: "Callable[[Session], Awaitable[_T]]", begin: str, seconds: float) -> _T:
        limit = max(1, int(seconds * 1000))  # 0 would be no limit
        # The server gives up as well: nothing that nobody waits for keeps running or holds a lock.
        preamble = (
            f"{begin}; SET LOCAL statement_timeout = {limit}; SET LOCAL lock_timeout = {limit};"
            f" SET LOCAL idle_in_transaction_session_timeout = {limit}"
        )
        async with asyncio.timeout(seconds):
            pool = await self._connected()
            session = await pool.acquire()
            try:
                await session.execute(preamble)
                done = await work(session)
                await session.execute("COMMIT")
            except BaseException:
                session.terminate()
                raise
            finally:
                await pool.release(session)
        return done

    async def _connected(self) -> "asyncpg.Pool[asyncpg.Record]":
        if self._pool is None:
            # With no connection to make at once, this does not wait.
            self._pool = await asyncpg.create_pool(
                min_size=0,
                max_size=_CONNECTIONS,
                max_inactive_connection_lifetime=_IDLE_SECONDS,
                connect=self._connect,
                reset=_nothing_to_reset,
            )
        return self._pool

    async def _connect(self, *_: Any, **words: Any) -> "asyncpg.Connection[asyncpg.Record]":
        to = self._settings
        return await asyncpg.connect(
            host=to.host,
            port=to.port,
            user=to.username,
            password=to.password,
            database=to.database,
            ssl=await asyncio.to_thread(_protection, to),
            timeout=self._timeout,
            statement_cache_size=0,
            server_settings={"application_name": "magos"},
            **words,
        )

    def _unavailable(self, error: BaseException) -> HistoryUnavailable:
        to = self._settings
        return HistoryUnavailable(
            f"PostgreSQL at {to.host}:{to.port}, database {to.database}: {self._cause(error)};"
            " check the server and the settings MAGOS_POSTGRES_*"
        )

    def _cause(self, error: BaseException) -> str:
        if isinstance(error, TimeoutError) and not error.args:
            return f"no answer within {self._timeout:g} s"
        said = " ".join(str(error).split()) or type(error).__name__
        # No error is known to hold it. It is cut out all the same, because what stands here is shown to people.
        return said.replace(self._settings.password, "***") if self._settings.password else said


async def _nothing_to_reset(_: object) -> None:
    """What a transaction set has ended with it; resetting a session through a pooler would reach another one."""


def _protection(settings: PostgresSettings) -> "ssl.SSLContext | bool | Literal['allow', 'prefer']":
    """Return how to protect a connection. The certificates are read each time: they may have been renewed."""
    mode = settings.sslmode
    if mode is SSLMode.DISABLE:
        return False
    if mode is SSLMode.ALLOW:
        return "allow"
    if mode is SSLMode.PREFER:
        return "prefer"
    if mode is SSLMode.REQUIRE and not settings.sslrootcert:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    try:
        context = ssl.create_default_context(cafile=settings.sslrootcert or None)
    except OSError as error:
        raise OSError(f"MAGOS_POSTGRES_SSLROOTCERT: {settings.sslrootcert} cannot be used: {error}") from error
    # As in libpq: with a root certificate, "require" verifies the server's certificate, but not its name.
    context.check_hostname = mode is SSLMode.VERIFY_FULL
    return context
