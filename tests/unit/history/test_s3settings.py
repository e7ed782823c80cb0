"""The settings of the bucket: each wrong one is named, and none of them tells a key."""

import pytest

from magos.errors import ConfigurationError
from magos.history.s3settings import S3Settings, load_s3_settings

ON = {"MAGOS_LOGS_ENABLED": "true", "MAGOS_LOGS_S3_ENDPOINT": "http://s3.example:9000"}
KEYS = {"MAGOS_LOGS_S3_ACCESS_KEY_ID": "the-id", "MAGOS_LOGS_S3_SECRET_ACCESS_KEY": "the-secret"}


@pytest.mark.parametrize("enabled", [{}, {"MAGOS_LOGS_ENABLED": ""}, {"MAGOS_LOGS_ENABLED": "false"}])
def test_logs_are_not_stored_unless_it_is_asked_for(enabled: dict[str, str]) -> None:
    assert load_s3_settings({**enabled, "MAGOS_LOGS_S3_ENDPOINT": "not a URL"}) is None


def test_defaults_are_those_of_the_specification() -> None:
    assert load_s3_settings({**ON, "MAGOS_LOGS_S3_BUCKET": "", "MAGOS_LOGS_S3_REGION": ""}) == S3Settings(
        endpoint="http://s3.example:9000", bucket="magos-run-logs", region="us-east-1", path_style=True
    )


def test_everything_can_be_set() -> None:
    more = {
        "MAGOS_LOGS_S3_ENDPOINT": "https://s3.example/",
        "MAGOS_LOGS_S3_BUCKET": "team-logs",
        "MAGOS_LOGS_S3_REGION": "eu-central-1",
        "MAGOS_LOGS_S3_CA_FILE": "/etc/ca.pem",
        "MAGOS_LOGS_S3_PATH_STYLE": "false",
    }
    assert load_s3_settings({**ON, **KEYS, **more}) == S3Settings(
        endpoint="https://s3.example",
        bucket="team-logs",
        region="eu-central-1",
        access_key="the-id",
        secret_key="the-secret",
        ca_file="/etc/ca.pem",
        path_style=False,
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MAGOS_LOGS_ENABLED", "yes"),
        ("MAGOS_LOGS_S3_ENDPOINT", ""),
        ("MAGOS_LOGS_S3_ENDPOINT", "s3.example"),
        ("MAGOS_LOGS_S3_ENDPOINT", "ftp://s3.example"),
        ("MAGOS_LOGS_S3_ENDPOINT", "http://[::1"),
        ("MAGOS_LOGS_S3_ENDPOINT", "http://s3.example:port"),
        ("MAGOS_LOGS_S3_ENDPOINT", "http://the-id:the-secret@s3.example"),
        ("MAGOS_LOGS_S3_ENDPOINT", "http://s3.example "),
        ("MAGOS_LOGS_S3_ACCESS_KEY_ID", ""),
        ("MAGOS_LOGS_S3_SECRET_ACCESS_KEY", ""),
        ("MAGOS_LOGS_S3_SECRET_ACCESS_KEY", "the-secret\n"),
        ("MAGOS_LOGS_S3_BUCKET", "Logs"),
        ("MAGOS_LOGS_S3_BUCKET", "a/b"),
        ("MAGOS_LOGS_S3_PATH_STYLE", "1"),
    ],
)
def test_a_wrong_variable_is_named_and_no_key_is_told(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=name) as caught:
        load_s3_settings({**ON, **KEYS, name: value})
    assert "the-secret" not in str(caught.value)
    assert "the-id" not in str(caught.value)


def test_settings_in_a_log_or_a_traceback_tell_no_key() -> None:
    settings = load_s3_settings({**ON, **KEYS})
    assert "the-" not in f"{settings!r} {settings}"
