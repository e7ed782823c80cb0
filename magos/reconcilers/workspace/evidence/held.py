"""Apply Jobs that were created suspended and may not start yet (spec §6.2.8).

A request that creates a Job may take effect long after whoever sent it has given up, when the plan is discarded or the
Job was deleted. So an apply Job starts nothing by being created. Only the one that status names is let go.
"""

from magos.api.annotations import RECORD, RELEASED
from magos.api.kube import Job
from magos.api.phases import WITH_PLAN, Phase
from magos.reconcilers.permission import permitted
from magos.reconcilers.workspace.observation import Observation
from magos.reconcilers.workspace.pod.record import decode_record


def is_held(job: Job) -> bool:
    """True if the Job was never let go: no pod of it has ever been there. One that a person suspends later is not."""
    return bool(job.spec.suspend) and RELEASED not in job.metadata.annotations and not job.ended


def stray_jobs(seen: Observation) -> tuple[Job, ...]:
    """Return the held Jobs that are not the one which status is about to apply with."""
    held = (job for job in seen.own_jobs if is_held(job) and job.metadata.deletion_timestamp is None)
    return tuple(job for job in held if not _is_wanted(seen, job))


def _is_wanted(seen: Observation, job: Job) -> bool:
    """Name, run, commit and plan agree with status; before it is taken over the permission to apply is there, too."""
    run, meta = seen.run, job.metadata
    if seen.phase is Phase.APPLYING:
        named = run.apply_job_uid in ("", meta.uid)
    else:
        named = seen.phase in WITH_PLAN and not seen.gated and permitted(seen.subject)
    record = decode_record(meta.annotations.get(RECORD, ""))
    if not named or record is None or meta.name != run.apply_job:
        return False
    return (record.run_id, record.revision, record.plan_digest) == (seen.run_id, run.revision, run.plan_digest)
