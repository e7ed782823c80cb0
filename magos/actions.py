"""What a person may ask of a Workspace: reconcile, approve, discard. The API and the command line both ask it here.

Each is a merge patch of annotations that names the version it was judged by. So what has changed since is a conflict
and never a surprise (invariant I10).
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from magos.api.annotations import APPROVED, APPROVED_BY, RECONCILE_REQUEST, REQUESTED_BY
from magos.api.phases import Phase
from magos.api.workspace import GateReason, Workspace
from magos.errors import MagosError

Patch = Mapping[str, Any]
"""Body of a JSON merge patch (RFC 7386) of a Workspace."""


class NotGated(MagosError):
    """No plan of this Workspace waits for approval."""


class AnotherRun(MagosError):
    """Another run waits than the one that was to be approved; ``waiting`` is its ID."""

    def __init__(self, message: str, waiting: str) -> None:
        super().__init__(message)
        self.waiting = waiting


class UnacknowledgedWarnings(MagosError):
    """The plan violates policies, and whoever approves has not said that they have read them."""


class BeingDeleted(MagosError):
    """The Workspace is being deleted and starts no run."""


def reconcile(workspace: Workspace, now: datetime, principal: str = "") -> Patch:
    """Return the patch that asks for a run; a plan that waits for approval is discarded by it.

    ``principal`` is who asks; empty leaves no name. Raises ``BeingDeleted``.
    """
    if workspace.metadata.deletion_timestamp:
        raise BeingDeleted(f"{_name(workspace)} is being deleted and starts no run")
    request = f"{now:%Y-%m-%dT%H:%M:%S.%f}000Z"
    by = _json({"request": request, "principal": principal}) if principal else None
    return _annotations(workspace, {RECONCILE_REQUEST: request, REQUESTED_BY: by})


def approve(workspace: Workspace, run_id: str, *, acknowledge_warnings: bool = False, principal: str = "") -> Patch:
    """Return the patch that approves exactly the run ``run_id``.

    Raises ``NotGated``, ``AnotherRun`` or ``UnacknowledgedWarnings``; each says what waits instead and what to do.
    """
    waiting = workspace.status.awaiting_approval
    if waiting is None or workspace.metadata.deletion_timestamp:
        raise _not_gated(workspace)
    if waiting.run_id != run_id:
        raise AnotherRun(
            f"{_name(workspace)} waits for the approval of run {waiting.run_id}, not of {run_id};"
            " look at its plan first",
            waiting.run_id,
        )
    if waiting.reason is GateReason.AUDIT_VIOLATIONS and not acknowledge_warnings:
        count = len(workspace.status.policy_violations)
        violated = "1 policy: read it" if count == 1 else f"{count} policies: read them"
        raise UnacknowledgedWarnings(
            f"the plan of run {run_id} violates {violated}, then acknowledge the warnings together with the approval"
        )
    by = _json({"runID": run_id, "principal": principal}) if principal else None
    return _annotations(workspace, {APPROVED: run_id, APPROVED_BY: by})


def discard(workspace: Workspace, now: datetime, principal: str = "") -> Patch:
    """Return the patch that discards the plan which waits for approval: a reconcile request, so a new run follows.

    Raises ``NotGated``: without a waiting plan it would be a plain reconcile, which nobody asked for.
    """
    waiting = workspace.status.awaiting_approval
    if waiting is None or workspace.metadata.deletion_timestamp:
        raise _not_gated(workspace, "there is nothing to discard")
    return reconcile(workspace, now, principal)


def discarded(workspace: Workspace) -> str:
    """Say what ``discard`` gives up; empty if no plan waits."""
    waiting, counts = workspace.status.awaiting_approval, workspace.status.plan_summary
    if waiting is None:
        return ""
    commit = f" of commit {waiting.revision[:7]}" if waiting.revision else ""
    changes = f" ({counts.destroy} to destroy, {counts.change} to change, {counts.add} to add)" if counts else ""
    return f"the plan of run {waiting.run_id}{commit}{changes}"


def _not_gated(workspace: Workspace, consequence: str = "") -> NotGated:
    state = workspace.status.phase or Phase.PENDING
    leaving = " and is being deleted" if workspace.metadata.deletion_timestamp else ""
    end = f"; {consequence}" if consequence else ""
    return NotGated(f"{_name(workspace)} has no plan that waits for approval: it is {state}{leaving}{end}")


def _annotations(workspace: Workspace, wanted: Mapping[str, str | None]) -> Patch:
    return {"metadata": {"resourceVersion": workspace.metadata.resource_version, "annotations": dict(wanted)}}


def _json(value: Mapping[str, str]) -> str:
    return msgspec.json.encode(value).decode()


def _name(workspace: Workspace) -> str:
    return f"Workspace {workspace.metadata.namespace}/{workspace.metadata.name}"
