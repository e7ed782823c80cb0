"""Trouble with a bucket in words: the cause and the next step, and nothing that a server may have said of a key."""

from typing import Any

import aiohttp
import botocore.exceptions as botocore
import pytest

from magos.errors import MagosError
from magos.history.archive import ArchiveUnavailable
from magos.history.s3settings import S3Settings
from magos.history.s3trouble import translated

SETTINGS = S3Settings(endpoint="https://s3.example:9000", access_key="the-id", secret_key="the-secret")


def answer(code: str, status: int = 400) -> botocore.ClientError:
    response: Any = {
        "Error": {"Code": code, "Message": "the key the-id is unknown"},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    return botocore.ClientError(response, "PutObject")


CASES = [
    (answer("InvalidAccessKeyId"), "the credentials are not accepted", "MAGOS_LOGS_S3_ACCESS_KEY_ID"),
    (answer("ExpiredToken"), "the credentials are not accepted", "identity that the cloud gives"),
    (answer("AccessDenied", 403), "it is not allowed", "grant it the rights"),
    (answer("", 403), "it is not allowed", "grant it the rights"),
    (answer("PermanentRedirect", 301), "the bucket is in another region", "MAGOS_LOGS_S3_REGION"),
    (answer("AuthorizationHeaderMalformed"), "the bucket is in another region", "MAGOS_LOGS_S3_REGION"),
    (answer("NoSuchBucket", 404), "the bucket does not exist", "MAGOS_LOGS_S3_BUCKET"),
    (answer("RequestTimeTooSkewed", 403), "the clocks of both sides differ", "set the clocks"),
    (answer("SlowDown", 503), "the server answers with status 503", "tried again later"),
    (answer("the-id <is> the-secret", 418), "the server answers with status 418", "tried again later"),
    (botocore.NoCredentialsError(), "neither keys nor an identity", "MAGOS_LOGS_S3_ACCESS_KEY_ID"),
    (botocore.SSLError(endpoint_url="x", error="y"), "certificate is not trusted", "MAGOS_LOGS_S3_CA_FILE"),
    (botocore.ReadTimeoutError(endpoint_url="x"), "does not answer in time", "tried again later"),
    (TimeoutError(), "does not answer in time", "tried again later"),
    (botocore.EndpointConnectionError(endpoint_url="x"), "cannot be reached", "MAGOS_LOGS_S3_ENDPOINT"),
    (aiohttp.ClientPayloadError(), "cannot be reached", "MAGOS_LOGS_S3_ENDPOINT"),
    (ConnectionResetError(), "cannot be reached", "MAGOS_LOGS_S3_ENDPOINT"),
]


@pytest.mark.parametrize(("error", "cause", "step"), CASES)
def test_each_trouble_is_told_with_its_cause_and_the_next_step(error: Exception, cause: str, step: str) -> None:
    with pytest.raises(ArchiveUnavailable) as caught, translated(SETTINGS, "store a log"):
        raise error
    text = str(caught.value)
    assert text.startswith('cannot store a log in the bucket "magos-run-logs" at s3.example:9000: ')
    assert cause in text
    assert step in text
    assert "the-id" not in text
    assert "the-secret" not in text


def test_errors_of_others_pass() -> None:
    with pytest.raises(MagosError, match="mine"), translated(SETTINGS, "store a log"):
        raise MagosError("mine")
