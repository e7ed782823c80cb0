"""Ends of a command that are not success, and the exit code of each (spec §11)."""

from enum import IntEnum

from magos.errors import ConfigurationError, MagosError


class ExitCode(IntEnum):
    """What a script reads."""

    SUCCESS = 0
    FAILURE = 1
    USAGE = 2
    NOT_FOUND = 3
    NOT_ALLOWED = 4
    TIMED_OUT = 5


class NotFound(MagosError):
    """The object that the user asked for does not exist."""


class NotAllowed(MagosError):
    """Whoever asks may not do this, or is not known."""


class TimedOut(MagosError):
    """What was waited for did not come in time."""


def exit_code(error: MagosError) -> ExitCode:
    """Return the exit code of a command that ended with this error."""
    match error:
        case ConfigurationError():
            return ExitCode.USAGE
        case NotFound():
            return ExitCode.NOT_FOUND
        case NotAllowed():
            return ExitCode.NOT_ALLOWED
        case TimedOut():
            return ExitCode.TIMED_OUT
        case _:
            return _of_answer(error)


def _of_answer(error: MagosError) -> ExitCode:
    """Return the code for a refusal of the Kubernetes API server, which knows by itself what it is."""
    from magos.runtime.client.errors import ApiError

    if not isinstance(error, ApiError):
        return ExitCode.FAILURE
    if error.forbidden or error.unauthorized:
        return ExitCode.NOT_ALLOWED
    return ExitCode.NOT_FOUND if error.not_found else ExitCode.FAILURE
