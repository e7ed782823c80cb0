"""Pods (``core/v1``): the small observed form for caches, and the full form.

How far a container came is read from its ``state``: exactly one of waiting, running and terminated is set once the
kubelet has seen it.
"""

from msgspec import Struct, field

from magos.api.kube.containers import Resources
from magos.api.kube.podspec import PodSpec
from magos.api.meta import Kind, ObjectMeta


class ContainerStateWaiting(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """Not started yet; ``reason`` is the kubelet's (``ContainerCreating``, ``ImagePullBackOff``, ...)."""

    reason: str = ""
    message: str = ""


class ContainerStateRunning(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """Running since ``started_at``."""

    started_at: str | None = None


class ContainerStateTerminated(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """Ended; ``message`` is the termination message, ``reason`` the kubelet's (``Completed``, ``OOMKilled``, ...)."""

    exit_code: int
    signal: int = 0
    reason: str = ""
    message: str = ""
    started_at: str | None = None
    finished_at: str | None = None


class ContainerState(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """At most one member is set; none means waiting."""

    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(Struct, frozen=True, gc=False, rename="camel", kw_only=True):
    """The kubelet's report about one container."""

    name: str
    state: ContainerState = ContainerState()
    ready: bool = False
    restart_count: int = 0
    started: bool = False
    image: str = ""
    image_id: str = field(default="", name="imageID")


class PodCondition(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """``PodScheduled``, ``Initialized``, ``ContainersReady``, ``Ready``, ``DisruptionTarget``, ..."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class PodStatus(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """``phase`` is ``Pending``, ``Running``, ``Succeeded``, ``Failed`` or ``Unknown``, empty before any report."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[PodCondition, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    start_time: str | None = None
    host_ip: str = field(default="", name="hostIP")
    pod_ip: str = field(default="", name="podIP")


class ObservedContainer(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """What an onlooker wants to know of a container: how much it may take."""

    name: str
    resources: Resources = Resources()


class ObservedPodSpec(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """The few fields of a pod's specification that matter to an onlooker."""

    node_name: str = ""
    service_account_name: str = ""
    termination_grace_period_seconds: int | None = None
    init_containers: tuple[ObservedContainer, ...] = ()
    containers: tuple[ObservedContainer, ...] = ()


class Pod(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A pod as observed: of its containers only what they may take."""

    metadata: ObjectMeta
    spec: ObservedPodSpec = ObservedPodSpec()
    status: PodStatus = PodStatus()

    @property
    def ended(self) -> bool:
        """True once no container of the pod runs or will run again."""
        return self.status.phase in ("Succeeded", "Failed")


class PodManifest(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A pod in full, for code that creates or runs it."""

    metadata: ObjectMeta
    spec: PodSpec
    status: PodStatus = PodStatus()


PODS = Kind(group="", version="v1", plural="pods", name="Pod", type=Pod)
PODS_IN_FULL = Kind(group="", version="v1", plural="pods", name="Pod", type=PodManifest)
