"""Records of runs (spec §8.2): written into status by the very write that ends a run, and handed on by a deletion.

A refused start is no run and leaves no record. A run that the deletion of its Workspace cuts off has an open record
from the first write of the deletion on, which is closed when the finalizer goes.
"""

from msgspec import Struct
from msgspec.structs import replace

from magos.api.labels import JOB_TYPE, RUN_ID
from magos.api.names import JobType
from magos.api.phases import RUNNING, WITH_PLAN, Phase
from magos.api.reasons import Reason
from magos.api.timestamps import format_time
from magos.api.triggers import Trigger
from magos.api.workspace import CurrentRun, RunRecord, RunResult
from magos.reconcilers.archive.keeping import GIVEN_UP
from magos.reconcilers.archive.outbox import appended, remaining
from magos.reconcilers.archive.parcels import post
from magos.reconcilers.workspace.evidence.held import is_held
from magos.reconcilers.workspace.move import Move, warning
from magos.reconcilers.workspace.observation import Observation
from magos.runtime.decision import Create

_CUT_OFF = "The Workspace was deleted during this run."


class Ending(Struct, frozen=True, kw_only=True):
    """How a run ended."""

    result: RunResult
    reason: str
    message: str


def has_begun(seen: Observation) -> bool:
    """Tell whether status speaks of a run that has a plan Job and has not ended."""
    return seen.has_run and seen.phase in RUNNING | WITH_PLAN


def result_of(phase: Phase, reason: Reason) -> RunResult:
    """Return the result of a run that ends in a terminal phase."""
    if phase is Phase.APPLIED:
        return RunResult.NO_CHANGES if reason is Reason.NO_CHANGES else RunResult.APPLIED
    return RunResult.VALIDATION_FAILED if phase is Phase.VALIDATION_FAILED else RunResult.FAILED


def interruption(message: str) -> Ending:
    """Return how a run ends whose plan infrastructure ended."""
    return Ending(result=RunResult.FAILED, reason=str(Reason.INTERRUPTED), message=message)


def discarding(message: str) -> Ending:
    """Return how a run ends whose plan is not wanted any more."""
    return Ending(result=RunResult.DISCARDED, reason="PlanDiscarded", message=message)


def recorded(seen: Observation, move: Move, ending: Ending, run: CurrentRun | None = None) -> Move:
    """Return the move that ends the current run, with the record in its status; ``run`` is what status says of it.

    If the queue is full, its oldest record goes, which retention would not keep anyway, and an Event says so.
    """
    status = move.status
    if status is None or not (seen.settings.keeping.records and has_begun(seen)):
        return move
    record = _record(seen, run or status.current_run or seen.run, ending)
    left = remaining(status.history_outbox, seen.history.stored)
    outbox = appended(left, record, seen.settings.keeping.retention)
    lost = [each.run_id for each in left if each.run_id not in {kept.run_id for kept in outbox}]
    events = move.events
    if lost:
        note = (
            f"The record of run {', '.join(lost)} is given up: newer runs fill the queue while the run history does not"
            " answer. Check the database."
        )
        events = (*events, warning(seen, GIVEN_UP, "Archive", note))
    return replace(move, status=replace(status, history_outbox=outbox), events=events)


def opened(seen: Observation) -> tuple[RunRecord, ...]:
    """Return the outbox for the first status of a deletion: with an open record of the run that it cuts off."""
    left = remaining(seen.subject.status.history_outbox, seen.history.stored)
    unseen = seen.phase is Phase.PENDING and seen.job_named(seen.run.plan_job) is not None
    if not (seen.settings.keeping.records and (has_begun(seen) or unseen)):
        return left
    return appended(left, _record(seen, seen.run, None), seen.settings.keeping.retention)


def handed_on(seen: Observation) -> tuple[Create, ...]:
    """Return the creation of the ConfigMap that takes over what is not stored yet; nothing if all of it is."""
    keeping = seen.settings.keeping
    if not (keeping.records and keeping.namespace):
        return ()
    left = tuple(_closed(seen, record) for record in opened(seen))
    return (post(seen.subject, left, keeping.namespace),) if left else ()


def _record(seen: Observation, run: CurrentRun, ending: Ending | None) -> RunRecord:
    status, approval = seen.subject.status, run.approval
    return RunRecord(
        run_id=seen.run_id,
        trigger=status.current_run_trigger or Trigger.UNKNOWN,
        target_revision=seen.subject.spec.source.target_revision,
        revision=run.revision,
        spec_hash=run.spec_hash,
        principal=run.principal,
        approved_by=approval.by if approval is not None else "",
        approval_kind=approval.kind if approval is not None else None,
        variables=run.variables,
        started_at=status.last_run_started_at,
        finished_at=format_time(seen.now) if ending is not None else None,
        result=ending.result if ending is not None else None,
        reason=ending.reason if ending is not None else "",
        message=ending.message if ending is not None else "",
    )


def _closed(seen: Observation, record: RunRecord) -> RunRecord:
    """An open record ends by what its apply Job says; without one the plan was discarded."""
    if record.result is not None:
        return record
    wanted = (record.run_id, str(JobType.APPLY))
    jobs = [
        job
        for job in seen.own_jobs
        if (job.metadata.labels.get(RUN_ID), job.metadata.labels.get(JOB_TYPE)) == wanted and not is_held(job)
    ]
    result = RunResult.FAILED if jobs else RunResult.DISCARDED
    if any(job.complete for job in jobs):
        result = RunResult.APPLIED
    return replace(
        record, result=result, finished_at=format_time(seen.now), reason=str(Reason.DELETING), message=_CUT_OFF
    )
