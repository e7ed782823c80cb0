"""Manifests of what a Workspace owns: its plan and apply Jobs and its volume claim (spec §5.2, §5.4).

Pure functions of the Workspace, the run and the settings. The pods pass Pod Security level *restricted*.
"""

from collections.abc import Mapping, Sequence

import msgspec

from magos.api import annotations, labels
from magos.api.kube import (
    Container,
    EnvFromSource,
    EnvVar,
    JobManifest,
    JobSpec,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PodSecurityContext,
    PodSpec,
    PodTemplateSpec,
    SeccompProfile,
    SecurityContext,
    Volume,
    VolumeMount,
    VolumeResources,
)
from magos.api.kube.containers import Capabilities
from magos.api.meta import ObjectMeta
from magos.api.names import JobType, job_name, volume_claim_name
from magos.api.runnerpod import REDACT, SECRET_COPIES, TERMINATION_LOG, Stage, stages_of
from magos.api.workspace import PhaseOptions, Workspace
from magos.ids import RunID
from magos.reconcilers.workspace.inputs.ownership import owned_by
from magos.reconcilers.workspace.inputs.policies import policies_config_map, policies_mount, policies_volume
from magos.reconcilers.workspace.pod.environment import JobPlan, stage_environment
from magos.reconcilers.workspace.pod.record import JobRecord, encode_record
from magos.reconcilers.workspace.pod.settings import PodConfig, WorkspaceSettings
from magos.reconcilers.workspace.pod.stages import fixed_mounts, fixed_volumes

IDENTITY = (labels.WORKSPACE, labels.JOB_TYPE, labels.RUN_ID)
"""Labels that a Job found under our name must share to be ours."""

DEFAULT_DEADLINE_SECONDS = 86400

_USER = 65532
_DO_NOT_EVICT = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "karpenter.sh/do-not-disrupt": "true",
}
_SECCOMP = SeccompProfile(type="RuntimeDefault")
_POD_SECURITY = PodSecurityContext(
    run_as_non_root=True,
    run_as_user=_USER,
    run_as_group=_USER,
    fs_group=_USER,
    fs_group_change_policy="OnRootMismatch",
    seccomp_profile=_SECCOMP,
)
_CONTAINER_SECURITY = SecurityContext(
    run_as_non_root=True,
    run_as_user=_USER,
    run_as_group=_USER,
    read_only_root_filesystem=True,
    allow_privilege_escalation=False,
    capabilities=Capabilities(drop=("ALL",)),
    seccomp_profile=_SECCOMP,
)


def claim_manifest(workspace: Workspace, settings: WorkspaceSettings) -> PersistentVolumeClaim:
    """Return the claim ``<ws>-data``: ReadWriteOnce, of the configured size and class."""
    return PersistentVolumeClaim(
        metadata=ObjectMeta(
            name=volume_claim_name(workspace.metadata.name),
            namespace=workspace.metadata.namespace,
            labels={labels.WORKSPACE: labels.workspace_label(workspace.metadata.name)},
            owner_references=(owned_by(workspace),),
        ),
        spec=PersistentVolumeClaimSpec(
            access_modes=("ReadWriteOnce",),
            resources=VolumeResources(requests={"storage": settings.pvc_size}),
            storage_class_name=settings.pvc_storage_class,
        ),
    )


def job_manifest(workspace: Workspace, plan: JobPlan, record: JobRecord, settings: WorkspaceSettings) -> JobManifest:
    """Return the Job of one half of a run: one pod, never restarted, under the deadline of its phase."""
    meta = workspace.metadata
    own_labels = {
        labels.WORKSPACE: labels.workspace_label(meta.name),
        labels.JOB_TYPE: str(plan.job_type),
        labels.RUN_ID: plan.run_id,
    }
    options = workspace.spec.plan if plan.job_type is JobType.PLAN else workspace.spec.apply
    return JobManifest(
        metadata=ObjectMeta(
            name=job_name(meta.namespace, meta.name, RunID(plan.run_id), plan.job_type),
            namespace=meta.namespace,
            labels=own_labels,
            annotations={annotations.RECORD: encode_record(record)},
            owner_references=(owned_by(workspace),),
            finalizers=(labels.ARCHIVE_FINALIZER,) if settings.keeping.on else (),
        ),
        spec=JobSpec(
            backoff_limit=0,
            completions=1,
            parallelism=1,
            pod_replacement_policy="Failed",
            suspend=True if plan.job_type is JobType.APPLY else None,
            active_deadline_seconds=options.timeout_seconds or DEFAULT_DEADLINE_SECONDS,
            template=PodTemplateSpec(
                metadata=ObjectMeta(
                    labels=own_labels, annotations=_pod_annotations(workspace.spec.annotations, options)
                ),
                spec=_pod(workspace, plan, settings),
            ),
        ),
    )


