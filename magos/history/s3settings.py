"""The settings of the bucket for logs, from the environment of a process (spec §8.5).

An empty variable counts as unset, because that is how a manifest leaves one out.
"""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from magos.errors import ConfigurationError

ENABLED: Final = "MAGOS_LOGS_ENABLED"
ENDPOINT: Final = "MAGOS_LOGS_S3_ENDPOINT"
ACCESS_KEY: Final = "MAGOS_LOGS_S3_ACCESS_KEY_ID"
SECRET_KEY: Final = "MAGOS_LOGS_S3_SECRET_ACCESS_KEY"  # noqa: S105 - the name of a variable
REGION: Final = "MAGOS_LOGS_S3_REGION"
BUCKET: Final = "MAGOS_LOGS_S3_BUCKET"
CA_FILE: Final = "MAGOS_LOGS_S3_CA_FILE"
PATH_STYLE: Final = "MAGOS_LOGS_S3_PATH_STYLE"

DEFAULT_REGION: Final = "us-east-1"
DEFAULT_BUCKET: Final = "magos-run-logs"

_BUCKET_NAME: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", re.ASCII)


class S3Settings(Struct, frozen=True, kw_only=True):
    """Where logs go. Without keys the identity that the cloud gives the pod is used."""

    endpoint: str
    bucket: str = DEFAULT_BUCKET
    region: str = DEFAULT_REGION
    access_key: str = ""
    secret_key: str = ""
    ca_file: str = ""
    """Certificates to trust instead of the system's."""
    path_style: bool = True
    """The bucket stands in the path, not in the name of the host."""

    @property
    def host(self) -> str:
        """Host and port of the endpoint, fit for messages."""
        return urlsplit(self.endpoint).netloc

    def __repr__(self) -> str:
        """Tell where, without a key: this may end up in a log."""
        return f"S3Settings(endpoint={self.endpoint!r}, bucket={self.bucket!r}, region={self.region!r})"


def load_s3_settings(environ: Mapping[str, str]) -> S3Settings | None:
    """Return the settings in ``environ``, None if logs are not stored.

    Raises ``ConfigurationError`` that names the variable; its text never holds a key.
    """
    if not _switch(environ, ENABLED, default=False):
        return None
    access_key, secret_key = environ.get(ACCESS_KEY, ""), environ.get(SECRET_KEY, "")
    if bool(access_key) != bool(secret_key):
        given, missing = (ACCESS_KEY, SECRET_KEY) if access_key else (SECRET_KEY, ACCESS_KEY)
        raise ConfigurationError(
            f"{missing} is not set although {given} is: set both, or neither to use the identity that the cloud gives"
        )
    for name in (ACCESS_KEY, SECRET_KEY):
        value = environ.get(name, "")
        if value != value.strip() or not value.isprintable():
            raise ConfigurationError(f"{name} has spaces or line ends around or in it: set it to the key alone")
    return S3Settings(
        endpoint=_endpoint(environ),
        bucket=_bucket(environ),
        region=environ.get(REGION) or DEFAULT_REGION,
        access_key=access_key,
        secret_key=secret_key,
        ca_file=environ.get(CA_FILE, ""),
        path_style=_switch(environ, PATH_STYLE, default=True),
    )


def _endpoint(environ: Mapping[str, str]) -> str:
    example = "https://s3.eu-central-1.amazonaws.com"
    endpoint = environ.get(ENDPOINT, "")
    if not endpoint:
        raise ConfigurationError(f"{ENDPOINT} is not set although {ENABLED} is true: set it to a URL like {example}")
    if not _is_endpoint(endpoint):
        # What the URL is stays untold: its user part could hold a key.
        raise ConfigurationError(f"{ENDPOINT} is not the URL of a server: set it to one like {example}, without a user")
    return endpoint.rstrip("/")


def _is_endpoint(text: str) -> bool:
    try:
        url = urlsplit(text)
        served = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        return False
    return served and not (set("@?# \t\r\n") & set(text))


def _bucket(environ: Mapping[str, str]) -> str:
    bucket = environ.get(BUCKET) or DEFAULT_BUCKET
    if _BUCKET_NAME.fullmatch(bucket) is None:
        raise ConfigurationError(
            f"{BUCKET} is {bucket!r}: a bucket has 3 to 63 lower-case letters, digits, hyphens and dots"
        )
    return bucket


def _switch(environ: Mapping[str, str], name: str, *, default: bool) -> bool:
    value = environ.get(name) or ("true" if default else "false")
    if value not in ("true", "false"):
        raise ConfigurationError(f"{name} is {value!r}: set it to true or false")
    return value == "true"
