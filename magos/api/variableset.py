"""The kind VariableSet: Terraform inputs from literals, Secrets and ConfigMaps."""

from enum import StrEnum

from msgspec import Struct

from magos.api.meta import Kind, ObjectMeta
from magos.api.reasons import ReferenceProblem
from magos.api.status import GROUP, VERSION, CommonStatus

__all__ = [
    "VARIABLESETS",
    "KeyReference",
    "SourceKind",
    "UnresolvedReference",
    "ValueFrom",
    "Variable",
    "VariableSet",
    "VariableSetSpec",
    "VariableSetStatus",
    "VariableSource",
]


class SourceKind(StrEnum):
    """The kinds a value can come from."""

    SECRET = "Secret"  # noqa: S105 - a kind
    CONFIG_MAP = "ConfigMap"


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
