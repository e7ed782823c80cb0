"""The informer's promises, one by one, in virtual time."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
import pytest
import structlog
from msgspec import Struct, field

from magos.api.meta import Kind, ObjectMeta
from magos.runtime.cache.cache import Change
from magos.runtime.cache.informer import Informer
from magos.runtime.cache.watcher import SILENCES
from magos.runtime.client.client import ApiClient
from magos.runtime.client.http import INACTIVITY_SECONDS
from magos.runtime.client.transport import HttpRequest, HttpResponse
from tests.sim.apiserver import Answer, Lose, Rule, SimApiServer, SimTransport
from tests.sim.apiserver.watch import Watch
from tests.sim.virtualtime import VirtualClock, run_virtual


class Bag(Struct, frozen=True, kw_only=True):
    metadata: ObjectMeta
    data: Mapping[str, str] = field(default_factory=dict)


BAGS = Kind(group="", version="v1", plural="configmaps", name="ConfigMap", type=Bag)
SECRETS = Kind(group="", version="v1", plural="secrets", name="Secret", type=Bag, metadata_only=True)


class World:
    """A server with ``count`` ConfigMaps and one informer on it."""

    def __init__(self, count: int = 0, kind: Kind[Bag] = BAGS, **options: Any) -> None:
        self.server = SimApiServer(VirtualClock(), random.Random(1), namespaces=("default", "other"))
        self.resource = self.server.resource("configmaps")
        for index in range(count):
            self.put(f"m{index:04}", "0")
        self.transport = self.server.transport("informer")
        self.changes: list[Change[Bag]] = []
        client = ApiClient(self.transport)
        self.informer = Informer(client, kind, clock=self.server.clock, rng=random.Random(2), **options)
        self.informer.add_handler(self.changes.append)

    def put(self, name: str, value: str, namespace: str = "default") -> None:
        if self.server.store.get(self.resource, (namespace, name)) is None:
            metadata = {"name": name, "namespace": namespace}
            self.server.create(self.resource, {"metadata": metadata, "data": {"v": value}})
        else:
            self.server.writer.patch(self.resource, (namespace, name), {"data": {"v": value}})

    def delete(self, name: str) -> None:
        self.server.writer.delete(self.resource, ("default", name), {}, self.server.clock.now())

    def lists(self) -> int:
        return self.server.counts("informer")["list"]


def simulate(scenario: Callable[[World], Awaitable[None]], count: int = 0, **options: Any) -> None:
    """Run the scenario beside the running informer, which is synced and watching when it begins."""

    async def main() -> None:
        world = World(count, **options)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(world.informer.run)
            await world.informer.wait_synced()
            await asyncio.sleep(1)
            assert len(world.server.watches) == 1
            await scenario(world)
            tasks.cancel_scope.cancel()

    run_virtual(main, seed=1)


def test_handlers_are_told_everything_once_before_it_counts_as_synced() -> None:
    async def scenario(world: World) -> None:
        assert len(world.changes) == 1200
        assert all(change.initial and change.old is None for change in world.changes)
        assert world.lists() == 3  # pages of 500
        late: list[Change[Bag]] = []
        world.informer.add_handler(late.append)
        assert [change.new for change in late] == list(world.informer.cache.list())
        world.put("new", "1")
        await asyncio.sleep(1)
        for told in (world.changes, late):
            assert len(told) == 1201
            assert not told[-1].initial

    simulate(scenario, count=1200)


def test_nothing_is_listed_in_steady_state_not_even_over_a_day() -> None:
    async def scenario(world: World) -> None:
        for hour in range(24):
            await asyncio.sleep(3600)
            world.put("m0000", str(hour + 1))
        await asyncio.sleep(1)
        assert world.lists() == 1
        assert world.informer.stats.failures == 0
        assert len(world.changes) == 3 + 24

    simulate(scenario, count=3)


def test_a_disconnect_resumes_without_a_list_and_loses_nothing() -> None:
    async def scenario(world: World) -> None:
        world.server.disconnect()
        world.put("m0001", "while away")
        world.delete("m0002")
        await asyncio.sleep(5)
        assert world.lists() == 1
        assert [change.new is None for change in world.changes[3:]] == [False, True]

    simulate(scenario, count=3)


def test_a_relist_after_410_tells_exactly_what_changed() -> None:
    async def scenario(world: World) -> None:
        world.changes.clear()
        world.server.disconnect()
        for index in range(10):
            world.put(f"m{index:04}", "changed")
        world.delete("m0900")
        world.server.store.compact()
        await asyncio.sleep(10)
        assert len(world.changes) == 11
        assert world.changes[0].new is None  # deletions first
        assert not any(change.initial for change in world.changes)
        assert len(world.informer.cache) == 999

    simulate(scenario, count=1000)


def test_a_silent_stream_is_given_up_within_75_seconds_and_resumed() -> None:
    async def scenario(world: World) -> None:
        for watch in world.server.watches:
            watch.silence()
        world.put("m0000", "unheard")
        await asyncio.sleep(80)
        assert world.changes[-1].new is not None
        assert world.changes[-1].new.data == {"v": "unheard"}
        assert world.lists() == 1

    simulate(scenario, count=1)


def test_an_outage_of_the_server_is_waited_out_with_growing_pauses() -> None:
    async def scenario(world: World) -> None:
        before = len(world.server.served)
        world.server.faults.add(Rule(fault=Lose(), times=None))
        world.server.disconnect()
        await asyncio.sleep(600)
        attempts = len(world.server.served) - before
        assert 600 / 30 <= attempts <= 600 / 15 + 8
        assert "no answer" in world.informer.stats.problem
        world.server.faults.clear()
        world.put("m0000", "after")
        await asyncio.sleep(31)
        assert len(world.changes) == 2
        assert world.informer.stats.problem == ""
        assert world.lists() == 1

    simulate(scenario, count=1)


def test_a_server_that_fails_slowly_is_given_growing_pauses_too() -> None:
    async def scenario(world: World) -> None:
        before = world.informer.stats.watches
        world.server.faults.add(Rule(fault=Lose(), times=None))
        world.server.latency = (5.0, 5.0)
        world.server.disconnect()
        await asyncio.sleep(1200)
        # Each fails after 10 s, and in the end 15 to 30 s pass until the next.
        assert 1200 / 40 <= world.informer.stats.watches - before <= 1200 / 25 + 6
        assert world.lists() == 1

    simulate(scenario, count=1)


def test_a_server_that_was_restored_from_a_backup_is_listed_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Watch.open

    def silent_about_the_future(self: Watch) -> None:
        """As the real server: a watch from a version that it has yet to reach gets nothing, not even bookmarks."""
        original(self)
        if int(self.request.version or "0") > self._store.version:
            self.silence()

    monkeypatch.setattr(Watch, "open", silent_about_the_future)

    async def scenario(world: World) -> None:
        world.server.store.skip_versions(10_000)
        await asyncio.sleep(65)
        world.server.store.version -= 9_000
        world.server.store._history.clear()
        world.server.disconnect()
        world.put("m0000", "restored")
        await asyncio.sleep(SILENCES * INACTIVITY_SECONDS + 5)
        kept = world.informer.cache.get("default", "m0000")
        assert kept is not None
        assert kept.data == {"v": "restored"}
        assert world.lists() == 2
        world.put("m0000", "after")
        await asyncio.sleep(1)
        assert world.changes[-1].new is not None
        assert world.changes[-1].new.data == {"v": "after"}

    simulate(scenario, count=1)


def test_too_many_requests_are_answered_with_the_patience_asked_for() -> None:
    async def scenario(world: World) -> None:
        fault = Answer(code=429, reason="TooManyRequests", retry_after=40)
        world.server.faults.add(Rule(fault=fault, times=1))
        world.server.disconnect()
        await asyncio.sleep(35)
        assert len(world.server.watches) == 0
        await asyncio.sleep(10)
        assert len(world.server.watches) == 1
        assert world.lists() == 1

    simulate(scenario, count=1)


def test_bookmarks_move_the_watermark_and_wake_who_waits_for_it() -> None:
    async def scenario(world: World) -> None:
        seen: list[str] = []
        world.informer.on_progress(seen.append)
        world.server.store.skip_versions(500)
        await asyncio.sleep(65)
        assert seen == [str(world.server.store.version)]
        assert world.informer.cache.resource_version == seen[0]
        world.put("m0000", "1")
        await asyncio.sleep(1)
        assert seen[-1] == str(world.server.store.version)
        assert len(world.changes) == 2

    simulate(scenario, count=1)


def test_a_failing_handler_makes_no_other_one_deaf() -> None:
    async def scenario(world: World) -> None:
        def broken(_: Change[Bag]) -> None:
            raise ValueError("a bug")

        world.informer.add_handler(broken)
        after: list[Change[Bag]] = []
        world.informer.add_handler(after.append)
        world.put("m0000", "1")
        await asyncio.sleep(1)
        assert world.informer.stats.handler_errors == 2
        assert len(after) == 2

    simulate(scenario, count=1)


def test_a_slow_handler_is_counted_and_named_once() -> None:
    async def scenario(world: World) -> None:
        clock = world.informer._clock
        assert isinstance(clock, VirtualClock)

        def slow(_: Change[Bag]) -> None:
            clock.suspend(0.002)

        world.informer.add_handler(slow)
        for number in range(3):
            world.put("m0000", str(number))
        await asyncio.sleep(1)
        assert world.informer.stats.slow_handlers == 3

    with structlog.testing.capture_logs() as logs:
        simulate(scenario, count=1)
    named = [each["handler"] for each in logs if each["event"] == "handler is slow"]
    assert len(named) == 1
    assert "slow" in named[0]


def test_an_informer_of_one_namespace_sees_that_one_only() -> None:
    async def scenario(world: World) -> None:
        world.put("elsewhere", "1", namespace="default")
        world.put("here", "1", namespace="other")
        await asyncio.sleep(1)
        assert [item.metadata.name for item in world.informer.cache.list()] == ["here"]

    simulate(scenario, count=2, namespace="other")


def test_an_undecodable_object_is_kept_as_it_was_and_reported() -> None:
    async def scenario(world: World) -> None:
        world.server.writer.patch(world.resource, ("default", "m0000"), {"data": {"v": 5}})
        world.put("m0001", "good")
        await asyncio.sleep(1)
        kept = world.informer.cache.get("default", "m0000")
        assert kept is not None
        assert kept.data == {"v": "0"}
        assert list(world.informer.cache.undecodable) == [("default", "m0000")]
        assert world.changes[-1].new is not None
        assert world.changes[-1].new.data == {"v": "good"}
        assert world.lists() == 1

    simulate(scenario, count=2)


def test_every_list_is_a_consistent_read(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[HttpRequest] = []
    original = SimTransport.request

    async def spy(self: SimTransport, request: HttpRequest) -> HttpResponse:
        asked.append(request)
        return await original(self, request)

    monkeypatch.setattr(SimTransport, "request", spy)

    async def scenario(world: World) -> None:
        world.server.store.compact()
        for watch in tuple(world.server.watches):
            watch.expire()
        await asyncio.sleep(5)
        assert world.lists() == 2
        assert not any("resourceVersion" in dict(request.query) for request in asked)

    simulate(scenario, count=1)


def test_content_of_secrets_never_arrives() -> None:
    async def scenario(world: World) -> None:
        secrets = world.server.resource("secrets")
        metadata = {"name": "s", "namespace": "default"}
        world.server.create(secrets, {"metadata": metadata, "data": {"k": "c2VjcmV0"}})
        await asyncio.sleep(1)
        assert [(i.metadata.name, i.data) for i in world.informer.cache.list()] == [("s", {})]

    simulate(scenario, kind=SECRETS)
