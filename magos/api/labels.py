"""Label keys, finalizers and fixed names of Magos, and the syntax of labels.

Label syntax: a key is ``[<DNS subdomain of at most 253>/]<name>``, a name has 1 to 63 characters ``[A-Za-z0-9_.-]``
and begins and ends alphanumerically; a value is empty or has the form of a name. Source: Kubernetes label syntax.
"""

import re

from magos.ids import short_hash

WORKSPACE = "magosproject.io/workspace"
"""On Jobs, pods and claims: the Workspace, as ``workspace_label`` writes it."""

JOB_TYPE = "magosproject.io/job-type"
"""On Jobs and pods: ``plan`` or ``apply``."""

RUN_ID = "magosproject.io/run-id"
"""On Jobs and pods: the run ID."""

SECRET_TYPE = "magosproject.io/secret-type"  # noqa: S105 - a label key
"""On Secrets: ``repository`` for Git credentials."""

REPOSITORY = "repository"
"""The value of ``SECRET_TYPE`` that marks a repository Secret."""

RUNNER = "magosproject.io/runner"
"""On ServiceAccounts that runner pods may use: ``"true"``. A run takes no other account, whatever a Workspace names."""

SYSTEM_ROLE = "rbac.magosproject.io/system-role"
"""On ServiceAccounts that stand for a Magos role: ``"true"``."""

PROJECT_NAMESPACE = "magosproject.io/project"
"""On namespaces that hold Projects: ``"true"``; optional and informational."""

FINALIZER = "magosproject.io/finalizer"
"""The one finalizer of Workspaces and Projects."""

ARCHIVE_FINALIZER = "magosproject.io/archive"
"""On Jobs whose record or log is still to be stored."""

FOREGROUND = "foregroundDeletion"
"""Kubernetes' own finalizer: garbage collection is still removing the dependents of an object that is being deleted."""

OUTBOX = "magosproject.io/outbox"
"""On ConfigMaps with records of a deleted Workspace that are not stored yet: its UID."""

JOB_SERVICE_ACCOUNT = "magos-job"
"""The ServiceAccount of runner pods unless a Workspace names another."""

_LONGEST = 63
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*")


def is_label_key(text: str) -> bool:
    """Tell whether ``text`` is a valid label key."""
    prefix, slash, name = text.rpartition("/")
    if slash and (len(prefix) > 253 or _SUBDOMAIN.fullmatch(prefix) is None):
        return False
    return _NAME.fullmatch(name) is not None


def is_label_value(text: str) -> bool:
    """Tell whether ``text`` is a valid label value."""
    return not text or _NAME.fullmatch(text) is not None


def workspace_label(workspace: str) -> str:
    """Return the value of ``WORKSPACE`` for a Workspace name.

    Names of at most 63 characters stand for themselves; of a longer one the first 54 characters, ``-`` and 8 hex digits
    of SHA-256 over the whole name. The result is always a valid label value for a valid object name.
    """
    if len(workspace) <= _LONGEST:
        return workspace
    return f"{workspace[:54]}-{short_hash(workspace, 8)}"