def _pod_annotations(common: Mapping[str, str], phase: PhaseOptions) -> dict[str, str]:
    return {**common, **phase.annotations, **_DO_NOT_EVICT}


def _pod(workspace: Workspace, plan: JobPlan, settings: WorkspaceSettings) -> PodSpec:
    config = settings.pod
    phase = plan.job_type
    containers = [_container(workspace, plan, stage, settings) for stage in stages_of(phase)]
    return PodSpec(
        init_containers=tuple(containers[:-1]),
        containers=(containers[-1],),
        volumes=(
            *fixed_volumes(phase, volume_claim_name(workspace.metadata.name), config.size_of),
            *_policies_volume(workspace, plan),
            *config.volumes,
        ),
        restart_policy="Never",
        service_account_name=workspace.spec.service_account_name,
        automount_service_account_token=False,  # the stage terraform mounts it itself, nobody else has it
        enable_service_links=False,
        termination_grace_period_seconds=config.termination_grace_period_seconds,
        security_context=_POD_SECURITY,
        image_pull_secrets=config.image_pull_secrets,
        node_selector=config.node_selector,
        tolerations=config.tolerations,
        affinity=config.affinity,
        priority_class_name=config.priority_class_name,
    )


def _container(workspace: Workspace, plan: JobPlan, stage: Stage, settings: WorkspaceSettings) -> Container:
    config = settings.pod
    extra, env_from = _additions(config, stage)
    return Container(
        name=str(stage),
        image=settings.job_image,
        image_pull_policy=settings.image_pull_policy,
        command=("magos-job", str(stage)),
        env=_masking(extra, stage_environment(workspace, plan, stage)),
        env_from=env_from,
        volume_mounts=(*fixed_mounts(plan.job_type, stage), *_policies_mount(plan, stage), *config.volume_mounts),
        resources=config.resources_of(stage),
        security_context=_CONTAINER_SECURITY,
        termination_message_path=TERMINATION_LOG,
        termination_message_policy="File",
    )


def _policies_volume(workspace: Workspace, plan: JobPlan) -> tuple[Volume, ...]:
    stored = policies_config_map(workspace, plan.policies) if plan.policies is not None else None
    return () if stored is None else (policies_volume(stored.metadata.name),)


def _policies_mount(plan: JobPlan, stage: Stage) -> tuple[VolumeMount, ...]:
    """Policies are for the stage that judges; nothing that a configuration starts sees them."""
    wanted = stage is Stage.JOB and plan.policies is not None and plan.policies.files
    return (policies_mount(),) if wanted else ()


def _additions(config: PodConfig, stage: Stage) -> tuple[tuple[EnvVar, ...], tuple[EnvFromSource, ...]]:
    """Plain values for every stage; what comes from a Secret or a ConfigMap for ``terraform`` alone."""
    if stage is Stage.TERRAFORM:
        return config.env, (*config.env_from, *_copies(config.env_from))
    return tuple(each for each in config.env if each.value_from is None), ()


def _copies(sources: Sequence[EnvFromSource]) -> list[EnvFromSource]:
    """Name the Secrets of an ``envFrom`` once more: their keys are unknown here, and a ConfigMap's must not be masked.

    Two keys that meet under the prefix meet without it, too, where the last one wins as well.
    """
    return [
        msgspec.structs.replace(source, prefix=SECRET_COPIES + source.prefix)
        for source in sources
        if source.secret_ref is not None
    ]


def _masking(extra: Sequence[EnvVar], own: Sequence[EnvVar]) -> tuple[EnvVar, ...]:
    """Return both, with the variables of ``extra`` that come from Secrets among those to mask."""
    secret = [each.name for each in extra if each.value_from is not None and each.value_from.secret_key_ref is not None]
    if not secret:
        return (*extra, *own)
    known = [each.value for each in own if each.name == REDACT and each.value]
    others = [each for each in own if each.name != REDACT]
    return (*extra, *others, EnvVar(name=REDACT, value=",".join([*known, *dict.fromkeys(secret)])))
