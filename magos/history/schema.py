"""The tables of history and how they come to be: numbered SQL files that are carried out once, in order.

1. Migrations only add: a program of an earlier version works on with the tables of a later one.
2. Whichever process comes first carries them out, under a lock that ends with its transaction; so it also works through
   a pooler that gives a connection for one transaction only. Others wait for it and find nothing to do.
3. One transaction carries out all that is missing: it is there completely, or not at all.
"""

from importlib.resources import files
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from magos.errors import InvariantViolation

if TYPE_CHECKING:
    from magos.history.database import Session

LOCK: Final = 0x6D61676F73
"""Key of the advisory lock: "magos" in hexadecimal."""

_LEDGER: Final = """
CREATE TABLE IF NOT EXISTS magos_migrations (
    version    bigint PRIMARY KEY,
    name       text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
)
"""

_VERSION: Final = "SELECT COALESCE(max(version), 0) FROM magos_migrations"


class Migration(Struct, frozen=True):
    """One numbered file; ``sql`` holds no statement that begins or ends a transaction."""

    version: int
    name: str
    sql: str


def load_migrations() -> tuple[Migration, ...]:
    """Return the migrations of this version, in order. Reads files."""
    found = sorted(
        (entry.name, entry.read_text("utf-8")) for entry in (files("magos.history") / "migrations").iterdir()
    )
    migrations = tuple(
        Migration(int(name.partition("_")[0]), name.removesuffix(".sql"), sql)
        for name, sql in found
        if name.endswith(".sql")
    )
    if not migrations or [each.version for each in migrations] != list(range(1, len(migrations) + 1)):
        raise InvariantViolation(f"the migrations of history are not numbered from 1: {[name for name, _ in found]}")
    return migrations


async def migrate(migrations: tuple[Migration, ...], session: "Session") -> int:
    """Carry out the migrations that are missing, in the transaction of ``session``; return the schema's version.

    It is higher than that of ``migrations`` if a later version of Magos was here before.
    """
    await session.fetchval("SELECT pg_advisory_xact_lock($1::bigint)", LOCK)
    # Another process may have been faster. That there is no ledger, the server process may still believe as it was
    # looked up before the lock; this statement makes it look again.
    await session.execute(_LEDGER)
    version = int(await session.fetchval(_VERSION))
    for each in migrations[version:]:
        await session.execute(each.sql)
        await session.execute("INSERT INTO magos_migrations (version, name) VALUES ($1, $2)", each.version, each.name)
    return max(version, len(migrations))


async def schema_version(session: "Session") -> int:
    """Return the number of the last migration that was carried out, 0 if none was."""
    if not await session.fetchval("SELECT to_regclass('magos_migrations') IS NOT NULL"):
        return 0
    return int(await session.fetchval(_VERSION))
