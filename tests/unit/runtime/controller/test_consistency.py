"""Claims of magos/runtime/controller/consistency.py about one write barrier, against a model of the cache."""

import random
from typing import Any

import anyio
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec.structs import replace

from magos.api.kube import CONFIG_MAPS, JOBS, ConfigMap
from magos.api.meta import ObjectMeta
from magos.runtime.cache.informer import Informer
from magos.runtime.client.client import ApiClient
from magos.runtime.client.watchevents import WatchEvent, WatchType
from magos.runtime.controller.consistency import LOOK_AFTER, STALE_AFTER, CacheState, Write, WriteBarrier
from magos.runtime.controller.workqueue import Key
from magos.runtime.decision import Priority
from tests.sim.apiserver import SimApiServer
from tests.sim.virtualtime import VirtualClock, VirtualLoop, run_virtual

_LOOSE = replace(CONFIG_MAPS, type=dict)

NAMES = ("a", "b", "c")
KEYS = (Key("default", "k1"), Key("default", "k2"))


class GateMachine(RuleBasedStateMachine):
    """Writes, watch events and passes in any order; time stands still, so nothing ever becomes stale."""

    @initialize()
    def start(self) -> None:
        self.loop = VirtualLoop()
        self.released: list[Key] = []
        self.waiting: set[Key] = set()
        self.needs: dict[Key, int] = dict.fromkeys(KEYS, 0)
        self.server: dict[str, ConfigMap] = {}
        self.doomed: dict[str, int] = {}  # uid: the version at which its deletion began
        self.behind: list[WatchEvent[ConfigMap]] = []
        self.version = 100
        self.serial = 0
        self._on_loop(self._build)

    def _build(self) -> None:
        rng = random.Random(1)
        clock = VirtualClock()
        client: ApiClient = SimApiServer(clock, rng).client()
        self.informer: Informer[ConfigMap] = Informer(client, CONFIG_MAPS, clock=clock, rng=rng)
        self.informer.cache.replace((), (), "100")
        self.barrier = WriteBarrier(client, clock, (self.informer,), lambda key, _priority: self.released.append(key))

    def _on_loop(self, action: Any) -> Any:
        async def run() -> Any:
            return action()

        return self.loop.run_until_complete(run())

    def _commit(self, name: str, *, deleted: bool = False, dying: bool = False) -> ObjectMeta:
        self.version += 1
        last = self.server.get(name)
        uid = last.metadata.uid if last else f"u{self.version}"
        dying = dying or (last is not None and last.metadata.deletion_timestamp is not None)
        meta = ObjectMeta(
            name=name,
            namespace="default",
            uid=uid,
            resource_version=str(self.version),
            deletion_timestamp="2026-01-01T00:00:00Z" if dying else None,
        )
        item = ConfigMap(metadata=meta)
        kind = WatchType.DELETED if deleted else WatchType.MODIFIED if last else WatchType.ADDED
        self.behind.append(WatchEvent(type=kind, object=item, resource_version=meta.resource_version))
        if deleted:
            del self.server[name]
        else:
            self.server[name] = item
        return meta

    @rule(key=st.sampled_from(KEYS), name=st.sampled_from(NAMES))
    def write(self, key: Key, name: str) -> None:
        if key in self.waiting:
            return  # it is not running
        meta = self._commit(name)
        write = Write(
            kind=CONFIG_MAPS, namespace="default", name=name, uid=meta.uid, resource_version=meta.resource_version
        )
        self.needs[key] = self.version
        self._on_loop(lambda: self.barrier.record(key, (write,)))

    @rule(key=st.sampled_from(KEYS), name=st.sampled_from(NAMES), finalizer=st.booleans())
    def delete(self, key: Key, name: str, finalizer: bool) -> None:
        if key in self.waiting or name not in self.server:
            return
        # What it decides on: what the cache holds, or what a live read shows.
        held = self.informer.cache.get("default", name)
        last = self.server[name].metadata
        judged = held.metadata if held is not None and held.metadata.uid == last.uid else last
        if last.deletion_timestamp is None:
            self._commit(name, deleted=not finalizer, dying=finalizer)
            self.doomed[last.uid] = self.version
        self.needs[key] = max(self.needs[key], self.doomed[last.uid], int(judged.resource_version))
        write = Write(
            kind=CONFIG_MAPS,
            namespace="default",
            name=name,
            uid=last.uid,
            resource_version=judged.resource_version,
            gone=True,
        )
        self._on_loop(lambda: self.barrier.record(key, (write,)))

    @rule(key=st.sampled_from(KEYS))
    def write_what_nobody_watches(self, key: Key) -> None:
        write = Write(kind=JOBS, namespace="default", name="x", uid="u", resource_version="999999")
        self._on_loop(lambda: self.barrier.record(key, (write,)))

    @rule(name=st.sampled_from(NAMES))
    def somebody_else_writes(self, name: str) -> None:
        self._commit(name)

    @rule(name=st.sampled_from(NAMES))
    def somebody_else_deletes(self, name: str) -> None:
        if name in self.server:
            self._commit(name, deleted=True)

    @rule(count=st.integers(1, 4))
    def the_watch_delivers(self, count: int) -> None:
        batch, self.behind = self.behind[:count], self.behind[count:]
        self._progress(batch)

    @rule()
    def a_bookmark_arrives(self) -> None:
        batch, self.behind = self.behind, []
        self._progress([*batch, WatchEvent(type=WatchType.BOOKMARK, resource_version=str(self.version))])

    @rule()
    def a_relist_shows_what_is(self) -> None:
        self.behind = []
        self._on_loop(lambda: self.informer.cache.replace(self.server.values(), (), str(self.version)))
        self._progress([])

    def _progress(self, batch: list[WatchEvent[ConfigMap]]) -> None:
        def apply() -> None:
            self.informer.cache.apply(batch)
            for callback in self.informer._progress:
                callback(self.informer.cache.resource_version)

        self._on_loop(apply)
        for key in self.released:
            assert key in self.waiting, "released without having been held back"
            assert self._seen(key), "released before the cache has seen its writes"
            self.waiting.discard(key)
        self.released.clear()

    @rule(key=st.sampled_from(KEYS))
    def run(self, key: Key) -> None:
        state = self._on_loop(lambda: self.barrier.enter(key, Priority.CHANGE))
        assert (state is CacheState.READY) == self._seen(key)
        if state is CacheState.BEHIND:
            self.waiting.add(key)

    def _seen(self, key: Key) -> bool:
        return int(self.informer.cache.resource_version) >= self.needs[key]

    @invariant()
    def no_parked_key_is_forgotten(self) -> None:
        for key in getattr(self, "waiting", ()):
            assert not self._seen(key), f"{key} could run and was not released"

    @invariant()
    def nothing_is_kept_once_everything_was_seen(self) -> None:
        if getattr(self, "needs", None) and all(self._seen(key) for key in KEYS):
            assert self.barrier.waiting == 0

    def teardown(self) -> None:
        if hasattr(self, "loop"):
            self.loop.close()


