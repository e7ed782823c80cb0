"""How a run begins (spec §6.2.4): the reset, its repetition after a crash, and the amendment of a run that waits.

The status write comes first and names everything: run ID, trigger, pending revision, spec hash, plan Job. With it
permission and approvals of the run before are void, because they name that run; they are removed behind it, then the
Jobs of earlier runs. Only permission that names nothing would count for the new run: it is removed first.
"""

from msgspec.structs import replace

from magos.api.annotations import APPROVAL, PERMISSION
from magos.api.kube import JOBS, Job
from magos.api.labels import ARCHIVE_FINALIZER
from magos.api.names import JobType, job_name
from magos.api.phases import WITH_PLAN, Phase
from magos.api.reasons import Reason, reason_in
from magos.api.triggers import Trigger
from magos.api.workspace import WORKSPACES, CurrentRun, UsedVariableSet
from magos.ids import RunID, mint_run_id
from magos.reconcilers.permission import unnamed
from magos.reconcilers.revisions import pending_revision, source_of
from magos.reconcilers.workspace.evidence.leftovers import deletable_jobs
from magos.reconcilers.workspace.evidence.situations import HalfReset, Triggered
from magos.reconcilers.workspace.evidence.triggers import REASONS, Cause, higher, unconfirmed
from magos.reconcilers.workspace.handlers.recording import Ending, discarding, recorded
from magos.reconcilers.workspace.inputs.annotated import principal_of, read_annotations
from magos.reconcilers.workspace.inputs.probes import input_probes
from magos.reconcilers.workspace.inputs.specification import specification_hash
from magos.reconcilers.workspace.inputs.variables import Composition
from magos.reconcilers.workspace.move import Move, ask_inputs, normal, to
from magos.reconcilers.workspace.observation import Observation
from magos.runtime.decision import Delete, Effect, PatchAnnotations, Propagation


def begin(seen: Observation, found: Triggered) -> Move:
    """Reset with the first trigger that holds."""
    return ask_inputs(seen) if unconfirmed(seen, found.cause.trigger) else reset(seen, found.cause)


def reset(seen: Observation, cause: Cause, ending: Ending | None = None) -> Move:
    """Begin a new run; ``ending`` is how the one before ended, which by default is discarded if it had a plan."""
    workspace, status = seen.subject, seen.subject.status
    first = not status.current_run_id
    if unnamed(workspace) and not first:
        return _take_permission(seen)
    run_id = mint_run_id(seen.now, seen.entropy)
    run = _fresh_run(seen, run_id)
    forget_attempt = status.current_run is not None and status.current_run.source_key != run.source_key
    revision = f"commit {run.revision}" if run.revision else "a commit that the runner resolves"
    message = f"Run {run_id} ({cause.trigger}) waits to start with {revision}."
    desired = to(
        seen,
        Phase.PENDING,
        cause.reason,
        message,
        current_run_id=run_id,
        current_run_trigger=cause.trigger,
        current_run=run,
        last_run_started_at=None,
        last_attempted_revision="" if forget_attempt else status.last_attempted_revision,
        awaiting_approval=None,
        policy_violations=(),
        plan_summary=None,
        policies_evaluated=None,
    )
    discarded = f"The plan of run {seen.run_id} is discarded ({cause.trigger})."
    events = [normal(seen, "RunPending", "Start", message)]
    if seen.phase in WITH_PLAN or seen.phase is Phase.PLANNING:
        events.insert(0, normal(seen, "PlanDiscarded", "Plan", discarded))
    effects = () if first else remove_annotations(seen, *PERMISSION, *APPROVAL)
    move = Move(status=desired, effects=(*effects, *map(delete_job, deletable_jobs(seen))), events=tuple(events))
    return recorded(seen, move, ending or discarding(discarded), run=seen.run)


def finish_reset(seen: Observation, found: HalfReset) -> Move:
    """Repeat what follows the status write of a reset; permission may be this run's by now."""
    return Move(effects=(*remove_annotations(seen, *APPROVAL), *map(delete_job, found.jobs)))


