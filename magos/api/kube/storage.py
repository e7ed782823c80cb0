"""Persistent volume claims (``core/v1``)."""

from collections.abc import Mapping

from msgspec import Struct, field

from magos.api.meta import Kind, ObjectMeta


class VolumeResources(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """``resources`` of a claim: the size as ``requests["storage"]``."""

    requests: Mapping[str, str] = field(default_factory=dict)


class PersistentVolumeClaimSpec(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """What is claimed; ``storage_class_name`` ``None`` means the cluster's default class, ``""`` means no class."""

    access_modes: tuple[str, ...] = ()
    resources: VolumeResources = VolumeResources()
    storage_class_name: str | None = None
    volume_name: str = ""


class ClaimCondition(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A condition of a claim."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


class PersistentVolumeClaimStatus(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """``phase`` is ``Pending``, ``Bound`` or ``Lost``."""

    phase: str = ""
    conditions: tuple[ClaimCondition, ...] = ()


class PersistentVolumeClaim(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A claim, both as created and as observed."""

    metadata: ObjectMeta
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


PERSISTENT_VOLUME_CLAIMS = Kind(
    group="", version="v1", plural="persistentvolumeclaims", name="PersistentVolumeClaim", type=PersistentVolumeClaim
)
