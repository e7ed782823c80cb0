"""Annotation keys of Magos, and the fixed values and bounds that belong to them.

Each key states who may write it; no other part of Magos touches it (safety invariant I22).
"""

from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum

from magos.ids import digest_of

TRUE = "true"
"""The only value that switches an annotation on; ``True``, ``1`` and the like do not."""

EXECUTION_ALLOWED = "magosproject.io/execution-allowed"
"""EA. Orchestrator or person: permission to start plan and apply, exactly ``"true"``."""

EXECUTION_GRANTED_FOR = "magosproject.io/execution-granted-for"
"""Orchestrator, in the same patch: run, commit, spec and variables that EA was given for; for others it is void."""

PERMISSION = (EXECUTION_ALLOWED, EXECUTION_GRANTED_FOR)
"""What permission consists of, where it is taken as a whole."""

DETECTED_REVISION = "magosproject.io/detected-revision"
"""DR. RefWatcher: the commit the branch or tag points to."""

DETECTED_SOURCE = "magosproject.io/detected-source"
"""RefWatcher, in the same patch: the source key that the detected revision belongs to."""

RECONCILE_REQUEST = "magosproject.io/reconcile-request"
"""RR. API or person: any unique text; causes one run and is consumed by it."""

RECONCILE_INTERVAL = "magosproject.io/reconcile-interval"
"""Person: a duration that replaces the reconcile interval of 3m."""

GIT_POLL_INTERVAL = "magosproject.io/git-poll-interval"
"""Person: a duration that replaces RefWatcher's poll interval."""

APPROVED = "magosproject.io/approved"
"""API or person: the run ID whose gate is to open."""

REQUESTED_BY = "magosproject.io/requested-by"
"""API: JSON ``{request, principal}``; counts only if ``request`` equals the reconcile request."""

APPROVED_BY = "magosproject.io/approved-by"
"""API: JSON ``{runID, principal}``; counts only if ``runID`` equals the approved run."""

APPROVAL = (APPROVED, APPROVED_BY)
"""What an approval consists of, where it is taken as a whole."""

TF_LOG_LEVEL = "magosproject.io/tf-log-level"
"""Person: ``TF_LOG`` of both pods; one of ``TerraformLogLevel``."""

FORCE_DELETE = "magosproject.io/force-delete"
"""Person: exactly ``"true"`` lets a deletion go on while an apply runs."""

RECORD = "magosproject.io/record"
"""On Jobs, set at creation: the run record as JSON."""

RELEASED = "magosproject.io/released"
"""On apply Jobs, set by the write that lets the Job start: exactly ``"true"``."""

RESULT = "magosproject.io/result"
"""On Jobs, set when the Job ended: the runner's result as JSON."""

SEEN_AT = "magosproject.io/seen-at"
"""On Jobs whose creation time lies in the future or cannot be read: when the Job was seen, which counts instead."""

CLAIMS = "rbac.magosproject.io/claims"
"""On ServiceAccounts: JSON object of an identity provider's claim names to lists of values."""

CLAIM_PREFIX = "rbac.magosproject.io/claim."
"""On ServiceAccounts: ``<prefix><claim>`` holds a comma-separated list of values."""

MINIMUM_RECONCILE_INTERVAL = timedelta(seconds=10)
"""The floor under ``RECONCILE_INTERVAL``; what is below counts as this."""

MINIMUM_POLL_INTERVAL = timedelta(seconds=5)
"""The floor under ``GIT_POLL_INTERVAL``; what is below counts as this."""

MAXIMUM_INTERVAL = timedelta(hours=876_000)
"""The ceiling over both intervals, a century: what is above counts as this, so that every next time can be written."""

LONGEST_REQUEST = 253
"""Characters of a ``RECONCILE_REQUEST`` that is recorded as it is."""


class TerraformLogLevel(StrEnum):
    """Values of ``TF_LOG_LEVEL``."""

    TRACE = "TRACE"
    DEBUG = "DEBUG"
    INFO = "INFO"
    WARN = "WARN"
    ERROR = "ERROR"


def execution_allowed(annotations: Mapping[str, str]) -> bool:
    """Tell whether the object carries permission, whatever it was given for."""
    return annotations.get(EXECUTION_ALLOWED) == TRUE


def reconcile_request(annotations: Mapping[str, str]) -> str:
    """Return what the reconcile request is recorded as and compared by, empty if there is none.

    It goes into status and onto Jobs, so one longer than an identifier is stood for by its digest: no annotation
    may be too large for what it asks for (invariant I21).
    """
    text = annotations.get(RECONCILE_REQUEST, "")
    return text if len(text) <= LONGEST_REQUEST else digest_of(text.encode(errors="replace"))


def force_delete(annotations: Mapping[str, str]) -> bool:
    """Tell whether a person asked that deletion does not wait for a running apply."""
    return annotations.get(FORCE_DELETE) == TRUE