def amend(seen: Observation, found: Triggered) -> Move:
    """Bring the waiting run up to date: what its permission names is something else then.

    Permission that names nothing would count for it, so that goes first.
    """
    trigger = found.cause.trigger
    if unconfirmed(seen, trigger):
        return ask_inputs(seen)
    status, fresh = seen.subject.status, _fresh_run(seen, RunID(seen.run_id))
    another = trigger in (Trigger.CONFIGURATION, Trigger.REVISION) or inputs_of(fresh) != inputs_of(seen.run)
    if another and unnamed(seen.subject):
        return _take_permission(seen)
    run = replace(fresh, request=fresh.request or seen.run.request, principal=fresh.principal or seen.run.principal)
    named = status.current_run_trigger or Trigger.UNKNOWN
    merged = higher(named, trigger)
    filled = trigger is Trigger.UNKNOWN
    if filled:  # nothing new, so a repetition goes on pausing; everything else begins at once
        run = replace(run, interruptions=seen.run.interruptions, not_before=seen.run.not_before)
    kept = merged is named and (filled or status.reason != Reason.INTERRUPTED)
    message = f"Run {seen.run_id} ({merged}) waits to start with {run.revision or 'a commit that the runner resolves'}."
    forget = run.source_key != seen.run.source_key
    return Move(
        status=to(
            seen,
            Phase.PENDING,
            reason_in(Phase.PENDING, status.reason) if kept else REASONS[merged],
            status.message if filled and status.reason == Reason.INTERRUPTED else message,
            current_run=run,
            current_run_trigger=merged,
            last_attempted_revision="" if forget else status.last_attempted_revision,
        )
    )


def inputs_of(run: CurrentRun) -> tuple[str, tuple[UsedVariableSet, ...]]:
    """What permission was given for besides commit and spec: a later step gets it after the earlier ones."""
    return run.variables_fingerprint, run.variable_sets


def _take_permission(seen: Observation) -> Move:
    """Take it first. What was read live to see the cause is read again: a cache that lags would hide it, and the next
    permission that a person gives would be taken as well."""
    probes = input_probes(seen.subject, seen.project) if seen.inputs_live else ()
    return Move(effects=remove_permission(seen), probes=probes)


def remove_permission(seen: Observation) -> tuple[Effect, ...]:
    """Return the conditional patch that removes permission and what it was given for; nothing if there is neither."""
    return remove_annotations(seen, *PERMISSION)


def remove_annotations(seen: Observation, *keys: str) -> tuple[Effect, ...]:
    """Return the conditional patch that removes those of ``keys`` that are set; nothing if none is."""
    meta = seen.subject.metadata
    present = {key: None for key in keys if key in meta.annotations}
    if not present:
        return ()
    return (
        PatchAnnotations(
            kind=WORKSPACES,
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            annotations=present,
            resource_version=meta.resource_version,
        ),
    )


def _fresh_run(seen: Observation, run_id: RunID) -> CurrentRun:
    """Inputs that are incomplete, or those of a missing Project, leave the fingerprint as it was: so it is a change
    once they are known, and no change if they come back as they were."""
    workspace = seen.subject
    known = seen.project is not None or not seen.has_run
    inputs = seen.inputs if isinstance(seen.inputs, Composition) and known else None
    meta = workspace.metadata
    request = read_annotations(meta.annotations).request
    return CurrentRun(
        revision=pending_revision(workspace),
        source_key=source_of(workspace),
        spec_hash=specification_hash(workspace, seen.project),
        variables_fingerprint=inputs.fingerprint if inputs is not None else seen.run.variables_fingerprint,
        variables=inputs.used if inputs is not None else seen.run.variables,
        variable_sets=inputs.sets if inputs is not None else seen.run.variable_sets,
        plan_job=job_name(meta.namespace, meta.name, run_id, JobType.PLAN),
        request=request,
        principal=principal_of(seen.settings.vouched(meta.annotations), request),
    )


def delete_job(job: Job) -> Effect:
    """Return the deletion of exactly this Job; its pods are stopped gracefully behind it.

    A Job that waits for the archive stays, and garbage collection leaves its pods to it: right for a pod that has
    ended, because its log is still to be read. Of a Job that works the pods are to stop first.
    """
    meta = job.metadata
    first = ARCHIVE_FINALIZER in meta.finalizers and not job.ended
    return Delete(
        kind=JOBS,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        propagation=Propagation.FOREGROUND if first else Propagation.BACKGROUND,
    )
