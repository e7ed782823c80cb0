"""The kind VariableSet: Terraform inputs from literals, Secrets and ConfigMaps."""

from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct

from magos.api.meta import Kind, ObjectMeta
from magos.api.reasons import ReferenceProblem
from magos.api.status import GROUP, VERSION, CommonStatus


class SourceKind(StrEnum):
    """The kinds a value can come from."""

    SECRET = "Secret"  # noqa: S105 - a kind
    CONFIG_MAP = "ConfigMap"


class ValueSourceKey(NamedTuple):
    """One Secret or ConfigMap of a namespace."""

    kind: SourceKind
    name: str


class KeyReference(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """One key of an object in the same namespace."""

    name: str
    """Name of the Secret or ConfigMap, which is in the same namespace."""

    key: str
    """Key whose value the variable gets."""

    optional: bool = False
    """If true, the variable is not set while the object or its key does not exist. If false, no Workspace that uses
    the set runs until they exist. Default: false."""


class ValueFrom(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """Where the value comes from: exactly one of the two."""

    secret_key_ref: KeyReference | None = None
    """Key of a Secret. Magos masks the value in logs and messages."""

    config_map_key_ref: KeyReference | None = None
    """Key of a ConfigMap."""


class Variable(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """One Terraform variable: exactly one of value and valueFrom."""

    name: str
    """Name of the Terraform input variable, without the prefix TF_VAR_."""

    value: str | None = None
    """The value, in clear text; it may be empty. For a list, map or object write an expression such as ["a", "b"]. Set
    either value or valueFrom."""

    value_from: ValueFrom | None = None
    """Takes the value from a Secret or a ConfigMap: set exactly one of the two references."""


class VariableSetSpec(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """The variables."""

    variables: tuple[Variable, ...]
    """The variables, 1 to 500, each with a name of its own."""

    description: str = ""
    """Text for people, at most 4096 characters. It has no effect."""


class UnresolvedReference(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A reference without a value."""

    kind: SourceKind
    """Kind of the object that the reference names."""

    name: str
    """Name of the object that the reference names."""

    key: str
    """Key that the reference names."""

    reason: ReferenceProblem
    """What is wrong: the object does not exist, it has no such key, or the controller may not read it (Forbidden)."""


class VariableSource(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """An object that values come from; never the values."""

    kind: SourceKind
    """Kind of the object."""

    name: str
    """Name of the object."""

    resource_version: str = ""
    """resourceVersion of the object when the controller last read it."""

    content_version: str = ""
    """resourceVersion of the object when the value of a referenced key last changed."""


class VariableSetStatus(CommonStatus, frozen=True, kw_only=True):
    """Whether every reference has a value."""

    resolved_variables: int | None = None
    """Number of variables that have a usable value."""

    unresolved_references: tuple[UnresolvedReference, ...] = ()
    """References that yield no value, each once."""

    sources: tuple[VariableSource, ...] = ()
    """Secrets and ConfigMaps that values come from. The values themselves are not shown."""


class VariableSet(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A VariableSet gives values to Terraform input variables: literals, or keys of Secrets and ConfigMaps."""

    metadata: ObjectMeta
    spec: VariableSetSpec
    """The variables. You write it."""

    status: VariableSetStatus = VariableSetStatus()
    """What the variableset controller reports. Do not edit it."""


VARIABLESETS = Kind(group=GROUP, version=VERSION, plural="variablesets", name="VariableSet", type=VariableSet)


def reference_of(value_from: ValueFrom | None) -> tuple[ValueSourceKey, KeyReference] | None:
    """Return the source and the key a value comes from; None if not exactly one reference is set."""
    if value_from is None:
        return None
    secret, config_map = value_from.secret_key_ref, value_from.config_map_key_ref
    if secret is not None and config_map is None:
        return ValueSourceKey(SourceKind.SECRET, secret.name), secret
    if config_map is not None and secret is None:
        return ValueSourceKey(SourceKind.CONFIG_MAP, config_map.name), config_map
    return None
