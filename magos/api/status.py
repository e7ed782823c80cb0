"""What the status of all four kinds has in common, and references by name."""

from msgspec import Struct

from magos.api.meta import Condition
from magos.api.phases import Phase

__all__ = ["API_VERSION", "GROUP", "VERSION", "CommonStatus", "NameReference"]

GROUP = "magosproject.io"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"


class NameReference(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """An object in the same namespace."""

    name: str
    """Name of the object."""


class CommonStatus(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """Where the object stands, as last seen by its controller."""

    phase: Phase | None = None
    """Where the object is in its life."""

    reason: str = ""
    """Why it is in this phase, as one CamelCase word."""

    message: str = ""
    """What happens or what is wrong, and what to do about it."""

    observed_generation: int | None = None
    """The metadata.generation that this status speaks about."""

    last_reconcile_time: str | None = None
    """When anything else in this status changed last."""

    conditions: tuple[Condition, ...] = ()
    """Ready, and further conditions that are present only while they are True."""
