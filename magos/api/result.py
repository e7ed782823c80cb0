"""The runner's result: what the ``job`` container leaves as its termination message (spec §7.5).

The runner encodes it, the workspace controller decodes it; nothing else a pod says is ever parsed. The message is data
from a container that read untrusted plans, so decoding is strict about types and the schema version, and tolerant of
fields a newer runner may add.
"""

from enum import StrEnum
from typing import Annotated

import msgspec

from magos.api.names import JobType
from magos.bounds import RUN_RESULT
from magos.ids import is_git_sha, parse_digest, parse_run_id

SCHEMA_VERSION = 1
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
"""JSON knows integers of any size; what is decoded here is written again into annotations, status and history."""


class Outcome(StrEnum):
    """How a phase ended."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class ViolationAction(StrEnum):
    """What a policy asks for when it is violated; Deny and Warn block, Audit asks for an approval."""

    DENY = "Deny"
    WARN = "Warn"
    AUDIT = "Audit"


class PlannedChanges(msgspec.Struct, frozen=True):
    """Number of resource instances a plan adds, changes in place and destroys; a replacement counts as both ends."""

    add: _Count = 0
    change: _Count = 0
    destroy: _Count = 0


class PolicyCount(msgspec.Struct, frozen=True):
    """How many policies were selected for the run, and how many of them were evaluated."""

    selected: _Count = 0
    evaluated: _Count = 0


class Violation(msgspec.Struct, frozen=True):
    """One failed policy result."""

    policy: str
    message: str
    action: ViolationAction


class Result(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Schema version 1 of the result.

    ``reason`` is empty on success and one of spec §14.1 otherwise. ``revision``, ``plan_digest`` and
    ``terraform_version`` are empty where the run did not get that far. ``violations_total`` counts all violations even
    if ``truncated`` says that entries or texts were left out to keep the message small.
    """

    v: int = SCHEMA_VERSION
    run_id: str = msgspec.field(name="runID")
    phase: JobType
    result: Outcome
    exit_code: Annotated[int, msgspec.Meta(ge=0, le=255)]
    reason: str = ""
    message: str = ""
    revision: str = ""
    plan_digest: str = ""
    terraform_version: str = ""
    distribution: str = ""
    has_changes: bool = False
    changes: PlannedChanges = PlannedChanges()
    policies: PolicyCount = PolicyCount()
    violations: tuple[Violation, ...] = ()
    violations_total: _Count = 0
    warnings: tuple[str, ...] = ()
    truncated: bool = False


class _Versioned(msgspec.Struct):
    v: int


_decoder = msgspec.json.Decoder(Result)
_version_decoder = msgspec.json.Decoder(_Versioned)


def decode_result(message: str | bytes) -> Result:
    """Return the result written as ``message``.

    Raises ``ValueError`` saying what is wrong: empty, not JSON, another schema version, a field of the wrong type, a
    malformed identifier, or a success that carries a reason or a failing exit code.
    """
    if not message:
        raise ValueError("the runner left no result")
    if len(message) > RUN_RESULT.limit:
        raise ValueError(f"the runner's result has {len(message)} characters, more than any runner writes")
    try:
        version = _version_decoder.decode(message).v
        if version != SCHEMA_VERSION:
            raise ValueError(
                f"the runner's result has schema version {version}, this controller reads {SCHEMA_VERSION};"
                " use controllers and runner image of one release"
            )
        result = _decoder.decode(message)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise ValueError(f"the runner's result is unreadable: {error}") from error
    _check(result)
    return result


def _check(result: Result) -> None:
    if result.run_id:
        parse_run_id(result.run_id)
    if result.plan_digest:
        parse_digest(result.plan_digest)
    if result.revision and not is_git_sha(result.revision):
        raise ValueError(f"the runner's result names the revision {result.revision!r}, which is no full commit ID")
    if (result.result is Outcome.SUCCEEDED) != (result.exit_code == 0):
        raise ValueError(f"the runner's result says {result.result} with exit code {result.exit_code}")
