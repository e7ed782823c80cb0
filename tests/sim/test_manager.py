"""Claims of magos/runtime/manager/manager.py: starting, leading, standing by, stopping and dying, in virtual time."""

import random
from collections.abc import Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from magos.api.kube import CONFIG_MAPS, EVENTS, LEASES
from magos.errors import InvariantViolation
from magos.runtime.controller.controller import ControllerSpec
from magos.runtime.controller.source import EventSource, own_key, owner_key
from magos.runtime.controller.workqueue import Key
from magos.runtime.manager import manager as manager_module
from magos.runtime.manager.assembly import Assembly
from magos.runtime.manager.composition import ControllerApp
from magos.runtime.manager.manager import Manager
from magos.runtime.manager.settings import Settings
from tests.sim import toy
from tests.sim.apiserver import Answer, Rule
from tests.sim.apiserver.resources import ResourceType
from tests.sim.toy import WIDGETS
from tests.sim.world import WIDGET_RESOURCE, World, in_world

SETTINGS = Settings(namespace="default", health=None, leader_elect=True, grace=20.0)


def build(assembly: Assembly) -> Sequence[ControllerSpec]:
    widgets = assembly.informer(WIDGETS)
    children = assembly.informer(CONFIG_MAPS)
    sources = (EventSource(widgets, own_key), EventSource(children, owner_key(WIDGETS)))
    return (ControllerSpec(name="toy", kind=WIDGETS, reconcile=toy.reconcile, sources=sources),)


class Replica:
    """One process under a manager, and how it ended."""

    def __init__(self, world: World, name: str, settings: Settings = SETTINGS, make: Any = build) -> None:
        self.transport = world.server.transport(name)
        self.code: int | None = None
        app = ControllerApp(name="toy-controller", settings=settings, build=make)
        self.manager = Manager(app, self.transport, clock=world.clock, rng=random.Random(name))

    async def run(self) -> None:
        self.code = await self.manager.run()

    @asynccontextmanager
    async def running(self) -> Any:
        async with anyio.create_task_group() as group:
            group.start_soon(self.run)
            yield self
            group.cancel_scope.cancel()


async def holder(world: World) -> str:
    lease = await world.user.get(LEASES, "default", "toy-controller")
    return lease.spec.holder_identity or ""


def test_a_clean_stop_finishes_gives_the_lease_back_and_exits_zero() -> None:
    async def scene(world: World) -> None:
        replica = Replica(world, "one")
        async with replica.running():
            await world.create("a")
            await world.until(lambda: world.is_ready("a", 1))
            assert await holder(world) != ""
            replica.manager.request_stop()
            await world.until(lambda: replica.code is not None, within=5)
            assert replica.code == 0
            assert await holder(world) == ""
            # The Events of the last moment are there as well.
            reasons = {event.reason for event in (await world.user.list_all(EVENTS)).items}
            assert reasons == {"Building", "Ready"}
            assert world.server.watches == []

    in_world(scene)


def test_the_lease_is_given_back_only_after_the_last_write() -> None:
    async def scene(world: World) -> None:
        replica = Replica(world, "one")
        async with replica.running():
            await world.create("a")
            await world.until(replica.manager.parts.still_leading)
            world.server.latency = (0.3, 0.3)
            await world.until(lambda: world.writes(("one",)) >= 4, within=60)
            replica.manager.request_stop()
            await world.until(lambda: replica.code is not None, within=30)
        lease_writes = [s.at for s in world.server.served if s.user == "one" and s.verb == "update"]
        others = [
            s.at
            for s in world.server.served
            if s.user == "one" and s.verb in ("patch", "create", "delete") and "events" not in s.path
        ]
        assert replica.code == 0
        assert max(others) < max(lease_writes)

    in_world(scene)


