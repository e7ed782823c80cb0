"""ConfigMaps, Secrets, ServiceAccounts and Namespaces (``core/v1``).

Secrets may be watched only as ``SECRET_METADATA``; their values are read by name, used and forgotten. The text form of
a ``Secret`` never shows a value. The metadata forms leave out annotations, because kubectl keeps whole manifests there,
values included.
"""

from collections.abc import Mapping

from msgspec import Struct, field

from magos.api.meta import Kind, ObjectMeta


class ConfigMap(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A ConfigMap; ``binary_data`` is base64 on the wire."""

    metadata: ObjectMeta
    data: Mapping[str, str] = field(default_factory=dict)
    binary_data: Mapping[str, bytes] = field(default_factory=dict)
    immutable: bool | None = None


class MetaWithoutAnnotations(ObjectMeta, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """Object metadata whose annotations are skipped while decoding, so that they are always empty here."""

    annotations: Mapping[str, str] = field(default_factory=dict, name="")


class ConfigMapMetadata(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """That a ConfigMap exists, with labels and resourceVersion, but not what is in it."""

    metadata: MetaWithoutAnnotations


class SecretMetadata(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """That a Secret exists, with labels and resourceVersion, but not what is in it."""

    metadata: MetaWithoutAnnotations


class Secret(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A Secret with its values (base64 on the wire). Never kept in a cache, never printed."""

    metadata: ObjectMeta
    type: str = ""
    data: Mapping[str, bytes] = field(default_factory=dict)
    immutable: bool | None = None

    def __repr__(self) -> str:
        """Name the Secret and its keys, without any value."""
        return f"Secret({self.metadata.namespace}/{self.metadata.name}, keys={sorted(self.data)})"


class ServiceAccount(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A ServiceAccount."""

    metadata: ObjectMeta


class ServiceAccountMetadata(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """That a ServiceAccount exists, with labels and resourceVersion."""

    metadata: MetaWithoutAnnotations


class NamespaceStatus(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """``phase`` is ``Active`` or ``Terminating``."""

    phase: str = ""


class Namespace(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A Namespace."""

    metadata: ObjectMeta
    status: NamespaceStatus = NamespaceStatus()


CONFIG_MAPS = Kind(group="", version="v1", plural="configmaps", name="ConfigMap", type=ConfigMap)
CONFIG_MAP_METADATA = Kind(
    group="", version="v1", plural="configmaps", name="ConfigMap", type=ConfigMapMetadata, metadata_only=True
)
NAMESPACES = Kind(group="", version="v1", plural="namespaces", name="Namespace", type=Namespace, namespaced=False)
SECRETS = Kind(group="", version="v1", plural="secrets", name="Secret", type=Secret)
SECRET_METADATA = Kind(group="", version="v1", plural="secrets", name="Secret", type=SecretMetadata, metadata_only=True)
SERVICE_ACCOUNTS = Kind(group="", version="v1", plural="serviceaccounts", name="ServiceAccount", type=ServiceAccount)
SERVICE_ACCOUNT_METADATA = Kind(
    group="",
    version="v1",
    plural="serviceaccounts",
    name="ServiceAccount",
    type=ServiceAccountMetadata,
    metadata_only=True,
)
