"""Where the workspace controller keeps records and logs, by its environment (spec §8.5).

Nothing connects here: with a database or a bucket that is wrong or down the process starts, leads and reconciles.
"""

from collections.abc import Mapping
from datetime import datetime
from functools import partial

import structlog
from msgspec import Struct

from magos.adapters.archivist.stores import Stores
from magos.history.archive import LogArchive
from magos.history.s3settings import S3Settings, load_s3_settings
from magos.history.settings import PostgresSettings, Retention, load_postgres_settings, load_retention
from magos.history.store import HistoryWriter
from magos.joblog import finished_log
from magos.reconcilers.archive.keeping import Keeping
from magos.runtime.client.client import ApiClient

_log = structlog.get_logger(__name__)


class StoreSettings(Struct, frozen=True, kw_only=True):
    """What is switched on: records if there is a database, logs if there is a bucket."""

    postgres: PostgresSettings | None
    s3: S3Settings | None
    retention: Retention

    def keeping(self, namespace: str) -> Keeping:
        """Return what the reconcilers know of it; ``namespace`` is the controllers' own."""
        return Keeping(
            records=self.postgres is not None,
            logs=self.s3 is not None,
            retention=self.retention.keep,
            give_up_after=self.retention.give_up_after,
            namespace=namespace,
        )


def load_store_settings(environ: Mapping[str, str]) -> StoreSettings:
    """Return the settings in ``environ``; raise ``ConfigurationError`` that names the variable."""
    return StoreSettings(
        postgres=load_postgres_settings(environ), s3=load_s3_settings(environ), retention=load_retention(environ)
    )


def stores_of(settings: StoreSettings, client: ApiClient) -> Stores | None:
    """Return the stores, None if nothing is kept. Their libraries are loaded only where they are switched on."""
    history: HistoryWriter | None = None
    archive: LogArchive | None = None
    if settings.postgres is not None:
        from magos.history.postgres import PostgresHistory

        history = PostgresHistory(settings.postgres)
    if settings.s3 is not None:
        from magos.history.s3 import S3Archive

        archive = S3Archive(settings.s3)
    if history is None and archive is None:
        return None
    for warning in settings.retention.warnings:
        _log.warning(warning)
    sweep = partial(_sweep, history, archive, settings.retention) if history is not None else None
    return Stores(history, archive, partial(finished_log, client), sweep)


async def _sweep(
    history: HistoryWriter,
    archive: LogArchive | None,
    retention: Retention,
    existing: frozenset[str],
    now: datetime,
) -> None:
    from magos.history.retention import sweep

    await sweep(history, archive, keep=retention.keep, ttl=retention.ttl, existing=existing, now=now)
