"""Claims of magos/runtime/consistency.py about a single gate, against a model of what a cache has shown."""

import random
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from magos.api.kube import CONFIG_MAPS, JOBS, ConfigMap
from magos.api.meta import ObjectMeta
from magos.runtime.client import ApiClient
from magos.runtime.codec import WatchEvent, WatchType
from magos.runtime.consistency import Gate, Standing, Write
from magos.runtime.decision import Priority
from magos.runtime.informer import Informer
from magos.runtime.workqueue import Key
from tests.sim.apiserver import SimApiServer
from tests.sim.virtualtime import VirtualClock, VirtualLoop

NAMES = ("a", "b", "c")
KEYS = (Key("default", "k1"), Key("default", "k2"))


class GateMachine(RuleBasedStateMachine):
    """Writes, watch events and passes in any order; time stands still, so nothing ever becomes stale."""

    @initialize()
    def start(self) -> None:
        self.loop = VirtualLoop()
        self.released: list[Key] = []
        self.parked: set[Key] = set()
        self.needs: dict[Key, list[tuple[str, str, bool]]] = {key: [] for key in KEYS}
        self.server: dict[str, ConfigMap] = {}
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
        self.gate = Gate(client, clock, (self.informer,), lambda key, _priority: self.released.append(key))

    def _on_loop(self, action: Any) -> Any:
        async def run() -> Any:
            return action()

        return self.loop.run_until_complete(run())

    def _commit(self, name: str, *, deleted: bool) -> ConfigMap:
        self.version += 1
        uid = self.server[name].metadata.uid if name in self.server else f"u{self.version}"
        meta = ObjectMeta(name=name, namespace="default", uid=uid, resource_version=str(self.version))
        item = ConfigMap(metadata=meta)
        kind = WatchType.DELETED if deleted else WatchType.MODIFIED if name in self.server else WatchType.ADDED
        self.behind.append(WatchEvent(type=kind, object=item, resource_version=meta.resource_version))
        if deleted:
            del self.server[name]
        else:
            self.server[name] = item
        return item

    @rule(key=st.sampled_from(KEYS), name=st.sampled_from(NAMES))
    def write(self, key: Key, name: str) -> None:
        if key in self.parked:
            return  # it is not running
        meta = self._commit(name, deleted=False).metadata
        write = Write(
            kind=CONFIG_MAPS, namespace="default", name=name, uid=meta.uid, resource_version=meta.resource_version
        )
        self.needs[key].append((name, meta.resource_version, False))
        self._on_loop(lambda: self.gate.record(key, (write,)))

    @rule(key=st.sampled_from(KEYS), name=st.sampled_from(NAMES))
    def delete(self, key: Key, name: str) -> None:
        held = self.informer.cache.get("default", name)
        if key in self.parked or name not in self.server or held is None:
            return  # it is not running, or it would decide on what the cache was never shown: that does not gate
        uid = self.server[name].metadata.uid
        if held.metadata.uid != uid:
            return
        self._commit(name, deleted=True)
        self.needs[key].append((name, uid, True))
        write = Write(kind=CONFIG_MAPS, namespace="default", name=name, uid=uid, gone=True)
        self._on_loop(lambda: self.gate.record(key, (write,)))

    @rule(key=st.sampled_from(KEYS))
    def write_what_nobody_watches(self, key: Key) -> None:
        write = Write(kind=JOBS, namespace="default", name="x", uid="u", resource_version="999999")
        self._on_loop(lambda: self.gate.record(key, (write,)))

    @rule(name=st.sampled_from(NAMES))
    def somebody_else_writes(self, name: str) -> None:
        self._commit(name, deleted=False)

    @rule(count=st.integers(1, 4))
    def the_watch_delivers(self, count: int) -> None:
        batch, self.behind = self.behind[:count], self.behind[count:]
        self._progress(batch)

    @rule()
    def a_bookmark_arrives(self) -> None:
        batch, self.behind = self.behind, []
        self._progress([*batch, WatchEvent(type=WatchType.BOOKMARK, resource_version=str(self.version))])

    def _progress(self, batch: list[WatchEvent[ConfigMap]]) -> None:
        def apply() -> None:
            self.informer.cache.apply(batch)
            for callback in self.informer._progress:
                callback(self.informer.cache.resource_version)

        self._on_loop(apply)
        for key in self.released:
            assert key in self.parked, "released without having been parked"
            assert self._seen(key), "released before the cache has seen its writes"
            self.parked.discard(key)
        self.released.clear()

    @rule(key=st.sampled_from(KEYS))
    def run(self, key: Key) -> None:
        standing = self._on_loop(lambda: self.gate.enter(key, Priority.CHANGE))
        assert (standing is Standing.READY) == self._seen(key)
        if standing is Standing.PARKED:
            self.parked.add(key)

    def _seen(self, key: Key) -> bool:
        cache = self.informer.cache
        for name, what, gone in self.needs[key]:
            held = cache.get("default", name)
            if gone and held is not None and held.metadata.uid == what:
                return False
            if not gone and int(cache.resource_version) < int(what):
                return False
        return True

    @invariant()
    def no_parked_key_is_forgotten(self) -> None:
        for key in getattr(self, "parked", ()):
            assert not self._seen(key), f"{key} could run and was not released"

    @invariant()
    def nothing_is_kept_once_everything_was_seen(self) -> None:
        if getattr(self, "needs", None) and all(self._seen(key) for key in KEYS):
            assert self.gate.parked == 0

    def teardown(self) -> None:
        if hasattr(self, "loop"):
            self.loop.close()


TestGate = GateMachine.TestCase
TestGate.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)


def test_a_deletion_decided_on_a_live_read_does_not_gate() -> None:
    """Nobody knows the version at which it took place, so no cache could ever be said to have reached it."""
    machine = GateMachine()
    machine.start()
    machine.somebody_else_writes("a")
    uid = machine.server["a"].metadata.uid
    gone = Write(kind=CONFIG_MAPS, namespace="default", name="a", uid=uid, gone=True)
    machine._on_loop(lambda: machine.gate.record(KEYS[0], (gone,)))
    assert machine._on_loop(lambda: machine.gate.enter(KEYS[0], Priority.CHANGE)) is Standing.READY
    machine.teardown()
