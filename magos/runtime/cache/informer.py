"""One kind of object, watched: a cache that follows the API server, and handlers that get every change.

Promises:

1. ``run`` goes on through every failure of the server and of the network; it ends only by cancellation.
2. Handlers are called synchronously in the order of the changes, each change exactly once per handler, after the cache
   has it. They may only compute keys and wake queues. A handler that raises is reported and the next one is called; one
   that takes longer than ``SLOW`` is counted, and named when it does so first.
3. ``synced`` is true once the first list is in the cache and every handler got all of it. A handler that comes
   later gets the content at once, as ``initial`` changes.
4. An object that cannot be decoded is logged when it becomes so, and each of its versions is passed once to the
   callbacks (``on_undecodable``). The others are not concerned.
5. After each batch, bookmark and list the progress callbacks get the cache's new ``resource_version``.
6. Nothing is listed in steady state: see ``watcher``.
"""

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import structlog

from magos.api.meta import Kind, Resource
from magos.runtime.cache.cache import Cache, Change
from magos.runtime.cache.indexer import ObjectKey
from magos.runtime.cache.selection import Selection
from magos.runtime.cache.watcher import ListCall, WatchCall, Watcher
from magos.runtime.client.client import ApiClient
from magos.runtime.client.errors import ApiError
from magos.runtime.client.interner import Interner
from magos.runtime.client.watchevents import Undecodable, WatchEvent
from magos.runtime.clock import Clock

R = TypeVar("R", bound=Resource)

SLICE = 500
"""Changes passed on between two turns of the loop: a relist of thousands must not hold up a lease renewal."""


SLOW = 0.001
"""Seconds a handler may take for one change: everything else of the process waits for it."""


@dataclass
class InformerStats:
    """Running totals, for metrics; ``problem`` is the last failure, empty while all is well."""

    lists: int = 0
    watches: int = 0
    events: int = 0
    failures: int = 0
    handler_errors: int = 0
    slow_handlers: int = 0
    undecodable: int = 0
    last_contact: float = 0.0
    problem: str = ""