def test_a_standby_is_ready_writes_nothing_and_takes_over_within_seconds_of_a_clean_stop() -> None:
    async def scene(world: World) -> None:
        first, second = Replica(world, "one"), Replica(world, "two")
        async with first.running():
            await world.until(first.manager.parts.still_leading)
            async with second.running():
                await world.create("a")
                await world.until(lambda: world.is_ready("a", 1))
                await anyio.sleep(30)
                assert second.manager.parts.unready() == ""
                assert world.writes(("two",)) == 0
                lists = world.server.counts("two")["list"]
                first.manager.request_stop()
                await world.until(lambda: first.code is not None)
                started = world.clock.monotonic()
                await world.resize("a", 2)
                await world.until(lambda: world.is_ready("a", 2))
                assert world.clock.monotonic() - started < 6
                # Its caches were warm.
                assert world.server.counts("two")["list"] == lists

    in_world(scene)


def test_lost_leadership_ends_the_process_with_code_one_and_without_another_write() -> None:
    async def scene(world: World) -> None:
        first, second = Replica(world, "one"), Replica(world, "two")
        async with first.running():
            await world.until(first.manager.parts.still_leading)
            async with second.running():
                await world.create("a")
                await world.until(lambda: world.is_ready("a", 1))
                first.transport.partition()
                cut = world.clock.monotonic()
                await world.until(lambda: first.code is not None, within=15)
                assert first.code == 1
                assert not first.manager.parts.still_leading()
                await world.resize("a", 2)
                await world.until(lambda: world.is_ready("a", 2), within=30)
                assert [s for s in world.server.served if s.user == "one" and s.at > cut + 0.02] == []

    in_world(scene)


def _spec_that_dies(assembly: Assembly) -> Sequence[ControllerSpec]:
    (spec,) = build(assembly)
    informer = assembly.informers[0]

    async def die() -> None:
        await anyio.sleep(60)
        raise InvariantViolation("the watch task died")

    informer.run = die  # type: ignore[method-assign]
    informer._synced.set()
    return (spec,)


def test_the_death_of_any_task_ends_the_process_and_frees_the_lease() -> None:
    async def scene(world: World) -> None:
        replica = Replica(world, "one", make=_spec_that_dies)
        async with replica.running():
            await world.until(replica.manager.parts.still_leading)
            await world.until(lambda: replica.code is not None, within=90)
            assert replica.code == 1
            assert await holder(world) == ""

    in_world(scene)


def test_a_pass_that_hangs_is_cut_off_after_the_grace_and_at_once_by_a_second_request() -> None:
    def stop(*, twice: bool) -> float:
        took: list[float] = []

        async def scene(world: World) -> None:
            replica = Replica(world, "one", Settings(namespace="default", health=None, grace=5.0))
            async with replica.running():
                await world.until(lambda: replica.manager.parts.unready() == "")
                world.server.latency = (100.0, 100.0)
                world.server.create(
                    world.server.resource("widgets.toys.example.com"),
                    {"metadata": {"name": "a", "namespace": "default"}},
                )
                (controller,) = replica.manager.parts.controllers
                await world.until(lambda: bool(controller.queue.running()))
                started = world.clock.monotonic()
                replica.manager.request_stop()
                if twice:
                    replica.manager.request_stop()
                await world.until(lambda: replica.code is not None)
                took.append(world.clock.monotonic() - started)
                assert replica.code == 0

        in_world(scene)
        return took[0]

    assert 4.9 < stop(twice=False) < 7.2
    assert stop(twice=True) < 2.2


@pytest.mark.parametrize("moment", ["before the caches are filled", "as a candidate"])
def test_a_stop_before_leading_is_clean(moment: str) -> None:
    async def scene(world: World) -> None:
        leader, replica = Replica(world, "one"), Replica(world, "two")
        if moment == "before the caches are filled":
            world.server.faults.add(Rule(fault=Answer(code=503), path="/widgets", times=None))
        else:
            await world.until(lambda: True)
        async with leader.running():
            await anyio.sleep(10)
            async with replica.running():
                await anyio.sleep(10)
                assert (replica.manager.parts.unready() == "") is (moment == "as a candidate")
                replica.manager.request_stop()
                await world.until(lambda: replica.code is not None, within=5)
                assert replica.code == 0

    in_world(scene)


