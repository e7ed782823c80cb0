"""The specification of a pod (``core/v1 PodSpec``), as far as a runner pod uses it."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from magos.api.kube.containers import Container, SeccompProfile
from magos.api.kube.volumes import Volume


class LocalObjectReference(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """The name of an object in the same namespace."""

    name: str


class Toleration(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """Lets the pod run on nodes with the matching taint; everything empty matches every taint."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class PodSecurityContext(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """Security settings that hold for all containers of a pod and for its volumes (``fsGroup``)."""

    run_as_non_root: bool | None = None
    run_as_user: int | None = None
    run_as_group: int | None = None
    fs_group: int | None = None
    fs_group_change_policy: str = ""
    supplemental_groups: tuple[int, ...] = ()
    seccomp_profile: SeccompProfile | None = None


class PodSpec(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """What a pod runs. ``None`` and empty values are left to the API server's defaults."""

    containers: tuple[Container, ...]
    init_containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    restart_policy: str = ""
    service_account_name: str = ""
    automount_service_account_token: bool | None = None
    enable_service_links: bool | None = None
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    node_name: str = ""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    affinity: Mapping[str, Any] | None = None
    priority_class_name: str = ""
    image_pull_secrets: tuple[LocalObjectReference, ...] = ()
    security_context: PodSecurityContext | None = None