TestGate = GateMachine.TestCase
TestGate.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)


class Behind:
    """A write barrier over a cache that is told nothing any more, and one written object that the server has."""

    def __init__(self) -> None:
        rng, clock = random.Random(1), VirtualClock()
        self.server = SimApiServer(clock, rng)
        self.client = self.server.client()
        informer: Informer[ConfigMap] = Informer(self.client, CONFIG_MAPS, clock=clock, rng=rng)
        informer.cache.replace((), (), "1")
        self.informer = informer
        self.released: list[Key] = []
        self.barrier = WriteBarrier(self.client, clock, (informer,), lambda key, _priority: self.released.append(key))

    async def create(self) -> Write:
        manifest = ConfigMap(metadata=ObjectMeta(name="a", namespace="default"))
        meta = (await self.client.create(CONFIG_MAPS, manifest)).metadata
        return Write(
            kind=CONFIG_MAPS, namespace="default", name="a", uid=meta.uid, resource_version=meta.resource_version
        )

    async def released_after(self, write: Write) -> float:
        """Return how long the key of this write has to wait, in seconds."""
        async with anyio.create_task_group() as group:
            group.start_soon(self.barrier.run)
            self.barrier.record(KEYS[0], (write,))
            assert self.barrier.enter(KEYS[0], Priority.CHANGE) is CacheState.BEHIND
            started = anyio.current_time()
            while not self.released:  # noqa: ASYNC110 - virtual time
                await anyio.sleep(0.1)
            group.cancel_scope.cancel()
        return anyio.current_time() - started


