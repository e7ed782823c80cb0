"""From a created Job to one that ended: taking over the pin, showing progress, giving up a start (spec §6.2.9).

While a Job runs nothing is triggered; edits, commits and requests are compared when it has ended.
"""

from msgspec.structs import replace

from magos.api.annotations import RECORD, RELEASED, TRUE
from magos.api.kube import JOBS
from magos.api.names import JobType
from magos.api.phases import Phase
from magos.api.reasons import Reason, reason_in
from magos.api.timestamps import format_time
from magos.api.triggers import Trigger
from magos.api.workspace import WORKSPACES, CurrentRun
from magos.reconcilers.workspace.evidence.podproblems import start_problem
from magos.reconcilers.workspace.evidence.progress import unstarted
from magos.reconcilers.workspace.evidence.situations import JobHeld, JobPresent, JobRunning, JobUnstarted
from magos.reconcilers.workspace.handlers.finish import finish
from magos.reconcilers.workspace.handlers.reset import delete_job
from magos.reconcilers.workspace.handlers.saving import secure
from magos.reconcilers.workspace.inputs.probes import events_probe, live_probes
from magos.reconcilers.workspace.move import Move, ask_live, keep, normal, to
from magos.reconcilers.workspace.observation import Observation
from magos.reconcilers.workspace.pod.record import JobRecord, decode_record
from magos.runtime.decision import Outcome, Release, Unchanged


def adopt_plan(seen: Observation, found: JobPresent) -> Move:
    """The plan Job exists, or at least its pod: the run is what the Job was created with."""
    job, status = found.job, seen.subject.status
    record = decode_record(job.metadata.annotations.get(RECORD, "")) if job is not None else None
    run, trigger = _pinned(seen, record)
    message = f"Run {seen.run_id}: Job {run.plan_job} is created."
    return Move(
        status=to(
            seen,
            Phase.PLANNING,
            Reason.PLAN_JOB_CREATED,
            message,
            current_run=run,
            current_run_trigger=trigger,
            last_run_started_at=job.metadata.creation_timestamp if job is not None else format_time(seen.now),
            last_attempted_revision=run.revision or status.last_attempted_revision,
            policy_violations=(),
            plan_summary=None,
            policies_evaluated=None,
        ),
        events=(normal(seen, "PlanStarted", "Plan", f"{message} Revision {run.revision or 'not known yet'}."),),
    )


def adopt_apply(seen: Observation, found: JobPresent) -> Move:
    """The apply Job exists; from now on this very Job is the one that may start."""
    message = f"Run {seen.run_id}: Job {seen.run.apply_job} is created."
    run = replace(seen.run, apply_job_uid=found.job.metadata.uid if found.job is not None else "")
    return Move(
        status=to(seen, Phase.APPLYING, Reason.APPLY_JOB_CREATED, message, awaiting_approval=None, current_run=run),
        events=(normal(seen, "ApplyStarted", "Apply", f"{message} Revision {seen.run.revision}."),),
    )


def release_apply(seen: Observation, found: JobHeld) -> Move:
    """Let the apply Job start: exactly the one that a live status names, and while it does so."""
    if not seen.live:
        return ask_live(seen)
    job, workspace = found.job.metadata, seen.subject.metadata
    if not seen.run.apply_job_uid:
        return Move(status=replace(seen.subject.status, current_run=replace(seen.run, apply_job_uid=job.uid)))
    judged = Unchanged(
        kind=WORKSPACES,
        namespace=workspace.namespace,
        name=workspace.name,
        resource_version=workspace.resource_version,
    )
    effect = Release(
        kind=JOBS,
        namespace=job.namespace,
        name=job.name,
        uid=job.uid,
        resource_version=job.resource_version,
        annotations={RELEASED: TRUE},
        unchanged=judged,
    )
    return Move(effects=(effect,))


def progress_plan(seen: Observation, found: JobRunning) -> Move:
    """A container of the plan pod runs, or the pod has ended and its Job not yet."""
    saving = secure(seen, JobType.PLAN, found)
    return saving or Move(status=to(seen, Phase.PLANNING, Reason.PLANNING, f"Run {seen.run_id} plans{_commit(seen)}."))


def progress_apply(seen: Observation, found: JobRunning) -> Move:
    """A container of the apply pod runs, or the pod has ended and its Job not yet."""
    saving = secure(seen, JobType.APPLY, found)
    return saving or Move(
        status=to(seen, Phase.APPLYING, Reason.APPLYING, f"Run {seen.run_id} applies{_commit(seen)}.")
    )


def watch_start(seen: Observation, found: JobUnstarted) -> Move:
    """No container of the Job has started."""
    job, pods = found.job, found.pods
    start = unstarted(seen, job)
    if start.early:
        return keep(seen, effects=start.mark, again_at=start.again_at, outcome=Outcome.WAITING)
    if seen.warnings is None or (start.expired and not seen.live):
        meta = seen.subject.metadata
        return Move(
            probes=(*live_probes(meta.namespace, meta.name), events_probe(job, pods)),
            again_at=start.again_at,
            outcome=Outcome.WAITING,
        )
    problem = start_problem(job, pods, seen.warnings, seen.subject.spec.service_account_name)
    if start.expired:
        end = finish(seen, Phase.FAILED, problem.reason, f"{start.given_up} {problem.message}")
        return replace(end, effects=(delete_job(job), *end.effects))
    phase = Phase(str(seen.phase))
    reason = reason_in(phase, seen.subject.status.reason)
    message = f"Run {seen.run_id}: no container of Job {job.metadata.name} has started yet. {problem.message}"
    return Move(status=to(seen, phase, reason, message), again_at=start.again_at, outcome=Outcome.WAITING)


def _pinned(seen: Observation, record: JobRecord | None) -> tuple[CurrentRun, Trigger]:
    """The run as the Job was created with it; without a readable record, what status says."""
    run, trigger = seen.run, seen.subject.status.current_run_trigger or Trigger.UNKNOWN
    if record is None or record.run_id != seen.run_id:
        return run, trigger
    pinned = replace(
        run,
        revision=record.revision,
        source_key=record.source_key,
        spec_hash=record.spec_hash,
        request=record.request,
        principal=record.principal,
        variables_fingerprint=record.variables_fingerprint,
        # Which variables those were is known only if status tells of the same ones.
        variables=run.variables if record.variables_fingerprint == run.variables_fingerprint else (),
        variable_sets=run.variable_sets if record.variables_fingerprint == run.variables_fingerprint else (),
    )
    return pinned, Trigger(record.trigger) if record.trigger in set(Trigger) else trigger


def _commit(seen: Observation) -> str:
    return f" commit {seen.run.revision}" if seen.run.revision else ""
