"""The stop between plan and apply until a person approves exactly this run (spec §6.2.8)."""

from msgspec.structs import replace

from magos.api.names import JobType, job_name
from magos.api.phases import Phase
from magos.api.reasons import reason_in
from magos.api.timestamps import format_time
from magos.api.workspace import Approval, ApprovalKind, GateReason
from magos.ids import RunID
from magos.reconcilers.workspace.evidence.situations import Approved
from magos.reconcilers.workspace.inputs.annotated import approved_by
from magos.reconcilers.workspace.move import Move, keep, normal, to
from magos.reconcilers.workspace.observation import Observation
from magos.runtime.decision import Outcome


def wait_for_approval(seen: Observation) -> Move:
    """Nothing happens but the schedule rolling on; status says since when whose approval is missing."""
    return replace(keep(seen), outcome=Outcome.WAITING)


def open_gate(seen: Observation, found: Approved) -> Move:
    """One status write takes the gate away and keeps who opened it."""
    workspace = seen.subject
    meta = workspace.metadata
    with_warnings = found.gate.reason is GateReason.AUDIT_VIOLATIONS
    kind = ApprovalKind.APPROVED_WITH_WARNINGS if with_warnings else ApprovalKind.APPROVED
    principal = approved_by(seen.settings.vouched(meta.annotations), seen.run_id)
    run = replace(
        seen.run,
        approval=Approval(kind=kind, at=format_time(seen.now), by=principal),
        apply_job=job_name(meta.namespace, meta.name, RunID(seen.run_id), JobType.APPLY),
    )
    message = f"Run {seen.run_id} is approved{f' by {principal}' if principal else ''}; the apply follows."
    phase = Phase(str(seen.phase))
    status = to(
        seen,
        phase,
        reason_in(phase, workspace.status.reason),
        message,
        current_run=run,
        awaiting_approval=None,
    )
    return Move(status=status, events=(normal(seen, "Approved", "Approve", message),))
