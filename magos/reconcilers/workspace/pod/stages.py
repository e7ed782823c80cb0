"""The stages of a runner pod: which volume each sees where, and with which right (spec §5.4).

A program that a Terraform configuration starts has its parent's UID. So what a stage must not touch is not mounted, and
what it must not change is mounted read-only; file permissions protect nothing here.
"""

from enum import StrEnum

from magos.api.kube import (
    ClaimVolumeSource,
    EmptyDirVolumeSource,
    FieldRef,
    KeyToPath,
    ProjectedSource,
    ProjectedVolumeSource,
    ServiceAccountTokenProjection,
    Volume,
    VolumeMount,
)
from magos.api.kube.volumes import ConfigMapProjection, DownwardAPIFile, DownwardAPIProjection
from magos.api.names import JobType

__all__ = ["FIXED_MOUNT_PATHS", "FIXED_VOLUMES", "Stage", "fixed_mounts", "fixed_volumes", "plan_file", "stages_of"]

_DATA = "workspace-data"
_WORK = "work"
_SCRATCH = "scratch"
_TOKEN = "service-account-token"  # noqa: S105 - the name of a volume
_TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a path
_TOKEN_SECONDS = 3607  # what the API server's own admission asks for

FIXED_MOUNT_PATHS = ("/workspace-data", "/work", "/scratch", "/tmp", "/policies", _TOKEN_PATH)  # noqa: S108
"""Where an administrator's pod configuration must not mount anything."""


class Stage(StrEnum):
    """One container of the pod, in the order in which they run; ``JOB`` is the main container."""

    FETCH = "fetch"
    TERRAFORM = "terraform"
    RENDER = "render"
    JOB = "job"


FIXED_VOLUMES = (_DATA, _WORK, _SCRATCH, _TOKEN, "policies", *(f"tmp-{stage}" for stage in Stage))
"""Names of volumes that a pod configuration must not define."""


def stages_of(phase: JobType) -> tuple[Stage, ...]:
    """Return the stages of a plan or an apply, ``JOB`` last."""
    if phase is JobType.PLAN:
        return (Stage.FETCH, Stage.TERRAFORM, Stage.RENDER, Stage.JOB)
    return (Stage.FETCH, Stage.TERRAFORM, Stage.JOB)


def plan_file(run_id: str) -> str:
    """Return where the plan of a run lies in every stage."""
    return f"/{_DATA}/runs/{run_id}/run.tfplan"


def fixed_volumes(phase: JobType, claim: str) -> tuple[Volume, ...]:
    """Return the volumes of a plan or an apply pod; ``claim`` is the Workspace's PersistentVolumeClaim."""
    scratch_space = EmptyDirVolumeSource()
    return (
        Volume(name=_DATA, persistent_volume_claim=ClaimVolumeSource(claim_name=claim)),
        Volume(name=_WORK, empty_dir=scratch_space),
        Volume(name=_SCRATCH, empty_dir=scratch_space),
        *(Volume(name=f"tmp-{stage}", empty_dir=scratch_space) for stage in stages_of(phase)),
        Volume(name=_TOKEN, projected=_token()),
    )


def fixed_mounts(phase: JobType, stage: Stage) -> tuple[VolumeMount, ...]:
    """Return what ``stage`` of a plan or an apply sees."""
    stages = stages_of(phase)
    earlier = stages[: stages.index(stage)]
    onlooker = stage in (Stage.RENDER, Stage.JOB)
    mounts = [
        VolumeMount(name=_DATA, mount_path=f"/{_DATA}", read_only=onlooker),
        VolumeMount(name=_WORK, mount_path=f"/{_WORK}", read_only=onlooker),
        *(_part(each, read_only=True) for each in earlier),
        VolumeMount(name=f"tmp-{stage}", mount_path="/tmp"),  # noqa: S108 - a path inside the container
    ]
    if stage is not Stage.JOB:  # the last stage reports by its termination message; nobody reads a scratch of its own
        mounts.append(_part(stage, read_only=False))
    if stage is Stage.TERRAFORM:
        # Code of the configuration must not exchange the program that renders its plan afterwards.
        mounts.append(VolumeMount(name=_WORK, mount_path=f"/{_WORK}/tool", sub_path="tool", read_only=True))
        mounts.append(VolumeMount(name=_TOKEN, mount_path=_TOKEN_PATH, read_only=True))
    return tuple(mounts)


def _part(stage: Stage, *, read_only: bool) -> VolumeMount:
    return VolumeMount(name=_SCRATCH, mount_path=f"/scratch/{stage}", sub_path=str(stage), read_only=read_only)


def _token() -> ProjectedVolumeSource:
    """What the API server's admission would mount into every container; here it is for one of them alone."""
    namespace = DownwardAPIFile(path="namespace", field_ref=FieldRef(api_version="v1", field_path="metadata.namespace"))
    return ProjectedVolumeSource(
        sources=(
            ProjectedSource(
                service_account_token=ServiceAccountTokenProjection(path="token", expiration_seconds=_TOKEN_SECONDS)
            ),
            ProjectedSource(
                config_map=ConfigMapProjection(name="kube-root-ca.crt", items=(KeyToPath(key="ca.crt", path="ca.crt"),))
            ),
            ProjectedSource(downward_api=DownwardAPIProjection(items=(namespace,))),
        )
    )