@pytest.mark.parametrize("rewritten", [True, False], ids=["history-rewritten", "watch-behind"])
def test_a_deletion_that_no_watch_shows_in_time_counts_only_if_it_still_can_be_shown(rewritten: bool) -> None:
    async def scene() -> None:
        world = Behind()
        write = await world.create()
        await world.client.delete(CONFIG_MAPS, "default", "a")
        version = "1" + write.resource_version if rewritten else write.resource_version
        waited = await world.released_after(replace(write, resource_version=version, gone=True))
        # What a restore undid will never be shown; what the server knows will be.
        assert abs(waited - (LOOK_AFTER if rewritten else STALE_AFTER)) < 1

    run_virtual(scene)


def test_an_object_that_is_gone_although_the_cache_holds_it_is_waited_for() -> None:
    """A write to it was answered with "not found": asking again before the cache knows would be asking without end."""

    async def scene() -> None:
        world = Behind()
        write = await world.create()
        held = ConfigMap(
            metadata=ObjectMeta(name="a", namespace="default", uid=write.uid, resource_version=write.resource_version)
        )
        world.informer.cache.replace((held,), (), write.resource_version)
        await world.client.delete(CONFIG_MAPS, "default", "a")
        unclear = Write(kind=CONFIG_MAPS, namespace="default", name="a", unknown=True)
        assert abs(await world.released_after(unclear) - STALE_AFTER) < 1
        world.informer.cache.replace((), (), "1" + write.resource_version)
        assert world.barrier.enter(KEYS[0], Priority.CHANGE) is CacheState.READY

    run_virtual(scene)


def test_an_object_that_cannot_be_decoded_is_not_taken_for_one_that_is_gone() -> None:
    async def scene() -> None:
        world = Behind()
        write = await world.create()
        await world.client.patch(_LOOSE, "default", "a", {"data": {"n": 7}})
        assert abs(await world.released_after(write) - STALE_AFTER) < 1

    run_virtual(scene)


def test_an_object_outside_the_selector_gates_only_while_the_cache_holds_it() -> None:
    def build(*held: ConfigMap) -> WriteBarrier:
        rng = random.Random(1)
        clock = VirtualClock()
        client = SimApiServer(clock, rng).client()
        informer: Informer[ConfigMap] = Informer(client, CONFIG_MAPS, selector="team=a", clock=clock, rng=rng)
        informer.cache.replace(held, (), "1")
        return WriteBarrier(client, clock, (informer,), lambda _key, _priority: None)

    def state(barrier: WriteBarrier, labels: dict[str, str] | None) -> CacheState:
        write = Write(kind=CONFIG_MAPS, namespace="default", name="a", uid="u", resource_version="5", labels=labels)
        barrier.record(KEYS[0], (write,))
        return barrier.enter(KEYS[0], Priority.CHANGE)

    async def scene() -> None:
        assert state(build(), {"team": "b"}) is CacheState.READY
        assert state(build(), {"team": "a"}) is CacheState.BEHIND
        assert state(build(), None) is CacheState.BEHIND
        # The write takes it out of the selection: the cache is shown its end.
        held = ConfigMap(metadata=ObjectMeta(name="a", namespace="default", uid="u", resource_version="1"))
        assert state(build(held), {"team": "b"}) is CacheState.BEHIND

    run_virtual(scene)
