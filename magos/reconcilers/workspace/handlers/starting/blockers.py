"""What a new pod must not meet (spec §6.2.6): runners of earlier runs, their Jobs, a volume claim that is not ours."""

from msgspec import Struct

from magos.api.kube import PERSISTENT_VOLUME_CLAIMS, Job
from magos.api.labels import ARCHIVE_FINALIZER, RUN_ID
from magos.api.meta import OwnerReference, controller_of
from magos.api.names import volume_claim_name
from magos.api.reasons import Reason
from magos.api.workspace import WORKSPACES, Workspace
from magos.reconcilers.workspace.evidence.progress import awaits_archive
from magos.reconcilers.workspace.handlers.reset import delete_job
from magos.reconcilers.workspace.handlers.starting.admission import Refused
from magos.reconcilers.workspace.observation import Observation
from magos.reconcilers.workspace.pod.manifest import claim_manifest
from magos.runtime.decision import Create, Effect


class Blocker(Struct, frozen=True, kw_only=True):
    """What a start waits for: it will be gone by itself, by a person's hand, or by ``effects``."""

    reason: Reason = Reason.PREVIOUS_RUNNER_TERMINATING
    message: str
    effects: tuple[Effect, ...] = ()


def find_blocker(seen: Observation) -> Blocker | None:
    """Return what still runs or lingers under this Workspace's name, whoever owns it (invariant I1)."""
    for job in seen.jobs:
        if not job.ended and (_is_in_the_way(seen, job) or not awaits_archive(job, seen.pods)):
            created = f" since {job.metadata.creation_timestamp}" if job.metadata.creation_timestamp else ""
            return Blocker(message=f"Job {job.metadata.name} has not ended{created}: wait for it, or delete it.")
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
        return Blocker(
            message=f"Job {lingering.metadata.name} of an earlier run is being deleted: wait for it, or find out which"
            " of its finalizers holds it.",
            # A reset deletes them all, but one may appear later: its creation was given up long ago and came late.
            effects=(delete_job(lingering),) if lingering.metadata.deletion_timestamp is None else (),
        )
    return None


def judge_claim(seen: Observation) -> tuple[Effect, ...] | Refused | Blocker:
    """Return the creation of the claim, nothing if it is there, or why the start cannot go on."""
    workspace, claim = seen.subject, seen.claim
    if claim is None:
        manifest = claim_manifest(workspace, seen.settings)
        return (Create(kind=PERSISTENT_VOLUME_CLAIMS, manifest=manifest),)
    owner = controller_of(claim.metadata)
    if owner is not None and _is_former(owner, workspace):
        return Blocker(
            message=f"PersistentVolumeClaim {claim.metadata.name} belongs to a former Workspace of this name (UID"
            f" {owner.uid}): Kubernetes removes it once no pod uses it, then a new one is created. If it stays, find"
            f" the pod that uses it, or run `kubectl delete pvc {claim.metadata.name}"
            f" --namespace={claim.metadata.namespace}`; nothing of it is used."
        )
    if owner is None or owner.uid != workspace.metadata.uid:
        return Refused(reason=Reason.VOLUME_CONFLICT, message=foreign_claim(seen))
    if claim.metadata.deletion_timestamp is not None:
        return Blocker(
            message=f"PersistentVolumeClaim {claim.metadata.name} is being deleted: a pod that uses it holds it, find"
            " and delete that pod; then a new claim is created."
        )
    return ()


def lost_claim(seen: Observation) -> str:
    """Return the message for a plan whose claim is gone."""
    meta = seen.subject.metadata
    return (
        f"PersistentVolumeClaim {meta.namespace}/{volume_claim_name(meta.name)} is gone, and the plan of run"
        f" {seen.run_id} with it: nothing is applied, the next run plans again. Find out who deleted it."
    )


def foreign_claim(seen: Observation) -> str:
    """Return the message for a claim that is not ours."""
    meta = seen.subject.metadata
    return (
        f"PersistentVolumeClaim {meta.namespace}/{volume_claim_name(meta.name)} exists but does not belong to this"
        " Workspace: rename or delete it, nothing of it is used."
    )


def _is_former(owner: OwnerReference, workspace: Workspace) -> bool:
    """The UID decides: a Workspace of this name that is not this one does not exist any more."""
    named = (owner.kind, owner.name) == (WORKSPACES.name, workspace.metadata.name)
    group = owner.api_version.rpartition("/")[0]
    return named and group == WORKSPACES.group and owner.uid != workspace.metadata.uid


def _is_in_the_way(seen: Observation, job: Job) -> bool:
    """A Job under a name of the current run: the Job that is to be created needs the name."""
    return job.metadata.labels.get(RUN_ID) == seen.run_id


def _lingers(job: Job, run_id: str) -> bool:
    return job.metadata.labels.get(RUN_ID) != run_id and ARCHIVE_FINALIZER not in job.metadata.finalizers
