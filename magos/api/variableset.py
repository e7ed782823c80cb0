"""The kind VariableSet: Terraform inputs from literals, Secrets and ConfigMaps."""

from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct

from magos.api.meta import Kind, ObjectMeta
from magos.api.reasons import ReferenceProblem
from magos.api.status import GROUP, VERSION, CommonStatus

__all__ = [
    "VARIABLESETS",
    "KeyReference",
    "SourceKey",
    "SourceKind",
    "UnresolvedReference",
    "ValueFrom",
    "Variable",
    "VariableSet",
    "VariableSetSpec",
    "VariableSetStatus",
    "VariableSource",
    "reference_of",
]


class SourceKind(StrEnum):
    """The kinds a value can come from."""

    SECRET = "Secret"  # noqa: S105 - a kind
    CONFIG_MAP = "ConfigMap"


class SourceKey(NamedTuple):
    """One Secret or ConfigMap of a namespace."""

    kind: SourceKind
    name: str


class KeyReference(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """One key of an object in the same namespace."""

    name: str
    """Name of the object."""

    key: str
    """Key in the object's data."""

    optional: bool = False
    """If true, the variable is simply not set where object or key are missing."""


class ValueFrom(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """Where the value comes from: exactly one of the two."""

    secret_key_ref: KeyReference | None = None
    """A key of a Secret."""

    config_map_key_ref: KeyReference | None = None
    """A key of a ConfigMap."""


class Variable(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """One Terraform variable: exactly one of value and valueFrom."""

    name: str
    """Name of the Terraform variable."""

    value: str | None = None
    """The value itself; may be empty."""

    value_from: ValueFrom | None = None
    """Where the value comes from."""


class VariableSetSpec(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """The variables."""

    variables: tuple[Variable, ...]
    """The variables, in order."""

    description: str = ""
    """Text for people."""


class UnresolvedReference(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A reference without a value."""

    kind: SourceKind
    """Secret or ConfigMap."""

    name: str
    """Name of the object."""

    key: str
    """Key that is missing."""

    reason: ReferenceProblem
    """What is wrong."""


class VariableSource(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """An object that values come from; never the values."""

    kind: SourceKind
    """Secret or ConfigMap."""

    name: str
    """Name of the object."""

    resource_version: str = ""
    """The object's version when last read."""

    content_version: str = ""
    """The version in which a referenced key last changed."""


class VariableSetStatus(CommonStatus, frozen=True, kw_only=True):
    """Whether every reference has a value."""

    resolved_variables: int | None = None
    """How many variables have a usable value."""

    unresolved_references: tuple[UnresolvedReference, ...] = ()
    """References without a value."""

    sources: tuple[VariableSource, ...] = ()
    """The objects that values come from."""


class VariableSet(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """Terraform inputs from literals, Secrets and ConfigMaps."""

    metadata: ObjectMeta
    spec: VariableSetSpec
    """What is wanted."""

    status: VariableSetStatus = VariableSetStatus()
    """What is."""


VARIABLESETS = Kind(group=GROUP, version=VERSION, plural="variablesets", name="VariableSet", type=VariableSet)


def reference_of(value_from: ValueFrom | None) -> tuple[SourceKey, KeyReference] | None:
    """Return the source and the key a value comes from; None if not exactly one reference is set."""
    if value_from is None:
        return None
    secret, config_map = value_from.secret_key_ref, value_from.config_map_key_ref
    if secret is not None and config_map is None:
        return SourceKey(SourceKind.SECRET, secret.name), secret
    if config_map is not None and secret is None:
        return SourceKey(SourceKind.CONFIG_MAP, config_map.name), config_map
    return None
