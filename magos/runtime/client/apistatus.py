"""``metav1.Status``: how the API server words an error, as an answer and inside a watch."""

from msgspec import Struct

__all__ = ["Cause", "Status", "StatusDetails"]


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
