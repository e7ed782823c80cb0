"""Records Events (``events.k8s.io/v1``) in the background: best effort, never in anyone's way.

Promises:

1. ``emit`` neither waits nor fails. At most 1000 Events wait to be sent; more are dropped and counted.
2. Events equal in everything but the note are one Event: the second makes it a series, further ones are counted in
   memory and the count is sent every 30 minutes and when the series ends, after 6 minutes of silence. The first note
   stays.
3. What the server does not answer is tried 12 times, 10 s ± 25 % apart; what it refuses for good is dropped and
   counted.
4. A note is cut to the 1024 bytes the server allows, on the border of a character.

Requests use a lane of their own, so that Events can starve neither leases nor writes. Source: the Events API and the
recorder of Kubernetes' own components.
"""

import random
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeAlias

import anyio
import structlog

from magos.api.kube import EVENTS, EventSeries, KubeEvent, ObjectReference
from magos.api.meta import ObjectMeta, ObjectRef
from magos.bounds import EVENT_NOTE
from magos.runtime.client.client import ApiClient
from magos.runtime.client.errors import ApiError
from magos.runtime.client.transport import Lane
from magos.runtime.clock import Clock
from magos.runtime.decision import Event, EventType

QUEUE_LIMIT = 1000
SERIES_LIMIT = 4096
SILENCE = 6 * 60.0
RESEND = 30 * 60.0
SWEEP = 60.0
TRIES = 12
RETRY = 10.0
RETRY_JITTER = 0.25
NOTE_LIMIT = EVENT_NOTE.limit
TEXT_LIMIT = 128
_NAME_ROOM = 220

_Identity: TypeAlias = tuple[ObjectRef, str, EventType, str, str]

_log = structlog.get_logger(__name__)


class _Series:
    """One Event and how often it happened."""

    __slots__ = ("count", "event", "first", "last", "last_mono", "name", "queued", "sent", "sent_mono")

    def __init__(self, event: Event, name: str, at: datetime, mono: float) -> None:
        self.event = event
        self.name = name
        self.first = self.last = at
        self.last_mono = self.sent_mono = mono
        self.count = 1
        self.sent = 0
        self.queued = True


def cut_note(note: str) -> str:
    """Return the note in at most 1024 bytes of UTF-8, ending in an ellipsis where something was cut."""
    encoded = note.encode(errors="replace")
    if len(encoded) <= NOTE_LIMIT:
        return encoded.decode()
    ellipsis = "…"
    return encoded[: NOTE_LIMIT - len(ellipsis.encode())].decode(errors="ignore") + ellipsis


