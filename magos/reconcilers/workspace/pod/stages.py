"""The stages of a runner pod: which volume each sees where, and with which right (spec §5.4).

A program that a Terraform configuration starts has its parent's UID. So what a stage must not touch is not mounted, and
what it must not change is mounted read-only; file permissions protect nothing here.
"""

from collections.abc import Callable

from magos.api import runnerpod
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
from magos.api.runnerpod import Stage, stages_of

_TOKEN_SECONDS = 3607  # what the API server's own admission asks for

FIXED_MOUNT_PATHS = (
    runnerpod.DATA_PATH,
    runnerpod.WORK_PATH,
    runnerpod.SCRATCH_PATH,
    runnerpod.TMP_PATH,
    runnerpod.POLICIES_PATH,
    runnerpod.TOKEN_PATH,
)
"""Where an administrator's pod configuration must not mount anything."""


FIXED_VOLUMES = (
    runnerpod.DATA_VOLUME,
    runnerpod.WORK_VOLUME,
    runnerpod.SCRATCH_VOLUME,
    runnerpod.TOKEN_VOLUME,
    runnerpod.POLICIES_VOLUME,
    *map(runnerpod.tmp_volume, Stage),
)
"""Names of volumes that a pod configuration must not define."""


def fixed_volumes(phase: JobType, claim: str, size_of: Callable[[str], str | None]) -> tuple[Volume, ...]:
    """Return the volumes of a plan or an apply pod; ``claim`` is the Workspace's PersistentVolumeClaim.

    ``size_of`` says what a volume that ends with the pod may hold.
    """
    own = (runnerpod.WORK_VOLUME, runnerpod.SCRATCH_VOLUME, *map(runnerpod.tmp_volume, stages_of(phase)))
    return (
        Volume(name=runnerpod.DATA_VOLUME, persistent_volume_claim=ClaimVolumeSource(claim_name=claim)),
        *(Volume(name=name, empty_dir=EmptyDirVolumeSource(size_limit=size_of(name))) for name in own),
        Volume(name=runnerpod.TOKEN_VOLUME, projected=_token()),
    )


def fixed_mounts(phase: JobType, stage: Stage) -> tuple[VolumeMount, ...]:
    """Return what ``stage`` of a plan or an apply sees."""
    onlooker = stage in (Stage.RENDER, Stage.JOB)
    mounts = [
        VolumeMount(name=runnerpod.DATA_VOLUME, mount_path=runnerpod.DATA_PATH, read_only=onlooker),
        VolumeMount(name=runnerpod.WORK_VOLUME, mount_path=runnerpod.WORK_PATH, read_only=onlooker),
        *(_part(each, read_only=True) for each in stage.before(phase)),
        VolumeMount(name=runnerpod.tmp_volume(stage), mount_path=runnerpod.TMP_PATH),
    ]
    if stage is not Stage.JOB:  # the last stage reports by its termination message; nobody reads a scratch of its own
        mounts.append(_part(stage, read_only=False))
    if stage is Stage.TERRAFORM:
        # Code of the configuration must not exchange the program that renders its plan afterwards.
        tool = runnerpod.TOOL_FOLDER
        mounts.append(
            VolumeMount(
                name=runnerpod.WORK_VOLUME, mount_path=f"{runnerpod.WORK_PATH}/{tool}", sub_path=tool, read_only=True
            )
        )
        mounts.append(VolumeMount(name=runnerpod.TOKEN_VOLUME, mount_path=runnerpod.TOKEN_PATH, read_only=True))
    return tuple(mounts)


def _part(stage: Stage, *, read_only: bool) -> VolumeMount:
    path = f"{runnerpod.SCRATCH_PATH}/{stage}"
    return VolumeMount(name=runnerpod.SCRATCH_VOLUME, mount_path=path, sub_path=str(stage), read_only=read_only)


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
