"""The record on a Job (annotation ``mp/record``): what the Job was created with.

It is written once, at creation, and never changed. The machine takes the pin of a run from here, so that what a Job
really does and what status says about it cannot drift apart; later the history is written from it.
"""

import msgspec
from msgspec import Struct, field

from magos.api.names import JobType
from magos.ids import is_git_sha, parse_run_id


class JobRecord(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One Job's share of a run; empty texts mean unknown or none.

    ``created_at`` is the time of the controller that created the Job; its creationTimestamp is the API server's.
    ``similar_secrets`` are repository Secrets that look as if they were meant for the URL, where none is in force.
    """

    v: int = 1
    run_id: str = field(name="runID")
    job_type: JobType
    trigger: str
    project: str
    target_revision: str
    source_key: str
    spec_hash: str
    created_at: str = ""
    revision: str = ""
    request: str = ""
    principal: str = ""
    plan_digest: str = ""
    variables_fingerprint: str = ""
    similar_secrets: tuple[str, ...] = ()


_decoder = msgspec.json.Decoder(JobRecord)


def encode_record(record: JobRecord) -> str:
    """Return the annotation's text."""
    return msgspec.json.encode(record).decode()


def decode_record(text: str) -> JobRecord | None:
    """Return the record, or None if the annotation is missing or was tampered with."""
    try:
        record = _decoder.decode(text)
        parse_run_id(record.run_id)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    return record if not record.revision or is_git_sha(record.revision) else None
