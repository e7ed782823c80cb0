"""Read your own writes: a key is not reconciled before the caches have seen what its own passes wrote.

Promises:

1. After a pass, the highest resourceVersion written per object is remembered for the key, and of each deletion the UID
   and a version at which the object existed. A cache that is past this version and does not hold the UID (or shows it
   as on its way) has seen the deletion, even of an object that was deleted before the cache was ever shown it.
2. A key that is wanted before the caches have passed its writes is held back: no worker waits for it. An event or a
   bookmark that brings the caches up to date releases it.
3. A write that no cache has shown for 5 s is looked up once at the API server: what can never be shown (created and
   deleted meanwhile, history rewritten by a restore) no longer counts, and the key runs, as no event will ever wake it.
4. After 30 s the key runs with ``view.stale`` set, which is logged, and goes on so until the caches have caught up.
5. A write with unknown outcome is looked up at once; what is found is what the caches have to show, and be it the end
   of what they hold. A look-up that fails is repeated every 5 s.

Answers of writes never enter a cache: only their versions are used. What no informer watches never gates: other kinds,
other namespaces, objects outside of the selector.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple

import anyio
import structlog
from anyio.abc import TaskGroup
from msgspec import Struct
from msgspec.structs import replace

from magos.api.meta import Kind, ObjectMeta
from magos.runtime.cache.informer import Informer
from magos.runtime.client.client import ApiClient
from magos.runtime.client.errors import ApiError
from magos.runtime.clock import Clock
from magos.runtime.controller.workqueue import Key
from magos.runtime.decision import Priority
from magos.runtime.resourceversion import is_older

_log = structlog.get_logger(__name__)

LOOK_AFTER = 5.0
"""Seconds after a write until the API server itself is asked about it."""

LOOKS_AT_ONCE = 4

STALE_AFTER = 30.0
"""Seconds after a write until the key runs with a stale view."""


class Write(Struct, frozen=True, kw_only=True):
    """One acknowledged or possible write: the caches must reach ``resource_version``, and lose ``uid`` if ``gone``.

    The version of a deletion is any at which the object existed: a watch is sure to show it, or to be past it.
    ``unknown`` marks a write that may or may not have taken place. ``labels`` None are not known.
    """

    kind: Kind[Any]
    namespace: str
    name: str
    uid: str = ""
    resource_version: str = ""
    labels: Mapping[str, str] | None = None
    gone: bool = False
    unknown: bool = False


class CacheState(StrEnum):
    """Whether a key may run now."""

    READY = "ready"
    BEHIND = "behind"
    STALE = "stale"


class _Slot(NamedTuple):
    resource: str
    namespace: str
    name: str
    gone: bool


class _Entry:
    """What the caches have to show one key, and since when; ``waiting`` if the key was wanted meanwhile."""

    __slots__ = ("priority", "since", "waiting", "writes")

    def __init__(self, since: float) -> None:
        self.writes: dict[_Slot, Write] = {}
        self.since = since
        self.priority = Priority.CHANGE
        self.waiting = False


class WriteBarrier:
    """Decides whether a key may run. Everything but ``run`` is synchronous and belongs to the event loop's thread."""

    def __init__(
        self,
        client: ApiClient,
        clock: Clock,
        informers: Sequence[Informer[Any]],
        release: Callable[[Key, Priority], None],
    ) -> None:
        self._client = client
        self._clock = clock
        self._release = release
        self._informers = {each.kind.resource: each for each in informers}
        self._entries: dict[Key, _Entry] = {}
        self._open: dict[str, set[Key]] = {resource: set() for resource in self._informers}
        self._look: deque[tuple[float, Key, _Entry]] = deque()
        self._expire: deque[tuple[float, Key, _Entry]] = deque()
        self._unknown: list[tuple[Key, _Entry]] = []
        self._looking = anyio.CapacityLimiter(LOOKS_AT_ONCE)
        self._wake = anyio.Event()
        for resource, informer in self._informers.items():
            informer.on_progress(partial(self._progressed, resource))

    @property
    def waiting(self) -> int:
        """Number of keys that wait for a cache."""
        return sum(1 for entry in self._entries.values() if entry.waiting)

    def record(self, key: Key, writes: Iterable[Write]) -> None:
        """Remember what the pass of ``key`` wrote; writes no informer will ever show are dropped here."""
        shown = [write for write in writes if self._is_shown(write)]
        if not shown:
            return
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _Entry(self._clock.monotonic())
            self._look.append((entry.since + LOOK_AFTER, key, entry))
            self._expire.append((entry.since + STALE_AFTER, key, entry))
        for write in shown:
            slot = _Slot(write.kind.resource, write.namespace, write.name, write.gone)
            known = entry.writes.get(slot)
            if known and not write.unknown and is_older(write.resource_version, known.resource_version):
                continue
            entry.writes[slot] = write
            self._open[slot.resource].add(key)
            if write.unknown:
                self._unknown.append((key, entry))
        self._settle(key, entry)
        self._wake.set()

    def enter(self, key: Key, priority: Priority) -> CacheState:
        """Tell whether ``key`` may run now; if not, it is released with ``priority`` later."""
        entry = self._entries.get(key)
        if entry is None or self._settle(key, entry):
            return CacheState.READY
        if self._clock.monotonic() - entry.since >= STALE_AFTER:
            entry.waiting = False
            return CacheState.STALE
        entry.waiting = True
        entry.priority = priority
        return CacheState.BEHIND

    async def run(self) -> None:
        """Watch the deadlines of the keys held back until cancelled."""
        async with anyio.create_task_group() as group:
            while True:
                self._start_due(group)
                self._wake = anyio.Event()
                heads = [queue[0][0] for queue in (self._look, self._expire) if queue]
                with anyio.move_on_after(min(heads) - self._clock.monotonic() if heads else None):
                    await self._wake.wait()

    def _start_due(self, group: TaskGroup) -> None:
        now = self._clock.monotonic()
        unknown, self._unknown = self._unknown, []
        for key, entry in unknown:
            group.start_soon(self._look_up, key, entry)
        while self._look and self._look[0][0] <= now:
            _, key, entry = self._look.popleft()
            if self._entries.get(key) is entry:
                group.start_soon(self._look_up, key, entry)
        while self._expire and self._expire[0][0] <= now:
            _, key, entry = self._expire.popleft()
            if self._entries.get(key) is entry:
                behind = sorted({slot.resource for slot in entry.writes})
                _log.warning("caches do not show own writes", namespace=key.namespace, name=key.name, resources=behind)
                self._release(key, entry.priority)

    async def _look_up(self, key: Key, entry: _Entry) -> None:
        never_shown = unanswered = False
        for slot, write in list(entry.writes.items()):
            try:
                async with self._looking:
                    live, version = await self._live(self._informers[slot.resource], write)
            except ApiError:
                unanswered = True
                continue
            if entry.writes.get(slot) is write:
                self._judge(entry, slot, live, version)
                never_shown |= slot not in entry.writes
        if self._entries.get(key) is entry:
            self._recheck(key, entry, wanted=never_shown)
        if unanswered:
            self._look.append((self._clock.monotonic() + LOOK_AFTER, key, entry))
            self._wake.set()

    async def _live(self, informer: Informer[Any], write: Write) -> tuple[ObjectMeta | None, str]:
        """Return the object as this informer would be shown it (same kind, same selector), and as of which version."""
        page = await self._client.list(
            informer.kind, write.namespace, selector=informer.selector, field_selector=f"metadata.name={write.name}"
        )
        found = [each.metadata for each in (*page.items, *page.undecodable)]
        return (found[0] if found else None), page.resource_version

    def _judge(self, entry: _Entry, slot: _Slot, live: ObjectMeta | None, version: str) -> None:
        """Keep of a write what the cache can still be expected to show, now that the state at ``version`` is known."""
        write = entry.writes.pop(slot)
        cache = self._informers[slot.resource].cache
        if live is None and write.gone:
            # The end is shown of what a cache holds, and of what it is still to be shown: unless that never happened.
            held = cache.get(slot.namespace, slot.name) is not None
            kept = held or not is_older(version, write.resource_version)
        elif live is None:
            ghost = cache.get(slot.namespace, slot.name)
            kept = ghost is not None and (not write.unknown or is_older(ghost.metadata.resource_version, version))
            if ghost is not None and write.unknown:
                # It is gone, and the cache is still to be shown its end: a pass before that would only ask again.
                held_as = ghost.metadata
                write = replace(write, gone=True, uid=held_as.uid, resource_version=held_as.resource_version)
        elif write.gone:
            kept = live.uid != write.uid or live.deletion_timestamp is not None
        elif write.unknown:
            write, kept = replace(write, resource_version=live.resource_version), True
        else:
            # The server knows only something older: it was restored, and what was written never happened.
            kept = not is_older(live.resource_version, write.resource_version)
        if kept:
            entry.writes[slot] = replace(write, unknown=False)

    def _progressed(self, resource: str, _version: str) -> None:
        for key in list(self._open[resource]):
            self._recheck(key, self._entries[key])

    def _recheck(self, key: Key, entry: _Entry, *, wanted: bool = False) -> None:
        wanted = wanted or entry.waiting
        if self._settle(key, entry) and wanted:
            self._release(key, entry.priority)

    def _settle(self, key: Key, entry: _Entry) -> bool:
        """Strike off what the caches have shown; tell whether nothing is left."""
        for slot in [slot for slot, write in entry.writes.items() if self._seen(write)]:
            del entry.writes[slot]
        left = {slot.resource for slot in entry.writes}
        for resource, keys in self._open.items():
            if resource not in left:
                keys.discard(key)
        if left:
            return False
        del self._entries[key]
        return True

    def _is_shown(self, write: Write) -> bool:
        informer = self._informers.get(write.kind.resource)
        if informer is None:
            return False
        # What is deselected by this very write is held, and its end is shown.
        held = informer.cache.get(write.namespace, write.name) is not None
        return held or informer.is_shown(write.namespace, write.labels)

    def _seen(self, write: Write) -> bool:
        cache = self._informers[write.kind.resource].cache
        if write.unknown or is_older(cache.resource_version, write.resource_version):
            return False
        if not write.gone:
            return True
        held = cache.get(write.namespace, write.name)
        return held is None or held.metadata.uid != write.uid or held.metadata.deletion_timestamp is not None
