"""The end of a run: one status write, then one clean-up patch (spec §6.2.9).

The patch follows the status that makes it right; whatever a crash leaves is removed by any later pass.
"""

from magos.api.annotations import RECORD
from magos.api.likeness import CREDENTIALS_MATTER, credentials_hint
from magos.api.phases import Phase
from magos.api.reasons import Reason
from magos.api.workspace import CurrentRun, ObservedVariables
from magos.reconcilers.workspace.evidence.leftovers import leftovers
from magos.reconcilers.workspace.evidence.situations import Leftovers
from magos.reconcilers.workspace.handlers.recording import Ending, recorded, result_of
from magos.reconcilers.workspace.handlers.reset import remove_annotations
from magos.reconcilers.workspace.move import Move, normal, to, warning
from magos.reconcilers.workspace.observation import Observation
from magos.reconcilers.workspace.pod.record import decode_record

_ACTIONS = {"ApplySucceeded": "Apply", "NoChanges": "Plan", "ApplyFailed": "Apply"}


def finish(seen: Observation, phase: Phase, reason: Reason, message: str, **fields: object) -> Move:
    """End the current run in a terminal phase; ``fields`` of status are replaced in the same write."""
    message = f"{message}{_hint(seen, reason)}"
    served = seen.run.request or seen.subject.status.last_handled_reconcile_request
    fields.setdefault("last_handled_reconcile_request", served)
    status = to(seen, phase, reason, message, awaiting_approval=None, **fields)
    action = _ACTIONS.get(reason, "Run")
    event = (normal if phase is Phase.APPLIED else warning)(seen, reason, action, message)
    move = Move(
        status=status,
        effects=remove_annotations(seen, *leftovers(seen.subject, status)),
        events=(event,),
    )
    return recorded(seen, move, Ending(result=result_of(phase, reason), reason=str(reason), message=message))


def observed(run: CurrentRun) -> dict[str, object]:
    """Return the fields of status that tell what is applied, once ``run`` is."""
    return {
        "observed_revision": run.revision,
        "observed_source": run.source_key,
        "observed_variables": ObservedVariables(fingerprint=run.variables_fingerprint, sets=run.variable_sets),
    }


def clean_up(seen: Observation, found: Leftovers) -> Move:
    """Remove what a finished run has left."""
    return Move(effects=remove_annotations(seen, *found.annotations))


def _hint(seen: Observation, reason: Reason) -> str:
    """Where Git failed without credentials: which Secret was probably meant for the URL, by the Job's record."""
    job = seen.job_named(seen.run.apply_job) or seen.job_named(seen.run.plan_job)
    record = decode_record(job.metadata.annotations.get(RECORD, "")) if job is not None else None
    if reason not in CREDENTIALS_MATTER or record is None or not record.similar_secrets:
        return ""
    return f" {credentials_hint(record.similar_secrets)}"
