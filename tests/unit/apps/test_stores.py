"""Which stores the environment of the workspace controller switches on; composing them connects to nothing."""

import random
from datetime import timedelta

import pytest

from magos.adapters.archivist.stores import Stores
from magos.apps.stores import StoreSettings, load_store_settings, stores_of
from magos.errors import ConfigurationError
from magos.reconcilers.archive.keeping import Keeping
from tests.sim.apiserver import SimApiServer
from tests.sim.virtualtime import VirtualClock, run_virtual

DATABASE = {"MAGOS_POSTGRES_HOST": "nowhere.invalid"}
BUCKET = {"MAGOS_LOGS_ENABLED": "true", "MAGOS_LOGS_S3_ENDPOINT": "http://nowhere.invalid"}


def composed(settings: StoreSettings) -> Stores | None:
    async def main() -> Stores | None:
        return stores_of(settings, SimApiServer(VirtualClock(), random.Random(1)).client("workspace"))

    return run_virtual(main, seed=1)


def test_nothing_is_kept_by_default() -> None:
    settings = load_store_settings({})
    assert not settings.keeping("magos-system").on
    assert composed(settings) is None


@pytest.mark.parametrize(
    ("environ", "records", "logs"),
    [(DATABASE, True, False), (BUCKET, False, True), ({**DATABASE, **BUCKET}, True, True)],
)
def test_what_is_set_is_kept_whether_or_not_it_is_there(environ: dict[str, str], records: bool, logs: bool) -> None:
    settings = load_store_settings({**environ, "MAGOS_ARCHIVE_GIVE_UP_AFTER": "2h", "MAGOS_LOGS_RETENTION": "7"})
    expected = Keeping(
        records=records, logs=logs, retention=7, give_up_after=timedelta(hours=2), namespace="magos-system"
    )
    assert settings.keeping("magos-system") == expected
    stores = composed(settings)
    assert stores is not None
    assert (stores.history is not None, stores.archive is not None) == (records, logs)
    assert (stores.sweep is not None) == records


def test_what_is_wrong_is_told_at_the_start() -> None:
    with pytest.raises(ConfigurationError, match="MAGOS_LOGS_S3_ENDPOINT"):
        load_store_settings({"MAGOS_LOGS_ENABLED": "true"})
