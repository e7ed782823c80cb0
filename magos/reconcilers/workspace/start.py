"""The start of a plan and of an apply: the checks of spec §6.2.6 in their order, then the Job.

1. Permission, Jobs and pods are judged on live reads; the Job is created only if the Workspace is still at the version
   that was judged.
2. A start that waits says for what. A refused start is no run: permission is taken, phase Failed, no plan Job named.
3. Nothing is skipped because it cannot be judged: what this version cannot evaluate is refused.
"""

from msgspec import Struct
from msgspec.structs import replace

from magos.api.annotations import EXECUTION_ALLOWED
from magos.api.kube import JOBS, PERSISTENT_VOLUME_CLAIMS, Job, JobManifest
from magos.api.labels import ARCHIVE_FINALIZER, RUN_ID
from magos.api.meta import controller_of
from magos.api.names import JobType, job_name, volume_claim_name
from magos.api.phases import Phase
from magos.api.reasons import Reason
from magos.api.triggers import Trigger
from magos.api.workspace import WORKSPACES
from magos.ids import RunID
from magos.reconcilers.effects import RepositorySecretReport
from magos.reconcilers.workspace.admission import Refused, judge_inputs, judge_secret
from magos.reconcilers.workspace.annotated import read_annotations
from magos.reconcilers.workspace.environment import JobPlan
from magos.reconcilers.workspace.jobs import IDENTITY, claim_manifest, job_manifest
from magos.reconcilers.workspace.move import Move, keep, to, warning
from magos.reconcilers.workspace.observation import Observation, start_probes
from magos.reconcilers.workspace.record import JobRecord
from magos.reconcilers.workspace.reset import remove_annotations, reset
from magos.reconcilers.workspace.triggers import REASONS, Cause, find_cause, higher
from magos.runtime.decision import Create, Effect, Event, Outcome, Unchanged

__all__ = ["JUDGED_AGAIN", "await_permission", "refuse", "rejudge", "start_apply", "start_plan"]

JUDGED_AGAIN = frozenset(
    {
        Reason.SCHEME_NOT_ALLOWED,
        Reason.INVALID_REPOSITORY_SECRET,
        Reason.INVALID_POLICY_SELECTOR,
        Reason.POLICY_EVALUATION_FAILED,
        Reason.UNRESOLVED_VARIABLES,
        Reason.VOLUME_CONFLICT,
    }
)
"""Refusals that every pass may judge again, because nothing has to be created to find out."""


class Blocker(Struct, frozen=True, kw_only=True):
    """What an earlier run has left that a new pod must not meet."""

    message: str


def await_permission(seen: Observation) -> Move:
    """Show who is expected to give permission."""
    workspace = seen.subject
    namespace, project = workspace.metadata.namespace, workspace.spec.project_ref.name
    if seen.project is None:
        message = (
            f"Project {namespace}/{project} does not exist: create it, or a Rollout of that name;"
            f" run {seen.run_id} waits for its permission."
        )
    else:
        message = (
            f"Run {seen.run_id} waits for permission from Project {namespace}/{project},"
            " or from the Rollout of the same name if there is one: see its message."
        )
    phase = seen.phase or Phase.PENDING
    return Move(status=to(seen, phase, Reason.AWAITING_ROLLOUT, message), outcome=Outcome.WAITING)


def start_plan(seen: Observation) -> Move:
    """Check everything and create the plan Job."""
    blocker = find_blocker(seen)
    if blocker is not None:
        return _wait(seen, blocker)
    if not seen.live or seen.secrets is None:
        return Move(probes=start_probes(seen.subject), outcome=Outcome.WAITING)
    refused = judge_inputs(seen) or judge_secret(seen.secrets)
    if refused is not None:
        return refuse(seen, refused)
    claim = _claim(seen)
    if isinstance(claim, Refused):
        return refuse(seen, claim)
    if isinstance(claim, Blocker):
        return _wait(seen, claim)
    plan = _job_plan(seen, JobType.PLAN, seen.secrets)
    return Move(effects=(*claim, _create(seen, _manifest(seen, plan))), events=_secret_events(seen, seen.secrets))


