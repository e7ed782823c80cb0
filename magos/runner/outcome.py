"""How a stage fails: a reason of spec §14.1 carried by one exception.

The Git and tool reasons are those of the errors these packages raise; ``magos.api.runnerpod`` has the exit codes.
"""

from magos.api.names import JobType
from magos.api.reasons import Reason
from magos.errors import MagosError


class StageFailed(MagosError):
    """A stage cannot go on for ``reason``; ``message`` is fit to be shown to a user."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


def phase_failed(phase: JobType) -> Reason:
    """Return the reason of a failure that has no reason of its own."""
    return Reason.PLAN_FAILED if phase is JobType.PLAN else Reason.APPLY_FAILED
