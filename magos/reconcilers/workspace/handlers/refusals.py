"""What to say when the API server refuses an effect, or an answer, for good (spec §6.1, §14.1).

The refused effect is not tried again in this pass. A run whose Job may still work is never ended by a refusal: there
the message says what is wrong, and the next event or a minute brings the next try.
"""

from datetime import timedelta

from magos.api.annotations import RESULT
from magos.api.kube import CONFIG_MAPS, JOBS, PERSISTENT_VOLUME_CLAIMS
from magos.api.names import JobType
from magos.api.phases import RUNNING, TERMINAL, WITH_PLAN, Phase
from magos.api.reasons import Reason, reason_in
from magos.reconcilers.workspace.evidence.podproblems import about_quota
from magos.reconcilers.workspace.evidence.results import result_of_pods
from magos.reconcilers.workspace.evidence.situations import Denied, JobEnded, JobMissing
from magos.reconcilers.workspace.handlers.ends import conclude_apply, conclude_plan
from magos.reconcilers.workspace.handlers.finish import finish
from magos.reconcilers.workspace.handlers.starting.admission import Refused
from magos.reconcilers.workspace.handlers.starting.blockers import foreign_claim
from magos.reconcilers.workspace.handlers.starting.start import refuse
from magos.reconcilers.workspace.move import Move, keep, to, warning
from magos.reconcilers.workspace.observation import Observation
from magos.runtime.decision import UNREADABLE, Create, Outcome, PatchAnnotations, QueryFailure, Refusal

_PATIENCE = timedelta(minutes=1)


def explain(seen: Observation, found: Denied) -> Move:
    """Turn a refusal into what status says."""
    if seen.phase in RUNNING:
        return _during_run(seen, found.answer)
    refused = _refused(seen, found.answer)
    if seen.phase in WITH_PLAN:
        return finish(seen, Phase.FAILED, refused.reason, refused.message)
    if seen.phase in TERMINAL and seen.phase is not Phase.APPLIED:
        # The cause of the failure stays in view; the refusal is an Event.
        return keep(
            seen, events=(warning(seen, refused.reason, "Reconcile", refused.message),), outcome=Outcome.WAITING
        )
    if seen.phase is Phase.APPLIED:
        failed = to(seen, Phase.FAILED, refused.reason, refused.message)
        return Move(status=failed, events=(warning(seen, refused.reason, "Reconcile", refused.message),))
    if isinstance(found.answer, Refusal) and isinstance(found.answer.effect, PatchAnnotations):
        status = refuse(seen, refused).status  # what was just refused must not simply be asked again
        return Move(status=status, events=(warning(seen, refused.reason, "Reconcile", refused.message),))
    return refuse(seen, refused)


def _during_run(seen: Observation, answer: Refusal | QueryFailure) -> Move:
    effect = answer.effect if isinstance(answer, Refusal) else None
    if isinstance(effect, PatchAnnotations) and effect.kind == JOBS and RESULT in effect.annotations:
        told = _without_annotation(seen)
        if not told.probes:  # behind a question the annotation would be tried again, and nothing would be said
            return told
    text = _refused(seen, answer).message
    phase = Phase(str(seen.phase))
    reason = reason_in(phase, seen.subject.status.reason)
    return keep(
        seen,
        status=to(seen, phase, reason, text),
        events=(warning(seen, Reason.RECONCILE_ERROR, "Reconcile", text),),
        again_at=seen.now + _PATIENCE,
        outcome=Outcome.WAITING,
    )


def _without_annotation(seen: Observation) -> Move:
    """The result cannot be saved on the Job: act on what the pod says."""
    applying = seen.phase is Phase.APPLYING
    job_type = JobType.APPLY if applying else JobType.PLAN
    job = seen.job_named(seen.run.apply_job if applying else seen.run.plan_job)
    pods = seen.pods_of_run(job_type)
    evidence = result_of_pods(pods, seen.run_id, job_type)
    if applying:
        found = JobEnded(job=job, pods=pods) if job is not None else JobMissing(pods=pods)
        return conclude_apply(seen, found, evidence)
    return conclude_plan(seen, JobEnded(job=job, pods=pods), evidence) if job is not None else keep(seen)


def _refused(seen: Observation, answer: Refusal | QueryFailure) -> Refused:
    if isinstance(answer, QueryFailure):
        return _unread(answer)
    effect = answer.effect
    if isinstance(effect, Create) and effect.kind == PERSISTENT_VOLUME_CLAIMS:
        return _claim_refused(seen, answer)
    if isinstance(effect, Create) and effect.kind in (JOBS, CONFIG_MAPS) and not _lacks_rights(answer):
        taken = answer.reason == "AlreadyExists"
        hint = (
            "An object of that name belongs to somebody else: delete it."
            if taken
            else "Check quota and admission policies."
        )
        what = f"{effect.kind.name} {effect.manifest.metadata.name}"
        text = f"{what} was rejected: {answer.message.rstrip('.')}. {hint}"
        return Refused(reason=Reason.JOB_REJECTED, message=text)
    return _error(answer)


def _unread(failure: QueryFailure) -> Refused:
    if failure.reason == UNREADABLE:
        return Refused(reason=Reason.RECONCILE_ERROR, message=f"{failure.message}. Until then nothing is started.")
    text = f"{failure.reason}: {failure.message}"
    return Refused(
        reason=Reason.RECONCILE_ERROR,
        message=f"The API server refused a read: {text}. Check the rights of the workspace controller.",
    )


def _claim_refused(seen: Observation, refusal: Refusal) -> Refused:
    if refusal.reason == "AlreadyExists":
        return Refused(reason=Reason.VOLUME_CONFLICT, message=foreign_claim(seen))
    if about_quota(refusal.message):
        return Refused(
            reason=Reason.QUOTA_EXCEEDED,
            message=f"The PersistentVolumeClaim was rejected: {refusal.message.rstrip('.')}. Raise the quota.",
        )
    return _error(refusal)


def _error(refusal: Refusal) -> Refused:
    what = type(refusal.effect).__name__
    return Refused(
        reason=Reason.RECONCILE_ERROR,
        message=f"The API server refused {what}: {refusal.message.rstrip('.')} ({refusal.code} {refusal.reason})."
        " Check the rights of the workspace controller and admission policies.",
    )


def _lacks_rights(refusal: Refusal) -> bool:
    return refusal.code == 403 and "cannot create resource" in refusal.message
