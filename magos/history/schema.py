"""The tables of history and how they come to be: numbered SQL files that are carried out once, in order.

1. Migrations only add: a program of an earlier version works on with the tables of a later one.
2. Whichever process comes first carries them out, under a lock that ends with its transaction; so it also works through
   a pooler that gives a connection for one transaction only. Others wait for it and find nothing to do.
3. One transaction carries out all that is missing: it is there completely, or not at all.
"""

from importlib.resources import files
from typing import Any, Final

from msgspec import Struct

from magos.errors import InvariantViolation

LOCK: Final = 0x6D61676F73
"""Key of the advisory lock: "magos" in hexadecimal."""

_LEDGER: Final = """
CREATE TABLE IF NOT EXISTS magos_migrations (
    version    bigint PRIMARY KEY,
    name       text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
)
"""


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


async def migrate(connection: Any, migrations: tuple[Migration, ...]) -> int:
    """Carry out the migrations that are missing, in the transaction of ``connection``; return the schema's version.

    It is higher than that of ``migrations`` if a later version of Magos was here before.
    """
    version = await _version(connection)
    if version >= len(migrations):
        return version
    await connection.fetchval("SELECT pg_advisory_xact_lock($1::bigint)", LOCK)
    version = await _version(connection)  # another process may have been faster
    await connection.execute(_LEDGER)
    for each in migrations[version:]:
        await connection.execute(each.sql)
        await connection.execute(
            "INSERT INTO magos_migrations (version, name) VALUES ($1, $2)", each.version, each.name
        )
    return max(version, len(migrations))


async def _version(connection: Any) -> int:
    if not await connection.fetchval("SELECT to_regclass('magos_migrations') IS NOT NULL"):
        return 0
    return int(await connection.fetchval("SELECT COALESCE(max(version), 0) FROM magos_migrations"))