def start_apply(seen: Observation) -> Move:
    """Create the apply Job of the plan that is stored."""
    blocker = find_blocker(seen)
    if blocker is not None:
        return replace(keep(seen), outcome=Outcome.WAITING)
    if not seen.live or seen.secrets is None:
        return Move(probes=start_probes(seen.subject), outcome=Outcome.WAITING)
    refused = judge_inputs(seen)  # the Project may have got variables or policies since the plan
    if refused is not None:
        return refuse(seen, refused)
    if not seen.run.apply_job:
        meta = seen.subject.metadata
        name = job_name(meta.namespace, meta.name, RunID(seen.run_id), JobType.APPLY)
        return Move(status=replace(seen.subject.status, current_run=replace(seen.run, apply_job=name)))
    plan = _job_plan(seen, JobType.APPLY, seen.secrets)
    return Move(effects=(_create(seen, _manifest(seen, plan)),))


def refuse(seen: Observation, refused: Refused) -> Move:
    """End a start that must not go on: a refusal is not a run."""
    run = replace(seen.run, plan_job="", apply_job="")
    served = run.request or seen.subject.status.last_handled_reconcile_request
    return Move(
        status=to(
            seen,
            Phase.FAILED,
            refused.reason,
            refused.message,
            current_run=run,
            last_handled_reconcile_request=served,
        ),
        effects=remove_annotations(seen, EXECUTION_ALLOWED),
        events=(warning(seen, refused.reason, "Start", refused.message),),
    )


def rejudge(seen: Observation) -> Move:
    """Judge a refused start again; once the checks pass, the run begins anew with its former trigger."""
    refused = judge_inputs(seen)
    if refused is None:
        if not seen.live or seen.secrets is None:
            return Move(probes=start_probes(seen.subject), outcome=Outcome.WAITING)
        claim = _claim(seen)
        refused = judge_secret(seen.secrets) or (claim if isinstance(claim, Refused) else None)
    if refused is None:
        return restart(seen)
    if (refused.reason, refused.message) == (seen.subject.status.reason, seen.subject.status.message):
        return keep(seen)
    return Move(
        status=to(seen, Phase.FAILED, refused.reason, refused.message),
        events=(warning(seen, refused.reason, "Start", refused.message),),
    )


def restart(seen: Observation) -> Move:
    """Begin a refused run anew: with its former trigger, unless something of higher precedence has happened."""
    former = seen.subject.status.current_run_trigger
    cause = find_cause(seen)
    trigger = former or Trigger.UNKNOWN
    if cause is not None and cause.trigger is not Trigger.RETRY:
        trigger = higher(former, cause.trigger)
    return reset(seen, Cause(trigger=trigger, reason=REASONS[trigger]))


def find_blocker(seen: Observation) -> Blocker | None:
    """Return what still runs or lingers under this Workspace's name, whoever owns it (invariant I1)."""
    for job in seen.jobs:
        if not job.ended:
            return Blocker(message=f"Job {job.metadata.name} has not ended.")
    for pod in seen.pods:
        if not pod.ended:
            since = pod.metadata.deletion_timestamp
            where = f" on node {pod.spec.node_name}" if pod.spec.node_name else ""
            going = f", terminating since {since}" if since else ""
            return Blocker(
                message=f"Pod {pod.metadata.name} has not ended{where}{going}: wait for it, or remove it"
                " if its node is dead."
            )
    lingering = next((job for job in seen.own_jobs if _lingers(job, seen.run_id)), None)
    if lingering is not None:
        return Blocker(message=f"Job {lingering.metadata.name} of an earlier run is being deleted.")
    return None


