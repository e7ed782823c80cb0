"""Why a run exists."""

from enum import StrEnum


class Trigger(StrEnum):
    """``status.currentRunTrigger``, in falling order of precedence. A run with ``scheduled`` is a drift run."""

    CONFIGURATION = "configuration"
    REVISION = "revision"
    MANUAL = "manual"
    VARIABLES = "variables"
    RETRY = "retry"
    SCHEDULED = "scheduled"
    UNKNOWN = "unknown"
