"""What an administrator sets for the workspace controller, already checked; ``magos.apps`` does the parsing."""

from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any

from msgspec import Struct, field

from magos.api.kube import EnvFromSource, EnvVar, LocalObjectReference, Resources, Toleration, Volume, VolumeMount
from magos.api.runnerpod import DEFAULT_SCHEMES, SCRATCH_VOLUME, WORK_VOLUME, Stage, tmp_volume
from magos.reconcilers.archive.keeping import Keeping
from magos.reconcilers.workspace.pod.toolversion import MINIMUM_OPENTOFU, MINIMUM_TERRAFORM

MINIMUM_GRACE_SECONDS = 120


def _resources(memory: str, most_memory: str, most_cpu: str = "1") -> Resources:
    return Resources(requests={"cpu": "100m", "memory": memory}, limits={"cpu": most_cpu, "memory": most_memory})


DEFAULT_RESOURCES: Mapping[Stage, Resources] = MappingProxyType(
    {
        Stage.FETCH: _resources("128Mi", "1Gi"),
        Stage.TERRAFORM: _resources("512Mi", "2Gi", "2"),
        Stage.RENDER: _resources("256Mi", "2Gi"),
        Stage.JOB: _resources("128Mi", "1Gi"),
    }
)
"""What a stage gets unless an administrator says otherwise: not the first to be evicted, and accepted by a quota on CPU
and memory. Stages follow each other, so a pod asks for the most that one of them asks for."""


DEFAULT_VOLUME_SIZES: Mapping[str, str] = MappingProxyType(
    {
        WORK_VOLUME: "10Gi",
        SCRATCH_VOLUME: "3Gi",
        tmp_volume(Stage.FETCH): "6Gi",
        tmp_volume(Stage.TERRAFORM): "4Gi",
        tmp_volume(Stage.RENDER): "1Gi",
        tmp_volume(Stage.JOB): "1Gi",
    }
)
"""What each of the pod's own volumes may hold unless an administrator says otherwise: more than the budgets of a
checkout, a tool and a plan allow to be written (spec §7.2, §7.3), so that only a module that writes more is evicted."""


class PodConfig(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The file named by ``MAGOS_JOB_POD_CONFIG``: what may be added to runner pods (spec §5.4).

    ``env`` with a plain value and ``volumeMounts`` reach every stage. ``env`` with ``valueFrom`` and ``envFrom`` reach
    only the stage ``terraform``: they are how providers get cloud credentials, and no other stage may have those. What
    comes from a Secret is masked in the log, whatever it is: a region that may be read belongs in a ConfigMap.

    ``stageResources`` of a stage, else ``resources``, stand in the place of ``DEFAULT_RESOURCES`` as a whole; ``{}``
    asks for nothing and limits nothing. ``volumeSizes`` of a volume stands in the place of its default; null is no
    limit.
    """

    resources: Resources | None = None
    stage_resources: Mapping[Stage, Resources] = field(default_factory=dict)
    volume_sizes: Mapping[str, str | None] = field(default_factory=dict)
    image_pull_secrets: tuple[LocalObjectReference, ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    affinity: Mapping[str, Any] | None = None
    priority_class_name: str = ""
    env: tuple[EnvVar, ...] = ()
    env_from: tuple[EnvFromSource, ...] = ()
    volumes: tuple[Volume, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()
    termination_grace_period_seconds: int = 300

    def resources_of(self, stage: Stage) -> Resources:
        """Return the requests and limits of a stage's container."""
        own = self.stage_resources.get(stage, self.resources)
        return DEFAULT_RESOURCES[stage] if own is None else own

    def size_of(self, volume: str) -> str | None:
        """Return what a volume of the pod's own may hold, as a quantity; None without a limit."""
        return self.volume_sizes.get(volume, DEFAULT_VOLUME_SIZES[volume])


class WorkspaceSettings(Struct, frozen=True, kw_only=True):
    """Settings of the workspace controller; defaults are those of spec §1.5 and §13.2."""

    job_image: str
    image_pull_policy: str = "IfNotPresent"
    pod: PodConfig = PodConfig()
    start_timeout: timedelta = timedelta(minutes=10)
    pvc_size: str = "1Gi"
    pvc_storage_class: str | None = None
    allowed_schemes: tuple[str, ...] = DEFAULT_SCHEMES
    minimum_terraform: str = MINIMUM_TERRAFORM
    minimum_opentofu: str = MINIMUM_OPENTOFU
    refused_namespace: str = ""
    """Where nothing is planned or applied: the namespace of the controllers, unless an administrator allows it."""
    verified_principals: bool = False
    """True where the cluster admits ``mp/requested-by`` and ``mp/approved-by`` from the API's account alone."""
    keeping: Keeping = Keeping()
    """What is kept of runs; by default nothing."""
    runner_environment: tuple[tuple[str, str], ...] = ()
    """Variables handed on to every stage as they are (the last row of spec §5.5), in the order of their names."""

    def vouched(self, annotations: Mapping[str, str]) -> Mapping[str, str]:
        """Return the annotations that may tell who asked or approved: none where anybody could have written them."""
        return annotations if self.verified_principals else {}