class Informer(Generic[R]):
    """See the module. ``namespace`` and ``selector`` restrict what is watched; empty means all."""

    def __init__(  # noqa: PLR0913 - the description of a watch, all by keyword
        self,
        client: ApiClient,
        kind: Kind[R],
        *,
        namespace: str = "",
        selector: str = "",
        indexers: Mapping[str, Callable[[R], Iterable[str]]] | None = None,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self.kind = kind
        self.namespace = namespace
        self.selector = selector
        self.cache: Cache[R] = Cache(kind, indexers)
        self.stats = InformerStats()
        self._client = client
        self._clock = clock
        self._selection = Selection(selector)
        self._watcher: Watcher[R] = Watcher(rng)
        self._interner = Interner()
        self._handlers: list[Callable[[Change[R]], None]] = []
        self._slow: set[str] = set()
        self._progress: list[Callable[[str], None]] = []
        self._undecodable: list[Callable[[Undecodable], None]] = []
        self._complained: dict[ObjectKey, str] = {}
        self._synced = asyncio.Event()
        self._log = structlog.get_logger(__name__).bind(resource=kind.resource)

    @property
    def synced(self) -> bool:
        """See promise 3."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Return once ``synced``."""
        await self._synced.wait()

    def is_shown(self, namespace: str, labels: Mapping[str, str] | None) -> bool:
        """Tell whether an object with these labels (None: not known) is, or may be, among what is watched."""
        return self.namespace in ("", namespace) and (labels is None or self._selection.selects(labels))

    def add_handler(self, handler: Callable[[Change[R]], None]) -> None:
        """Tell ``handler`` all changes from now on, and now what is known already."""
        self._handlers.append(handler)
        for item in self.cache.list():
            self._tell(handler, Change(old=None, new=item, initial=True))

    def on_progress(self, callback: Callable[[str], None]) -> None:
        """Call ``callback`` with the cache's resourceVersion whenever it may have moved."""
        self._progress.append(callback)

    def on_undecodable(self, callback: Callable[[Undecodable], None]) -> None:
        """Call ``callback`` with each version of each object that cannot be decoded, once."""
        self._undecodable.append(callback)

    async def run(self) -> None:
        """List and watch for ever."""
        while True:
            action = self._watcher.action()
            await asyncio.sleep(action.delay)
            if isinstance(action, ListCall):
                await self._list(action)
            else:
                await self._watch(action)

    async def _list(self, call: ListCall) -> None:
        self.stats.lists += 1
        try:
            page = await self._client.list(
                self.kind,
                self.namespace,
                selector=self.selector,
                limit=call.limit,
                continue_=call.continue_,
                interner=self._interner,
            )
        except ApiError as error:
            self._watcher.list_failed(error)
            self._report(error)
            return
        self._contact()
        whole = self._watcher.listed(page)
        if whole is not None:
            changes = self.cache.replace(whole.items, whole.undecodable, whole.resource_version)
            self._complain()
            await self._announce(changes, initial=not self.synced)
            self._synced.set()

    async def _watch(self, call: WatchCall) -> None:
        self.stats.watches += 1
        failure: ApiError | None = None
        opened: float | None = None
        try:
            async with self._client.watch(
                self.kind,
                namespace=self.namespace,
                selector=self.selector,
                resource_version=call.resource_version,
                timeout_seconds=call.timeout_seconds,
                interner=self._interner,
            ) as batches:
                opened = self._clock.monotonic()
                async for batch in batches:
                    await self._take(self._watcher.events(batch))
                    if self._watcher.over:
                        break
        except ApiError as error:
            failure = error
        failure = self._watcher.ended(failure, 0.0 if opened is None else self._clock.monotonic() - opened)
        if failure is not None:
            self._report(failure)

    async def _take(self, events: tuple[WatchEvent[R], ...]) -> None:
        self._contact()
        self.stats.events += len(events)
        changes = self.cache.apply(events)
        self._complain()
        await self._announce(changes, initial=False)

    async def _announce(self, changes: list[Change[R]], *, initial: bool) -> None:
        handlers = tuple(self._handlers)  # one that joins in between gets the whole cache, this included
        for index, change in enumerate(changes):
            if index and index % SLICE == 0:
                await asyncio.sleep(0)
            seen = Change(old=change.old, new=change.new, initial=True) if initial else change
            for handler in handlers:
                self._tell(handler, seen)
        for callback in tuple(self._progress):
            callback(self.cache.resource_version)

    def _tell(self, handler: Callable[[Change[R]], None], change: Change[R]) -> None:
        started = self._clock.monotonic()
        try:
            handler(change)
        except Exception:  # noqa: BLE001 - reported; one bad handler must not make the others deaf
            self.stats.handler_errors += 1
            self._log.exception("handler failed", handler=repr(handler))
        if (took := self._clock.monotonic() - started) > SLOW:
            self._note_slow(handler, took)

    def _note_slow(self, handler: Callable[[Change[R]], None], took: float) -> None:
        self.stats.slow_handlers += 1
        name = repr(handler)
        if name not in self._slow:
            self._slow.add(name)
            self._log.info("handler is slow", handler=name, seconds=round(took, 6))

    def _complain(self) -> None:
        """Report what cannot be decoded, once per object: one that is written again and again fills no log."""
        held = self.cache.undecodable
        self._complained = {key: uid for key, uid in self._complained.items() if key in held}
        for bad in self.cache.quarantine.drain():
            self.stats.undecodable += 1
            meta = bad.metadata
            if self._complained.get((meta.namespace, meta.name)) != meta.uid:
                self._complained[meta.namespace, meta.name] = meta.uid
                where = {"namespace": meta.namespace, "name": meta.name}
                self._log.error("object cannot be decoded", **where, problem=bad.problem)
            for callback in self._undecodable:
                callback(bad)

    def _contact(self) -> None:
        self.stats.last_contact = self._clock.monotonic()
        self.stats.problem = ""

    def _report(self, error: ApiError) -> None:
        self.stats.failures += 1
        self.stats.problem = str(error)
        self._log.warning("watch interrupted", error=str(error), phase=self._watcher.phase.value)
