"""Volumes of a pod (``core/v1``).

The sources that Magos itself writes are typed. The others can only come from an administrator's pod configuration and
are carried as they are.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from magos.api.kube.containers import FieldRef


class KeyToPath(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """Which key becomes which file; ``mode`` is the file's permission bits."""

    key: str
    path: str
    mode: int | None = None


class ClaimVolumeSource(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """``persistentVolumeClaim``."""

    claim_name: str
    read_only: bool = False


class EmptyDirVolumeSource(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """``emptyDir``; ``medium: Memory`` is a tmpfs that counts as the pod's memory. ``size_limit`` is a quantity."""

    medium: str = ""
    size_limit: str | None = None


class ConfigMapVolumeSource(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """``configMap``: its keys as files."""

    name: str
    items: tuple[KeyToPath, ...] = ()
    default_mode: int | None = None
    optional: bool = False


class SecretVolumeSource(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """``secret``: its keys as files."""

    secret_name: str
    items: tuple[KeyToPath, ...] = ()
    default_mode: int | None = None
    optional: bool = False


class ServiceAccountTokenProjection(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A token of the pod's ServiceAccount, renewed by the kubelet."""

    path: str
    audience: str = ""
    expiration_seconds: int | None = None


class ConfigMapProjection(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """Keys of a ConfigMap inside a projected volume."""

    name: str
    items: tuple[KeyToPath, ...] = ()
    optional: bool = False


class SecretProjection(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """Keys of a Secret inside a projected volume."""

    name: str
    items: tuple[KeyToPath, ...] = ()
    optional: bool = False


class DownwardAPIFile(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """One field of the pod as a file."""

    path: str
    field_ref: FieldRef | None = None


class DownwardAPIProjection(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """Fields of the pod inside a projected volume."""

    items: tuple[DownwardAPIFile, ...] = ()


class ProjectedSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """One source of a projected volume; exactly one member is set."""

    service_account_token: ServiceAccountTokenProjection | None = field(default=None, name="serviceAccountToken")
    config_map: ConfigMapProjection | None = field(default=None, name="configMap")
    secret: SecretProjection | None = None
    downward_api: DownwardAPIProjection | None = field(default=None, name="downwardAPI")


class ProjectedVolumeSource(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """``projected``: several sources in one directory."""

    sources: tuple[ProjectedSource, ...] = ()
    default_mode: int | None = None


class Volume(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A volume; exactly one source is set."""

    name: str
    persistent_volume_claim: ClaimVolumeSource | None = None
    empty_dir: EmptyDirVolumeSource | None = None
    config_map: ConfigMapVolumeSource | None = None
    secret: SecretVolumeSource | None = None
    projected: ProjectedVolumeSource | None = None
    host_path: Mapping[str, Any] | None = None
    csi: Mapping[str, Any] | None = None
    ephemeral: Mapping[str, Any] | None = None
    nfs: Mapping[str, Any] | None = None
    image: Mapping[str, Any] | None = None
