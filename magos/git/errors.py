"""What can go wrong with a repository, as the reasons of spec §14.1.

A :class:`GitError` carries one reason and a message that names the object, the cause and the next step. Messages never
contain userinfo or a credential.
"""

from enum import StrEnum

from magos.errors import MagosError


class GitReason(StrEnum):
    """The reasons a Git operation may end with (exit code 3 of the runner, condition reasons of the RefWatcher)."""

    GIT_FAILED = "GitFailed"
    GIT_AUTHENTICATION_FAILED = "GitAuthenticationFailed"
    REVISION_NOT_FOUND = "RevisionNotFound"
    UNKNOWN_HOST_KEY = "UnknownHostKey"
    SCHEME_NOT_ALLOWED = "SchemeNotAllowed"


class GitError(MagosError):
    """A Git operation failed for ``reason``; ``message`` is fit to be shown to a user.

    ``retry_after`` is how many seconds the server asks to be left alone, None if it does not ask.
    """

    def __init__(self, reason: GitReason, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.retry_after = retry_after
