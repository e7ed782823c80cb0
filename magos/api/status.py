"""What the status of all four kinds has in common, and references by name."""

from msgspec import Struct

from magos.api.meta import Condition
from magos.api.phases import Phase

GROUP = "magosproject.io"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"


class NameReference(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """An object in the same namespace."""

    name: str
    """Name of the object, which is in the same namespace."""


class CommonStatus(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """What every controller reports about its objects."""

    phase: Phase | None = None
    """The stage that the object has reached. Absent until its controller has seen it."""

    reason: str = ""
    """Why the object is in this phase, as one CamelCase word for scripts and alerts."""

    message: str = ""
    """What happens or what is wrong, and what to do about it. At most 1024 characters."""

    observed_generation: int | None = None
    """The metadata.generation that this status describes. As long as it is lower than metadata.generation, the last
    edit of the spec has not taken effect."""

    last_reconcile_time: str | None = None
    """Time (UTC) of the last change to another field of this status."""

    conditions: tuple[Condition, ...] = ()
    """The condition Ready, which is always present, and conditions such as Stalled that are present only while True."""
