"""Events (``events.k8s.io/v1``). Repetitions of one Event are counted in its ``series``."""

from msgspec import Struct

from magos.api.meta import Kind, ObjectMeta


class ObjectReference(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """Which object an Event is about."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    resource_version: str = ""
    field_path: str = ""


class EventSeries(Struct, frozen=True, gc=False, rename="camel", kw_only=True):
    """How often an Event was seen, and when last (RFC 3339 with microseconds)."""

    count: int
    last_observed_time: str


class KubeEvent(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """One Event. The server refuses a ``note`` over 1024 bytes, a ``reason`` or ``action`` over 128 characters.

    Events of older components carry ``deprecatedSource`` instead of a reporting controller; ``type`` is ``Normal`` or
    ``Warning``.
    """

    metadata: ObjectMeta
    event_time: str | None = None
    series: EventSeries | None = None
    reporting_controller: str = ""
    reporting_instance: str = ""
    action: str = ""
    reason: str = ""
    regarding: ObjectReference = ObjectReference()
    related: ObjectReference | None = None
    note: str = ""
    type: str = ""
    deprecated_count: int = 0
    deprecated_last_timestamp: str | None = None


EVENTS = Kind(group="events.k8s.io", version="v1", plural="events", name="Event", type=KubeEvent)
