"""The variables of the run history and of the log archive, which two processes read (specification §8.5)."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from magos.durations import format_duration
from magos.history.s3settings import DEFAULT_BUCKET, DEFAULT_REGION, load_s3_settings
from magos.history.settings import PostgresSettings, Retention, load_history_settings
from magos.reference.asked import Asked

_DATABASE = PostgresSettings(host="")
_RETENTION = Retention()

MEANINGS: Mapping[str, tuple[str, str]] = {
    "MAGOS_ARCHIVE_GIVE_UP_AFTER": (
        "After this time a Job waits no longer until its record and its log are stored.",
        format_duration(_RETENTION.give_up_after),
    ),
    "MAGOS_HISTORY_TTL": ("Time for which the history of a deleted Workspace stays.", format_duration(_RETENTION.ttl)),
    "MAGOS_LOGS_ENABLED": ("`true` stores the logs of runs in a bucket.", "false"),
    "MAGOS_LOGS_RETENTION": ("Finished runs of a Workspace that are kept.", str(_RETENTION.keep)),
    "MAGOS_LOGS_S3_ACCESS_KEY_ID": ("Key of the bucket. Without both keys: the cloud identity of the pod.", ""),
    "MAGOS_LOGS_S3_BUCKET": ("Name of the bucket. It is created if it is missing.", DEFAULT_BUCKET),
    "MAGOS_LOGS_S3_CA_FILE": ("Path of the certificates to trust.", "the system's"),
    "MAGOS_LOGS_S3_ENDPOINT": ("URL of the S3-compatible server. Needed if logs are stored.", ""),
    "MAGOS_LOGS_S3_PATH_STYLE": ("`false` puts the bucket into the name of the host.", "true"),
    "MAGOS_LOGS_S3_REGION": ("Region of the bucket.", DEFAULT_REGION),
    "MAGOS_LOGS_S3_SECRET_ACCESS_KEY": ("Secret of the key.", ""),
    "MAGOS_POSTGRES_DATABASE": ("Name of the database.", _DATABASE.database),
    "MAGOS_POSTGRES_HOST": ("Host of PostgreSQL. Without it there is no run history.", ""),
    "MAGOS_POSTGRES_PASSWORD": ("Password of the user.", ""),
    "MAGOS_POSTGRES_PORT": ("Port of PostgreSQL.", str(_DATABASE.port)),
    "MAGOS_POSTGRES_SSLMODE": (
        "`disable`, `allow`, `prefer`, `require`, `verify-ca` or `verify-full`, as in libpq.",
        _DATABASE.sslmode,
    ),
    "MAGOS_POSTGRES_SSLROOTCERT": ("Path of the certificates to trust.", "the system's"),
    "MAGOS_POSTGRES_USERNAME": ("Name of the user.", _DATABASE.username),
}
"""Name to what it means and its default."""

_KNOWN = {"MAGOS_LOGS_ENABLED": "true", "MAGOS_LOGS_S3_ENDPOINT": "https://s3.example.com"}


def store_variables() -> AbstractSet[str]:
    """Return the names of the variables that are read."""
    asked = Asked(_KNOWN)
    load_history_settings(asked)
    load_s3_settings(asked)
    return asked.names
