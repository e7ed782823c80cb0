"""Which keys have failed for so long that people should see why nothing moves."""

from datetime import datetime, timedelta

from msgspec import Struct

from magos.runtime.clock import Clock
from magos.runtime.controller.workqueue import Key
from magos.runtime.decision import Trouble

TROUBLE_AFTER = 15.0
"""Seconds without a pass that came to its end. The back-off brings two tries between here and a minute."""


class _Failing(Struct, frozen=True):
    began: float
    since: datetime
    message: str


class Troubles:
    """Kept for one controller; everything is synchronous."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failing: dict[Key, _Failing] = {}

    def failed(self, key: Key, message: str, began: float) -> None:
        """A pass of the key, begun at ``began`` on the monotonic clock, ended as a request was not carried out."""
        first = self._failing.get(key)
        since = self._clock.now() - timedelta(seconds=self._clock.monotonic() - began)
        if first is not None:
            began, since = first.began, first.since
        self._failing[key] = _Failing(began, since, message)

    def ended(self, key: Key) -> bool:
        """A pass of the key came to its end, or its object is another one; tell whether there was trouble to show."""
        shown = self.of(key) is not None
        self._failing.pop(key, None)
        return shown

    def of(self, key: Key) -> Trouble | None:
        """Return what is to be shown now."""
        failing = self._failing.get(key)
        if failing is None or self._clock.monotonic() - failing.began < TROUBLE_AFTER:
            return None
        return Trouble(since=failing.since, message=failing.message)