class EventRecorder:
    """See the module. ``controller`` and ``instance`` say who reports; ``dropped`` is called for each Event lost."""

    def __init__(
        self,
        client: ApiClient,
        clock: Clock,
        rng: random.Random,
        *,
        reporter: tuple[str, str],
        dropped: Callable[[], None] | None = None,
    ) -> None:
        self._client = client.on(Lane.EVENTS)
        self._clock = clock
        self._rng = rng
        self._controller, self._instance = (text[:TEXT_LIMIT] for text in reporter)
        self._on_drop = dropped
        self._series: dict[_Identity, _Series] = {}
        self._queue: deque[_Series] = deque()
        self._wake = anyio.Event()
        self._closing = False
        self._serial = 0

    def emit(self, event: Event) -> None:
        """Take an Event; it is sent soon, counted into an earlier one, or dropped."""
        now = self._clock.monotonic()
        identity = _identity(event)
        series = self._series.get(identity)
        if series is not None and now - series.last_mono < SILENCE:
            series.count += 1
            series.last = self._clock.now()
            series.last_mono = now
            if series.count == 2:
                self._enqueue(series)
            return
        if self._closing or len(self._queue) >= QUEUE_LIMIT:
            self._drop(event, "too many Events wait to be sent")
            return
        if series is not None:
            self._finish(identity, series)
        self._make_room()
        self._serial += 1
        at = self._clock.now()
        name = f"{event.regarding.name[:_NAME_ROOM]}.{int(at.timestamp() * 1e6):x}.{self._serial:x}"
        self._series[identity] = series = _Series(event, name, at, now)
        self._queue.append(series)
        self._wake.set()

    async def run(self) -> None:
        """Send until ``close`` was called and everything that waits is sent; cancel it to end earlier."""
        next_sweep = self._clock.monotonic() + SWEEP
        while True:
            while self._queue:
                series = self._queue.popleft()
                series.queued = False
                await self._send(series)
            if self._closing:
                return
            now = self._clock.monotonic()
            if now >= next_sweep:
                next_sweep = now + SWEEP
                self._sweep(now)
                continue
            self._wake = anyio.Event()
            with anyio.move_on_after(next_sweep - now):
                await self._wake.wait()

    def close(self) -> None:
        """Take no new Events, send the counts that are still open, and let ``run`` return."""
        for identity, series in list(self._series.items()):
            self._finish(identity, series)
        self._closing = True
        self._wake.set()

    def _sweep(self, now: float) -> None:
        for identity, series in list(self._series.items()):
            if now - series.last_mono >= SILENCE:
                self._finish(identity, series)
            elif series.count > series.sent and now - series.sent_mono >= RESEND:
                self._enqueue(series)

    def _finish(self, identity: _Identity, series: _Series) -> None:
        del self._series[identity]
        if series.count > series.sent:
            self._enqueue(series)

    def _make_room(self) -> None:
        if len(self._series) >= SERIES_LIMIT:
            identity = next(iter(self._series))
            self._finish(identity, self._series[identity])

    def _enqueue(self, series: _Series) -> None:
        if series.queued or self._closing:
            return
        if len(self._queue) >= QUEUE_LIMIT:
            self._drop(series.event, "too many Events wait to be sent")
            return
        series.queued = True
        self._queue.append(series)
        self._wake.set()

    async def _send(self, series: _Series) -> None:
        for attempt in range(1, TRIES + 1):
            count = series.count
            try:
                await self._write(series, count)
            except ApiError as error:
                if not (error.transient or error.unauthorized or error.conflict):
                    self._lose(series, error.message)
                    return
                if attempt == TRIES:
                    self._lose(series, f"given up after {TRIES} tries: {error.message}")
                    return
                await anyio.sleep(RETRY * self._rng.uniform(1 - RETRY_JITTER, 1 + RETRY_JITTER))
            else:
                series.sent = count
                series.sent_mono = self._clock.monotonic()
                return

    async def _write(self, series: _Series, count: int) -> None:
        namespace = series.event.regarding.namespace or "default"
        if series.sent:
            body = {"series": {"count": count, "lastObservedTime": _micro(series.last)}}
            try:
                await self._client.patch(EVENTS, namespace, series.name, body)
            except ApiError as error:
                if not error.not_found:
                    raise
            else:
                return
        try:
            await self._client.create(EVENTS, self._manifest(series, namespace, count))
        except ApiError as error:
            # Ours, by its name: an earlier try was stored although no answer came.
            if not error.already_exists:
                raise

    def _manifest(self, series: _Series, namespace: str, count: int) -> KubeEvent:
        event = series.event
        return KubeEvent(
            metadata=ObjectMeta(name=series.name, namespace=namespace),
            event_time=_micro(series.first),
            series=EventSeries(count=count, last_observed_time=_micro(series.last)) if count > 1 else None,
            reporting_controller=self._controller,
            reporting_instance=self._instance,
            action=event.action[:TEXT_LIMIT],
            reason=event.reason[:TEXT_LIMIT],
            regarding=ObjectReference(
                kind=event.regarding.kind,
                namespace=event.regarding.namespace,
                name=event.regarding.name,
                uid=event.uid,
                api_version=event.api_version,
                resource_version=event.resource_version,
            ),
            note=cut_note(event.note),
            type=event.type.value,
        )

    def _lose(self, series: _Series, why: str) -> None:
        """Drop a series that could not be sent, so that the next equal Event starts afresh."""
        identity = _identity(series.event)
        if self._series.get(identity) is series:
            del self._series[identity]
        self._drop(series.event, why)

    def _drop(self, event: Event, why: str) -> None:
        if self._on_drop is not None:
            self._on_drop()
        _log.warning("event dropped", regarding=str(event.regarding), reason=event.reason, error=why)


def _identity(event: Event) -> _Identity:
    return event.regarding, event.uid, event.type, event.reason, event.action


def _micro(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
