"""Settings of history (spec §8.5): where the database is, and how long runs are kept.

An empty variable counts as unset, because that is how a manifest leaves one out.
"""

from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Final

from msgspec import Struct

from magos.durations import parse_duration
from magos.errors import ConfigurationError

DEFAULT_KEEP: Final = 30
DEFAULT_TTL: Final = "2160h"
DEFAULT_GIVE_UP_AFTER: Final = "24h"
_MOST_KEPT: Final = 2**31 - 1
"""More runs than any Workspace will ever have, and a number that the database can compare with."""


class SSLMode(StrEnum):
    """How a connection is protected, as libpq names it."""

    DISABLE = "disable"
    ALLOW = "allow"
    PREFER = "prefer"
    REQUIRE = "require"
    VERIFY_CA = "verify-ca"
    VERIFY_FULL = "verify-full"


class PostgresSettings(Struct, frozen=True, kw_only=True):
    """Where the database is. ``sslrootcert`` is the path of a file with certificates; "" means those of the system."""

    host: str
    port: int = 5432
    database: str = "magos"
    username: str = "magos"
    password: str = ""
    sslmode: SSLMode = SSLMode.PREFER
    sslrootcert: str = ""

    def __repr__(self) -> str:
        """Return where the database is; the password is never shown."""
        return f"PostgresSettings({self.username}@{self.host}:{self.port}/{self.database}, sslmode={self.sslmode})"

    __str__ = __repr__


class Retention(Struct, frozen=True, kw_only=True):
    """What is kept, in the database and in the bucket.

    ``keep`` finished runs of each Workspace; all of a deleted Workspace for ``ttl``. After ``give_up_after`` a log that
    could not be stored is given up. ``warnings`` are for the log of the process.
    """

    keep: int = DEFAULT_KEEP
    ttl: timedelta = timedelta(hours=2160)
    give_up_after: timedelta = timedelta(hours=24)
    warnings: tuple[str, ...] = ()


class HistorySettings(Struct, frozen=True, kw_only=True):
    """The settings of a process that uses history."""

    postgres: PostgresSettings
    retention: Retention


def load_history_settings(environ: Mapping[str, str]) -> HistorySettings | None:
    """Return the settings in ``environ``, None if history is off: ``MAGOS_POSTGRES_HOST`` is not set.

    Raises ``ConfigurationError`` that names the variable.
    """
    postgres = load_postgres_settings(environ)
    retention = load_retention(environ)
    return None if postgres is None else HistorySettings(postgres=postgres, retention=retention)


def load_postgres_settings(environ: Mapping[str, str]) -> PostgresSettings | None:
    """Return where the database is, None if there is none. Raises ``ConfigurationError`` that names the variable."""
    port, mode = _port(environ), _sslmode(environ)
    defaults = PostgresSettings(host="")
    settings = PostgresSettings(
        host=environ.get("MAGOS_POSTGRES_HOST") or "",
        port=port,
        database=environ.get("MAGOS_POSTGRES_DATABASE") or defaults.database,
        username=environ.get("MAGOS_POSTGRES_USERNAME") or defaults.username,
        password=environ.get("MAGOS_POSTGRES_PASSWORD") or "",
        sslmode=mode,
        sslrootcert=environ.get("MAGOS_POSTGRES_SSLROOTCERT") or "",
    )
    if settings.host != settings.host.strip() or "/" in settings.host:
        raise ConfigurationError(
            f"MAGOS_POSTGRES_HOST: {settings.host!r} is not the name or address of a host; give neither URL nor path"
        )
    return settings if settings.host else None


def load_retention(environ: Mapping[str, str]) -> Retention:
    """Return what is kept. Raises ``ConfigurationError`` that names the variable; a wrong number of runs only warns."""
    keep, warnings = _keep(environ.get("MAGOS_LOGS_RETENTION") or str(DEFAULT_KEEP))
    return Retention(
        keep=keep,
        ttl=_duration(environ, "MAGOS_HISTORY_TTL", DEFAULT_TTL),
        give_up_after=_duration(environ, "MAGOS_ARCHIVE_GIVE_UP_AFTER", DEFAULT_GIVE_UP_AFTER),
        warnings=warnings,
    )


def _keep(text: str) -> tuple[int, tuple[str, ...]]:
    if text.isascii() and text.isdecimal() and len(text) <= 20 and int(text) > 0:
        return min(int(text), _MOST_KEPT), ()
    warning = (
        f"MAGOS_LOGS_RETENTION is {text!r}, which is no number of runs above 0;"
        f" {DEFAULT_KEEP} finished runs of each Workspace are kept"
    )
    return DEFAULT_KEEP, (warning,)


def _duration(environ: Mapping[str, str], name: str, default: str) -> timedelta:
    try:
        return parse_duration(environ.get(name) or default)
    except ValueError as error:
        raise ConfigurationError(f"{name}: {error}") from None


def _port(environ: Mapping[str, str]) -> int:
    text = environ.get("MAGOS_POSTGRES_PORT") or "5432"
    if not (text.isascii() and text.isdecimal() and len(text) <= 5 and 0 < int(text) < 65536):
        raise ConfigurationError(f"MAGOS_POSTGRES_PORT: {text!r} is not a port from 1 to 65535")
    return int(text)


def _sslmode(environ: Mapping[str, str]) -> SSLMode:
    text = environ.get("MAGOS_POSTGRES_SSLMODE") or SSLMode.PREFER
    try:
        return SSLMode(text)
    except ValueError:
        raise ConfigurationError(f"MAGOS_POSTGRES_SSLMODE: {text!r} is none of {', '.join(SSLMode)}") from None
