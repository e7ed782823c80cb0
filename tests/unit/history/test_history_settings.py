"""The environment of history: off without a host, and what is wrong names its variable."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magos.errors import ConfigurationError
from magos.history.settings import (
    DEFAULT_KEEP,
    PostgresSettings,
    SSLMode,
    load_history_settings,
    load_postgres_settings,
    load_retention,
)

HOST = {"MAGOS_POSTGRES_HOST": "db"}


@pytest.mark.parametrize("environ", [{}, {"MAGOS_POSTGRES_HOST": ""}, {"MAGOS_POSTGRES_PASSWORD": "x"}])
def test_without_a_host_history_is_off(environ: dict[str, str]) -> None:
    assert load_history_settings(environ) is None


def test_the_defaults_are_those_of_the_specification() -> None:
    settings = load_history_settings(HOST)
    assert settings is not None
    assert settings.postgres == PostgresSettings(host="db", port=5432, database="magos", username="magos")
    assert settings.postgres.sslmode is SSLMode.PREFER
    retention = settings.retention
    assert (retention.keep, retention.ttl, retention.give_up_after, retention.warnings) == (
        30, timedelta(hours=2160), timedelta(hours=24), (),
    )  # fmt: skip


def test_every_variable_counts_and_an_empty_one_is_unset() -> None:
    environ = {
        "MAGOS_POSTGRES_HOST": "db.example",
        "MAGOS_POSTGRES_PORT": "6432",
        "MAGOS_POSTGRES_DATABASE": "history",
        "MAGOS_POSTGRES_USERNAME": "",
        "MAGOS_POSTGRES_PASSWORD": " pass word ",
        "MAGOS_POSTGRES_SSLMODE": "verify-full",
        "MAGOS_POSTGRES_SSLROOTCERT": "/ca.pem",
    }
    assert load_postgres_settings(environ) == PostgresSettings(
        host="db.example",
        port=6432,
        database="history",
        password=" pass word ",
        sslmode=SSLMode.VERIFY_FULL,
        sslrootcert="/ca.pem",
    )
    retention = load_retention(
        {"MAGOS_LOGS_RETENTION": "7", "MAGOS_HISTORY_TTL": "1h30m", "MAGOS_ARCHIVE_GIVE_UP_AFTER": "5m"}
    )
    assert (retention.keep, retention.ttl, retention.give_up_after) == (
        7, timedelta(minutes=90), timedelta(minutes=5),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MAGOS_POSTGRES_PORT", "0"),
        ("MAGOS_POSTGRES_PORT", "65536"),
        ("MAGOS_POSTGRES_PORT", "-1"),
        ("MAGOS_POSTGRES_PORT", "٣"),
        ("MAGOS_POSTGRES_PORT", "9" * 5000),
        ("MAGOS_POSTGRES_SSLMODE", "on"),
        ("MAGOS_POSTGRES_HOST", "postgres://db/x"),
        ("MAGOS_POSTGRES_HOST", "/run/postgresql"),
        ("MAGOS_POSTGRES_HOST", "db "),
        ("MAGOS_HISTORY_TTL", "90d"),
        ("MAGOS_HISTORY_TTL", "0s"),
        ("MAGOS_ARCHIVE_GIVE_UP_AFTER", "soon"),
    ],
)
def test_what_is_wrong_names_its_variable(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{name}: "):
        load_history_settings(HOST | {name: value})


@pytest.mark.parametrize("value", ["0", "-1", "many", "1.5", " ", "٣", "9" * 5000])
def test_a_wrong_number_of_runs_counts_as_30_with_a_warning(value: str) -> None:
    retention = load_retention({"MAGOS_LOGS_RETENTION": value})
    assert retention.keep == DEFAULT_KEEP == 30
    assert len(retention.warnings) == 1
    assert retention.warnings[0].startswith("MAGOS_LOGS_RETENTION is ")


@given(st.text())
def test_any_number_of_runs_gives_one_that_the_database_understands(value: str) -> None:
    assert 0 < load_retention({"MAGOS_LOGS_RETENTION": value}).keep < 2**31


def test_no_text_of_the_settings_holds_the_password() -> None:
    settings = load_history_settings(HOST | {"MAGOS_POSTGRES_PASSWORD": "Sup3r,secret"})
    assert settings is not None
    assert settings.postgres.password == "Sup3r,secret"
    assert "Sup3r" not in f"{settings!r} {settings} {settings.postgres!r} {settings.postgres}"
