"""What a bucket refuses or fails at, as ``ArchiveUnavailable``: which bucket, what for, the cause, the next step.

Only the server's error code is repeated, never its words, which may hold a key.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from magos.history.archive import ArchiveUnavailable
from magos.history.s3settings import ACCESS_KEY, BUCKET, CA_FILE, ENDPOINT, REGION, SECRET_KEY, S3Settings

NO_BUCKET: Final = "NoSuchBucket"
_KEYS: Final = f"correct {ACCESS_KEY} and {SECRET_KEY}, or the identity that the cloud gives the pod"
_RIGHTS: Final = "grant it the rights that the operations guide lists for the bucket of logs"
_LATER: Final = "it is tried again later"

_ADVICE: Final = {
    **dict.fromkeys(
        ("InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "ExpiredToken", "InvalidClientTokenId"),
        ("the credentials are not accepted", _KEYS),
    ),
    **dict.fromkeys(("AccessDenied", "403", "Forbidden", "AllAccessDisabled"), ("it is not allowed", _RIGHTS)),
    **dict.fromkeys(
        ("PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "301", "307"),
        ("the bucket is in another region", f"set {REGION} to the bucket's region, and {ENDPOINT} to the region's URL"),
    ),
    NO_BUCKET: ("the bucket does not exist", f"create it, or correct {BUCKET}"),
    "InvalidBucketName": ("the server does not take the bucket's name", f"correct {BUCKET}"),
    "RequestTimeTooSkewed": ("the clocks of both sides differ", "set the clocks of the nodes and of the server"),
}


@contextmanager
def translated(settings: S3Settings, what: str) -> Iterator[None]:
    """Turn every way in which a bucket cannot be used into ``ArchiveUnavailable``."""
    from aiohttp import ClientError as ConnectionTrouble
    from botocore.exceptions import (
        BotoCoreError,
        ClientError,
        ConnectTimeoutError,
        CredentialRetrievalError,
        NoCredentialsError,
        ReadTimeoutError,
        SSLError,
    )

    try:
        yield
    except ClientError as error:
        raise _refused(settings, what, error.response, error.operation_name) from error
    except (ConnectTimeoutError, ReadTimeoutError, TimeoutError) as error:
        raise unusable(settings, what, "the server does not answer in time", _LATER) from error
    except (NoCredentialsError, CredentialRetrievalError) as error:
        raise unusable(settings, what, "there are neither keys nor an identity of the cloud", _KEYS) from error
    except SSLError as error:
        cause, step = "the server's certificate is not trusted", f"set {CA_FILE} to the certificates to trust"
        raise unusable(settings, what, cause, step) from error
    except (BotoCoreError, ConnectionTrouble, OSError) as error:
        cause = f"the server cannot be reached, or the connection to it broke ({type(error).__name__})"
        raise unusable(settings, what, cause, f"{_LATER}; see that {ENDPOINT} is right and the server runs") from error


def code_of(error: Any) -> str:
    """Return the error code of a botocore ``ClientError``, a word."""
    return _word(error.response.get("Error", {}).get("Code", ""))


def unusable(settings: S3Settings, what: str, cause: str, step: str) -> ArchiveUnavailable:
    """Return the error to raise."""
    return ArchiveUnavailable(f'cannot {what} in the bucket "{settings.bucket}" at {settings.host}: {cause}; {step}')


def _refused(settings: S3Settings, what: str, response: Any, operation: str) -> ArchiveUnavailable:
    code = _word(response.get("Error", {}).get("Code", ""))
    status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    known = _ADVICE.get(code) or _ADVICE.get(str(status))
    cause, step = known or (f"the server answers with status {status}", _LATER)
    return unusable(settings, what, f"{cause} ({operation}: {code})", step)


def _word(code: object) -> str:
    return re.sub(r"[^A-Za-z0-9.]", "", str(code))[:60]
