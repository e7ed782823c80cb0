"""The Events that a controller emits about objects of one kind."""

from typing import Any

from msgspec import Struct

from magos.api.meta import Kind
from magos.runtime.decision import Event, EventType


class EventBuilder(Struct, frozen=True):
    """Builds Events about objects of ``kind``; ``action`` is what the controller does with them."""

    kind: Kind[Any]
    action: str

    def normal(self, subject: Any, reason: str, note: str) -> Event:
        """Return a Normal Event about ``subject``."""
        return self._event(subject, EventType.NORMAL, reason, note)

    def warning(self, subject: Any, reason: str, note: str) -> Event:
        """Return a Warning Event about ``subject``."""
        return self._event(subject, EventType.WARNING, reason, note)

    def _event(self, subject: Any, type_: EventType, reason: str, note: str) -> Event:
        meta = subject.metadata
        return Event(
            regarding=self.kind.ref(meta.namespace, meta.name),
            uid=meta.uid,
            type=type_,
            reason=str(reason),
            action=self.action,
            note=note,
            api_version=self.kind.api_version,
            resource_version=meta.resource_version,
        )
