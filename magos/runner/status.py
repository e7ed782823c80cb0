"""What a stage leaves for the stages after it: ``/scratch/<stage>/status.json``.

The status of ``fetch`` cannot be rewritten by later stages (they mount it read-only); that of ``terraform`` was written
beside code of the configuration and is believed only as far as it can do no harm: it may fail its own run.
"""

from pathlib import Path

import msgspec

from magos.api.names import JobType
from magos.api.reasons import Reason
from magos.api.runnerpod import REPORTED_REASONS, Stage
from magos.folder import is_full
from magos.privatefile import write_private
from magos.runner.files import read_limited, remove
from magos.runner.outcome import phase_failed
from magos.runner.paths import Paths

STATUS_VERSION = 1
_LARGEST = 64 * 1024
_LONGEST_MESSAGE = 4096


class StageStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How a stage ended. ``reason`` None is success; the next three fields are fetch's to say.

    The last three are render's. ``exposure``: why the plan JSON may not be what the tool wrote; nothing if it is.
    ``plan_digest``: of exactly the bytes that the tool was given to show. ``plain_plan``: they are the plan itself, not
    an encrypted one or the name of one.
    """

    v: int = STATUS_VERSION
    stage: Stage
    reason: Reason | None = None
    message: str = ""
    revision: str = ""
    tool_version: str = ""
    warnings: tuple[str, ...] = ()
    exposure: str = ""
    plan_digest: str = ""
    plain_plan: bool = False


def write_status(paths: Paths, status: StageStatus) -> None:
    """Leave ``status``, in place of whatever lies there."""
    bounded = msgspec.structs.replace(status, message=status.message[:_LONGEST_MESSAGE])
    write_private(paths.status(status.stage), msgspec.json.encode(bounded))


def leave_status(paths: Paths, status: StageStatus, phase: JobType) -> None:
    """Leave ``status`` also on a full disk: what ``fetch`` and ``terraform`` keep in the pod makes room for it.

    That ends a run that would still have needed it, with ``VolumeFull``.
    """
    try:
        write_status(paths, status)
    except OSError as error:
        if not is_full(error) or status.stage not in (Stage.FETCH, Stage.TERRAFORM):
            raise
        for folder in (paths.source, paths.data):
            remove(folder)
        if status.reason is None and not (status.stage is Stage.TERRAFORM and phase is JobType.APPLY):
            message = f"the pod's volume scratch is full: the {status.stage} stage could not leave its status there"
            status = msgspec.structs.replace(
                status, reason=Reason.VOLUME_FULL, message=f"{message}; free the disk of the node"
            )
        write_status(paths, status)


def read_status(paths: Paths, stage: Stage, phase: JobType) -> StageStatus:
    """Return the status ``stage`` left; a missing or unreadable one is a failure of the phase."""
    path: Path = paths.status(stage)
    try:
        status = msgspec.json.decode(read_limited(path, _LARGEST), type=StageStatus)
    except FileNotFoundError:
        return _unknown(stage, phase, "left no status")
    except (OSError, ValueError) as error:
        return _unknown(stage, phase, f"left an unreadable status ({error})")
    if status.v != STATUS_VERSION or status.stage is not stage:
        return _unknown(stage, phase, f"left a status of version {status.v} for stage {status.stage}")
    if status.reason is not None and status.reason not in REPORTED_REASONS:
        return _unknown(stage, phase, f"left the reason {status.reason}, which no runner reports")
    return status


def first_failure(statuses: tuple[StageStatus, ...]) -> StageStatus | None:
    """Return the first of ``statuses`` that is a failure."""
    return next((status for status in statuses if status.reason is not None), None)


def _unknown(stage: Stage, phase: JobType, problem: str) -> StageStatus:
    message = f"the {stage} stage {problem}; read its log, and check who writes to the pod's scratch volume"
    return StageStatus(stage=stage, reason=phase_failed(phase), message=message)
