"""How a stage fails: a reason of spec §14.1 with its exit code (spec §7.6), carried by one exception.

The Git and tool reasons are those of the errors these packages raise; the table below alone knows which exit code
belongs to which reason.
"""

from typing import Final

from magos.api.names import JobType
from magos.api.reasons import Reason
from magos.errors import MagosError

__all__ = ["TERMINATED", "RUNNER_REASONS", "StageFailed", "exit_code", "phase_failed"]

TERMINATED: Final = 143
"""Exit code of a stage that was asked to stop: 128 + SIGTERM."""


_EXIT_CODES: Final = {
    Reason.PLAN_FAILED: 1,
    Reason.APPLY_FAILED: 1,
    Reason.INVALID_CONFIGURATION: 2,
    Reason.GIT_FAILED: 3,
    Reason.GIT_AUTHENTICATION_FAILED: 3,
    Reason.REVISION_NOT_FOUND: 3,
    Reason.UNKNOWN_HOST_KEY: 3,
    Reason.SCHEME_NOT_ALLOWED: 3,
    Reason.TOOL_DOWNLOAD_FAILED: 4,
    Reason.CHECKSUM_MISMATCH: 4,
    Reason.SIGNATURE_INVALID: 4,
    Reason.POLICY_VIOLATION: 5,
    Reason.POLICY_EVALUATION_FAILED: 5,
    Reason.PLAN_MISMATCH: 6,
    Reason.INTERRUPTED: TERMINATED,
}


RUNNER_REASONS: Final = frozenset(_EXIT_CODES)
"""Every reason the runner may report."""


def exit_code(reason: Reason) -> int:
    """Return the exit code of a run that ends with ``reason``; ``KeyError`` for a reason the runner never reports."""
    return _EXIT_CODES[reason]


class StageFailed(MagosError):
    """A stage cannot go on for ``reason``; ``message`` is fit to be shown to a user."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


def phase_failed(phase: JobType) -> Reason:
    """Return the reason of a failure that has no reason of its own."""
    return Reason.PLAN_FAILED if phase is JobType.PLAN else Reason.APPLY_FAILED
