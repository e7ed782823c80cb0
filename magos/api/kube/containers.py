"""A container of a pod: command, environment, mounts, resources and security context (``core/v1``)."""

from collections.abc import Mapping

from msgspec import Struct, field


class KeySelector(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """``secretKeyRef`` or ``configMapKeyRef``: one key of an object in the pod's own namespace."""

    name: str
    key: str
    optional: bool = False


class FieldRef(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """``fieldRef``: a field of the pod itself, such as ``metadata.name``."""

    field_path: str
    api_version: str = ""


class EnvVarSource(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """``valueFrom`` of an environment variable; exactly one of the references is set."""

    secret_key_ref: KeySelector | None = None
    config_map_key_ref: KeySelector | None = None
    field_ref: FieldRef | None = None


class EnvVar(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """One environment variable. ``$(NAME)`` in ``value`` is expanded by the kubelet unless written ``$$(NAME)``."""

    name: str
    value: str | None = None
    value_from: EnvVarSource | None = None


class SecretEnvSource(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """All keys of a Secret as environment variables."""

    name: str
    optional: bool = False


class ConfigMapEnvSource(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """All keys of a ConfigMap as environment variables."""

    name: str
    optional: bool = False


class EnvFromSource(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """One entry of ``envFrom``; exactly one of the references is set."""

    prefix: str = ""
    secret_ref: SecretEnvSource | None = None
    config_map_ref: ConfigMapEnvSource | None = None


class VolumeMount(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """Where a volume of the pod, or a part of it, appears in the container."""

    name: str
    mount_path: str
    read_only: bool = False
    sub_path: str = ""


class Resources(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """Requests and limits as Kubernetes quantities (``100m``, ``128Mi``)."""

    requests: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)


class Capabilities(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """Linux capabilities added to and dropped from the runtime's default."""

    add: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()


class SeccompProfile(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """``RuntimeDefault``, ``Unconfined`` or ``Localhost``."""

    type: str
    localhost_profile: str = ""


class SecurityContext(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """Security settings of one container. ``None`` leaves the decision to the pod or the runtime."""

    run_as_non_root: bool | None = None
    run_as_user: int | None = None
    run_as_group: int | None = None
    read_only_root_filesystem: bool | None = None
    allow_privilege_escalation: bool | None = None
    privileged: bool | None = None
    capabilities: Capabilities | None = None
    seccomp_profile: SeccompProfile | None = None


class ContainerPort(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A port the container listens on."""

    container_port: int
    name: str = ""
    protocol: str = ""


class Container(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A container or init container. Probes and lifecycle hooks are not declared: a runner pod has none."""

    name: str
    image: str
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    image_pull_policy: str = ""
    env: tuple[EnvVar, ...] = ()
    env_from: tuple[EnvFromSource, ...] = ()
    ports: tuple[ContainerPort, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()
    resources: Resources = Resources()
    security_context: SecurityContext | None = None
    termination_message_path: str = ""
    termination_message_policy: str = ""
    restart_policy: str = ""