def _lingers(job: Job, run_id: str) -> bool:
    return job.metadata.labels.get(RUN_ID) != run_id and ARCHIVE_FINALIZER not in job.metadata.finalizers


def _wait(seen: Observation, blocker: Blocker) -> Move:
    status = to(seen, Phase.PENDING, Reason.PREVIOUS_RUNNER_TERMINATING, f"Run {seen.run_id} waits: {blocker.message}")
    return Move(status=status, outcome=Outcome.WAITING)


def _claim(seen: Observation) -> tuple[Effect, ...] | Refused | Blocker:
    """The claim to create, nothing if it is there, or why the start cannot go on."""
    workspace, claim = seen.subject, seen.claim
    if claim is None:
        manifest = claim_manifest(workspace, seen.settings)
        return (Create(kind=PERSISTENT_VOLUME_CLAIMS, manifest=manifest),)
    owner = controller_of(claim.metadata)
    if owner is None or owner.uid != workspace.metadata.uid:
        return Refused(reason=Reason.VOLUME_CONFLICT, message=foreign_claim(seen))
    if claim.metadata.deletion_timestamp is not None:
        return Blocker(message=f"PersistentVolumeClaim {claim.metadata.name} is being deleted.")
    return ()


def foreign_claim(seen: Observation) -> str:
    """Return the message for a claim that is not ours."""
    meta = seen.subject.metadata
    return (
        f"PersistentVolumeClaim {meta.namespace}/{volume_claim_name(meta.name)} exists but does not belong to this"
        " Workspace: rename or delete it, nothing of it is used."
    )


def _job_plan(seen: Observation, job_type: JobType, secret: RepositorySecretReport) -> JobPlan:
    run = seen.run
    return JobPlan(
        job_type=job_type,
        run_id=seen.run_id,
        revision=run.revision,
        plan_digest=run.plan_digest if job_type is JobType.APPLY else "",
        log_level=read_annotations(seen.subject.metadata.annotations).log_level,
        grace_seconds=seen.settings.pod.termination_grace_period_seconds,
        secret=secret,
        passed_on=seen.settings.runner_environment,
    )


def _manifest(seen: Observation, plan: JobPlan) -> JobManifest:
    workspace, run = seen.subject, seen.run
    record = JobRecord(
        run_id=plan.run_id,
        job_type=plan.job_type,
        trigger=str(workspace.status.current_run_trigger or Trigger.UNKNOWN),
        project=workspace.spec.project_ref.name,
        target_revision=workspace.spec.source.target_revision,
        source_key=run.source_key,
        spec_hash=run.spec_hash,
        revision=run.revision,
        request=run.request,
        principal=run.principal,
        plan_digest=plan.plan_digest,
    )
    return job_manifest(workspace, plan, record, seen.settings)


def _create(seen: Observation, manifest: JobManifest) -> Effect:
    return Create(kind=JOBS, manifest=manifest, identity=IDENTITY, unchanged=_unchanged(seen))


def _unchanged(seen: Observation) -> Unchanged:
    meta = seen.subject.metadata
    return Unchanged(kind=WORKSPACES, namespace=meta.namespace, name=meta.name, resource_version=meta.resource_version)


def _secret_events(seen: Observation, secret: RepositorySecretReport) -> tuple[Event, ...]:
    """What is odd about the namespace's repository Secrets without keeping the run from starting."""
    events = []
    if len(secret.names) > 1:
        note = (
            f"Secrets {', '.join(secret.names)} all name {seen.subject.spec.source.repo_url!r}: the oldest,"
            f" {secret.names[0]}, is used; delete the others."
        )
        events.append(warning(seen, "DuplicateRepositorySecret", "Start", note))
    if secret.incomplete:
        note = (
            f"Secret {', '.join(secret.incomplete)} is labelled as repository Secret but has no key repoURL, so it"
            " belongs to no repository: add the key."
        )
        events.append(warning(seen, Reason.INVALID_REPOSITORY_SECRET, "Start", note))
    return tuple(events)
