"""What is said of a database that does not answer."""

import pytest

from magos.history.database import Database
from magos.history.postgres import PostgresHistory
from magos.history.settings import PostgresSettings
from magos.history.store import HistoryReader, HistoryWriter

SETTINGS = PostgresSettings(host="db", database="runs", password="Sup3r,secret")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (TimeoutError(), "no answer within 7 s"),
        (ConnectionResetError("peer\nhung   up"), "peer hung up"),
        (OSError(), "OSError"),
        (OSError("login with Sup3r,secret failed"), "login with *** failed"),
    ],
)
def test_it_names_host_database_cause_and_next_step_and_never_the_password(error: OSError, said: str) -> None:
    assert str(Database(SETTINGS, timeout=7)._unavailable(error)) == (
        f"PostgreSQL at db:5432, database runs: {said}; check the server and the settings MAGOS_POSTGRES_*"
    )


def test_a_history_reads_and_writes_and_connects_to_nothing_before_it_is_used() -> None:
    reader: HistoryReader = PostgresHistory(SETTINGS)
    writer: HistoryWriter = PostgresHistory(SETTINGS)
    for each in (reader, writer):
        assert isinstance(each, PostgresHistory)
        assert each._database._pool is None
