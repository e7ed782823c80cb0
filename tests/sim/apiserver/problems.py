"""Errors as the API server words them (``metav1.Status``)."""

from collections.abc import Sequence
from typing import Any

__all__ = [
    "Problem",
    "already_exists",
    "bad_request",
    "conflict",
    "expired",
    "forbidden",
    "invalid",
    "no_such_resource",
    "not_found",
    "too_large_resource_version",
    "uid_mismatch",
    "unsupported_media_type",
]


class Problem(Exception):
    """A request that is answered with a Status of failure."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: dict[str, Any] | None = None,
        retry_after: int = 0,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.retry_after = retry_after
        self.status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "code": code,
        }
        details = dict(details or {})
        if retry_after:
            details["retryAfterSeconds"] = retry_after
        if details:
            self.status["details"] = details


def not_found(resource: str, name: str) -> Problem:
    """404: the resource is served, the object does not exist."""
    details = _details(resource, name)
    return Problem(404, "NotFound", f'{resource} "{name}" not found', details=details)


def no_such_resource() -> Problem:
    """404: the path leads nowhere."""
    return Problem(404, "NotFound", "the server could not find the requested resource")


def already_exists(resource: str, name: str) -> Problem:
    """409: the name is taken."""
    return Problem(409, "AlreadyExists", f'{resource} "{name}" already exists', details=_details(resource, name))


def conflict(resource: str, name: str, why: str = "") -> Problem:
    """409: a precondition does not hold."""
    why = why or "the object has been modified; please apply your changes to the latest version and try again"
    message = f'Operation cannot be fulfilled on {resource} "{name}": {why}'
    return Problem(409, "Conflict", message, details=_details(resource, name))


def uid_mismatch(resource: str, name: str, wanted: str, found: str) -> Problem:
    """409: another object has the name by now."""
    return conflict(resource, name, f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}")


def invalid(kind: str, name: str, causes: Sequence[tuple[str, str]], group: str = "") -> Problem:
    """422: ``causes`` are (field, message)."""
    words = "; ".join(f"{field}: {message}" for field, message in causes)
    listed = [{"reason": "FieldValueInvalid", "message": message, "field": field} for field, message in causes]
    qualified = f"{kind}.{group}" if group else kind
    return Problem(
        422,
        "Invalid",
        f'{qualified} "{name}" is invalid: {words}',
        details={"name": name, "group": group, "kind": kind, "causes": listed},
    )


def bad_request(message: str) -> Problem:
    """400."""
    return Problem(400, "BadRequest", message)


def forbidden(resource: str, name: str, why: str, cause: str = "") -> Problem:
    """403 with an optional machine-readable cause."""
    details = _details(resource, name)
    if cause:
        details["causes"] = [{"reason": cause, "message": why}]
    return Problem(403, "Forbidden", f'{resource} "{name}" is forbidden: {why}', details=details)


def expired(message: str = "") -> Problem:
    """410: the resourceVersion is older than what the server remembers."""
    return Problem(410, "Expired", message or "The resourceVersion for the provided watch is too old.")


def too_large_resource_version(wanted: int, current: int) -> Problem:
    """504: the server has not got that far yet."""
    message = f"Timeout: Too large resource version: {wanted}, current: {current}"
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    return Problem(504, "Timeout", message, details={"causes": causes}, retry_after=1)


def unsupported_media_type(content_type: str) -> Problem:
    """415."""
    message = (
        f"the body of the request was in an unknown format - accepted media types include: not {content_type or 'none'}"
    )
    return Problem(415, "UnsupportedMediaType", message)


def _details(resource: str, name: str) -> dict[str, Any]:
    plural, _, group = resource.partition(".")
    details: dict[str, Any] = {"name": name, "kind": plural}
    if group:
        details["group"] = group
    return details