def test_without_election_it_works_at_once_and_needs_no_lease() -> None:
    async def scene(world: World) -> None:
        replica = Replica(world, "one", Settings(health=None))
        async with replica.running():
            await world.create("a")
            await world.until(lambda: world.is_ready("a", 1))
            assert (await world.user.list_all(LEASES)).items == ()

    in_world(scene)


def test_what_is_not_ready_is_named() -> None:
    async def scene(world: World) -> None:
        world.server.faults.add(Rule(fault=Answer(code=403, reason="Forbidden"), path="/configmaps", times=None))
        replica = Replica(world, "one")
        async with replica.running():
            await anyio.sleep(manager_module.SYNC_REPORT + 1)
            assert replica.manager.parts.unready() == "caches not filled: configmaps"
            assert not replica.manager.parts.still_leading()

    in_world(scene)


def test_two_informers_of_one_resource_are_refused() -> None:
    def twice(assembly: Assembly) -> Sequence[ControllerSpec]:
        assembly.informer(WIDGETS)
        assembly.informer(WIDGETS)
        return ()

    async def scene(world: World) -> None:
        with pytest.raises(InvariantViolation, match="has an informer already"):
            Replica(world, "one", make=twice)

    in_world(scene)


def test_a_worker_that_is_stuck_is_named() -> None:
    async def scene(world: World) -> None:
        replica = Replica(world, "one")
        (controller,) = replica.manager.parts.controllers
        controller.stuck = lambda limit: (Key("default", "a"),) if limit else ()  # type: ignore[method-assign]
        assert replica.manager.parts.unhealthy() == "workers stuck for 300 s: toy default/a"

    in_world(scene)


class Deployment:
    """Keeps replicas running: whichever ends is started again under a new name, as Kubernetes does."""

    def __init__(self, world: World, size: int) -> None:
        self.world = world
        self.replicas: list[Replica] = []
        self.codes: list[int | None] = []
        self._size = size
        self._serial = 0

    async def run(self) -> None:
        async with anyio.create_task_group() as group:
            for slot in range(self._size):
                group.start_soon(self._keep, slot)

    async def _keep(self, _slot: int) -> None:
        while True:
            self._serial += 1
            replica = Replica(self.world, f"replica-{self._serial}")
            self.replicas.append(replica)
            await replica.run()
            self.replicas.remove(replica)
            self.codes.append(replica.code)
            await anyio.sleep(1)


