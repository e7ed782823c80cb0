"""What the API server refused, or that it did not answer: ``metav1.Status``, and the one exception made of it.

``Status`` is how the server words an error, as an answer and inside a watch; ``ApiError`` adds the questions that
callers ask of it.
"""

from msgspec import Struct

from magos.errors import MagosError

_TOO_LARGE = "ResourceVersionTooLarge"
_TOO_LARGE_TEXT = "Too large resource version"


class Cause(Struct, frozen=True, gc=False, kw_only=True):
    """``metav1.StatusCause``: one machine-readable reason of a failure."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(Struct, frozen=True, gc=False, rename="camel", kw_only=True):
    """``metav1.StatusDetails``."""

    name: str = ""
    kind: str = ""
    causes: tuple[Cause, ...] | None = None
    retry_after_seconds: int = 0


class Status(Struct, frozen=True, gc=False, kw_only=True):
    """``metav1.Status``: how the API server words an error."""

    status: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: StatusDetails | None = None

    @property
    def causes(self) -> tuple[Cause, ...]:
        """The causes, empty where the server named none."""
        return (self.details.causes or ()) if self.details else ()


class ApiError(MagosError):
    """A request that did not succeed.

    ``status`` is the HTTP code, 0 where there was no answer; ``reason`` is the server's machine-readable reason.
    ``retry_after`` is in seconds, None where the server asked for nothing. ``unknown_outcome`` is True for a write that
    may have been carried out although no success was reported.
    """

    def __init__(
        self,
        message: str,
        *,
        answer: Status | None = None,
        retry_after: float | None = None,
        unknown_outcome: bool = False,
    ) -> None:
        super().__init__(message)
        answer = answer or Status()
        self.message = message
        self.status = answer.code
        self.reason = answer.reason
        self.causes: tuple[Cause, ...] = answer.causes
        self.detail = answer.message
        self.retry_after = retry_after
        self.unknown_outcome = unknown_outcome

    @property
    def not_found(self) -> bool:
        """The object, or its kind, does not exist."""
        return self.status == 404

    @property
    def already_exists(self) -> bool:
        """The name is taken."""
        return self.status == 409 and self.reason == "AlreadyExists"

    @property
    def conflict(self) -> bool:
        """A precondition (resourceVersion, uid) does not hold any more: read again, decide again.

        A patch that names another uid is answered with 422 for an immutable field; it is the same conflict.
        """
        if self.status == 409:
            return self.reason != "AlreadyExists"
        return self.status == 422 and any(cause.field == "metadata.uid" for cause in self.causes)

    @property
    def unauthorized(self) -> bool:
        """The credentials were not accepted."""
        return self.status == 401

    @property
    def forbidden(self) -> bool:
        """RBAC, quota, admission or a terminating namespace said no."""
        return self.status == 403

    @property
    def invalid(self) -> bool:
        """The object or the request is malformed or breaks the schema."""
        return self.status in (400, 413, 415, 422) and not self.conflict

    @property
    def gone(self) -> bool:
        """The resourceVersion or continue token is too old: list anew."""
        return self.status == 410 or self.reason in ("Expired", "Gone")

    @property
    def too_large_resource_version(self) -> bool:
        """The server is behind the resourceVersion asked for (it was restored or restarted): list anew."""
        if any(cause.reason == _TOO_LARGE for cause in self.causes):
            return True
        return self.status == 504 and _TOO_LARGE_TEXT in self.detail

    @property
    def transient(self) -> bool:
        """No answer, 429 or a server error: trying later may help without anybody changing anything."""
        return self.status in (0, 408, 429) or self.status >= 500

    @property
    def permanent(self) -> bool:
        """A refusal that lasts until a person changes something; 401 is none, as tokens are replaced."""
        passing = self.transient or self.unauthorized or self.conflict or self.already_exists
        return not (passing or self.not_found or self.gone)