@pytest.mark.parametrize("seed", range(6))
def test_replicas_that_stop_are_cut_off_and_lose_watches_still_converge(seed: int) -> None:
    async def scene(world: World) -> None:
        deployment = Deployment(world, 2)
        names = [f"w{number}" for number in range(6)]
        rng = world.rng
        async with anyio.create_task_group() as group:
            group.start_soon(deployment.run)
            for name in names:
                await world.create(name)
            for size in range(2, 14):
                for name in rng.sample(names, 3):
                    await world.resize(name, size)
                await anyio.sleep(rng.uniform(0, 15))
                victim = rng.choice(deployment.replicas)
                match rng.randrange(4):
                    case 0:
                        victim.transport.partition()
                    case 1:
                        victim.manager.request_stop()
                    case 2:
                        world.server.disconnect()
                    case _:
                        for watch in rng.sample(world.server.watches, len(world.server.watches) // 2):
                            watch.silence()
            for replica in deployment.replicas:
                replica.transport.cut = False
            for name in names:
                await world.resize(name, 99)
            await world.until(lambda: all(world.is_ready(name, 99) for name in names), within=600)
            group.cancel_scope.cancel()
        assert set(deployment.codes) <= {0, 1}
        assert len(world.children()) == len(names)

    in_world(scene, seed=seed)


# --- objects that cannot be decoded -----------------------------------------------------------------------------------


def spoil(world: World, resource: ResourceType, name: str, body: dict[str, Any]) -> None:
    """Write what the type of the controller does not know, past every validation."""
    world.server.writer.patch(resource, ("default", name), body)


def phase(world: World, name: str, namespace: str = "default") -> str:
    stored = world.server.store.get(WIDGET_RESOURCE, (namespace, name)) or {}
    return str(stored.get("status", {}).get("phase", ""))


def written(world: World) -> list[str]:
    return [each.path for each in world.server.served if each.verb in ("create", "update", "patch", "delete")]


async def told_of(world: World, name: str) -> list[str]:
    """Return who was told of an object that cannot be decoded."""
    events = (await world.user.list_all(EVENTS)).items
    return [each.note for each in events if each.reason == "Undecodable" and each.regarding.name == name]


def test_a_child_that_cannot_be_read_is_not_taken_for_gone_and_hinders_its_namespace_only() -> None:
    async def scene(world: World) -> None:
        replica = Replica(world, "one")
        async with replica.running():
            await world.create("a")
            await world.until(lambda: world.is_ready("a", 1))
            spoil(world, world.server.resource("configmaps"), "a-g1", {"data": {"size": 5}})
            await anyio.sleep(1)
            await world.resize("a", 2)
            world.server.served.clear()
            await world.create("b", namespace="kube-system")
            await world.until(lambda: phase(world, "b", "kube-system") == "Ready")
            await anyio.sleep(60)
            assert set(world.children()) == {"a-g1"}
            assert phase(world, "a") == "Ready"
            assert [path for path in written(world) if "/default/" in path and "/leases" not in path] == []
            (note,) = await told_of(world, "a-g1")
            assert note.startswith("ConfigMap default/a-g1 exists but cannot be read (")
            spoil(world, world.server.resource("configmaps"), "a-g1", {"data": {"size": "1"}})
            await world.until(lambda: world.is_ready("a", 2))
            await world.until(lambda: set(world.children()) == {"a-g2"})

    in_world(scene)


def test_an_object_that_cannot_be_read_rests_until_it_can_and_each_leader_tells_once() -> None:
    async def scene(world: World) -> None:
        await world.create("a")
        spoil(world, WIDGET_RESOURCE, "a", {"spec": {"size": "many"}})
        first, second = Replica(world, "one"), Replica(world, "two")
        async with first.running(), second.running():
            await world.create("b")
            await world.until(lambda: world.is_ready("b", 1))
            await anyio.sleep(60)
            assert len(await told_of(world, "a")) == 1, "a standby tells, too"
            assert set(world.children()) == {"b-g1"}
            leader, standby = (first, second) if first.manager.parts.still_leading() else (second, first)
            leader.manager.request_stop()
            await world.until(standby.manager.parts.still_leading)
            await anyio.sleep(10)
            assert len(await told_of(world, "a")) == 2
            spoil(world, WIDGET_RESOURCE, "a", {"spec": {"size": 1}})
            await world.until(lambda: world.is_ready("a", 1))

    in_world(scene)


def test_who_met_an_object_that_cannot_be_read_goes_on_as_soon_as_it_is_gone() -> None:
    async def scene(world: World) -> None:
        config_maps = world.server.resource("configmaps")
        world.server.create(config_maps, {"metadata": {"name": "x", "namespace": "default"}, "data": {"size": 5}})
        replica = Replica(world, "one")
        async with replica.running():
            await world.create("a")
            await anyio.sleep(300)
            assert phase(world, "a") == ""
            world.server.writer.delete(config_maps, ("default", "x"), {}, world.clock.now())
            await world.until(lambda: world.is_ready("a", 1), within=5)

    in_world(scene)
