"""A toy controller under the whole runtime, on a real API server."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from magos.api.kube import CONFIG_MAPS, EVENTS, LEASES, ConfigMap
from magos.api.meta import ObjectMeta
from magos.runtime.client.client import ApiClient
from magos.runtime.client.config import load_config
from magos.runtime.client.errors import ApiError
from magos.runtime.client.http import connect
from magos.runtime.client.transport import HttpRequest, HttpResponse, HttpStream, Transport
from magos.runtime.clock import SystemClock
from magos.runtime.manager.manager import Manager
from magos.runtime.manager.settings import Settings
from tests.envtest.cluster import Cluster
from tests.envtest.toy_process import NAME, app_in, define
from tests.sim import toy
from tests.sim.toy import WIDGETS, Widget


class Counting:
    """A transport that remembers what went through it."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.requests: list[tuple[str, str]] = []

    async def request(self, request: HttpRequest) -> HttpResponse:
        self.requests.append((request.method, request.path))
        return await self._inner.request(request)

    def stream(self, request: HttpRequest) -> AbstractAsyncContextManager[HttpStream]:
        return self._inner.stream(request)

    async def aclose(self) -> None:
        await self._inner.aclose()

    def writes(self) -> list[tuple[str, str]]:
        return [(method, path) for method, path in self.requests if method != "GET" and "/events" not in path]


class World:
    """A namespace of the cluster, a user in it, and the controller."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        config = load_config(str(kubeconfig), environ={})
        self.namespace = namespace
        self.user_transport = connect(config, user_agent="magos/test (user)")
        self.user = ApiClient(self.user_transport)
        self.transport = Counting(connect(config, user_agent="magos/test (toy)"))
        settings = Settings(namespace=namespace, identity="one", health=None, leader_elect=True)
        self.manager = Manager(app_in(namespace, settings), self.transport, clock=SystemClock(), rng=random.Random(1))
        self.code: int | None = None

    async def create(self, name: str, size: int = 1) -> Widget:
        manifest = Widget(metadata=ObjectMeta(name=name, namespace=self.namespace), spec=toy.WidgetSpec(size=size))
        return await self.user.create(WIDGETS, manifest)

    async def patch(self, name: str, body: dict[str, Any]) -> Widget:
        return await self.user.patch(WIDGETS, self.namespace, name, body)

    async def phase(self, name: str, phase: str, *, size: int = 1) -> Widget:
        """Wait until a Widget has the phase for a size."""

        async def probe() -> Widget | None:
            widget = await self.user.get(WIDGETS, self.namespace, name)
            right = widget.status.phase == phase and widget.status.child == f"{name}-g{size}"
            return widget if right else None

        found: Widget = await self.until(probe)
        return found

    async def children(self) -> list[str]:
        """Return the names of all children."""
        page = await self.user.list(CONFIG_MAPS, self.namespace)
        return [each.metadata.name for each in page.items if each.metadata.owner_references]

    async def until(self, probe: Callable[[], Awaitable[Any]], within: float = 30.0) -> Any:
        """Return the first truthy answer of the probe."""
        with anyio.fail_after(within):
            while not (answer := await probe()):  # noqa: ASYNC110 - what is waited for is on the server
                await anyio.sleep(0.02)
        return answer

    async def gone(self, name: str) -> None:
        """Wait until a Widget does not exist any more."""

        async def probe() -> bool:
            try:
                await self.user.get(WIDGETS, self.namespace, name)
            except ApiError as error:
                return error.not_found
            return False

        await self.until(probe)

    @asynccontextmanager
    async def running(self) -> Any:
        """Run the controller around a block and stop it cleanly after it."""

        async def run() -> None:
            self.code = await self.manager.run()

        async with anyio.create_task_group() as group:
            group.start_soon(run)
            yield
            self.manager.request_stop()


@pytest.fixture(scope="module", autouse=True)
def definition(control_plane: Cluster) -> None:
    """The CRD of Widgets."""
    define(control_plane)


@pytest.fixture
def play(kubeconfig: Path, namespace: str) -> Callable[[Callable[[World], Awaitable[None]]], None]:
    """Play a scene with a running controller in a namespace of its own."""

    def in_world(scene: Callable[[World], Awaitable[None]]) -> None:
        async def main() -> None:
            world = World(kubeconfig, namespace)
            try:
                async with world.running():
                    await scene(world)
                assert world.code == 0
                lease = await world.user.get(LEASES, namespace, NAME)
                assert lease.spec.holder_identity in ("", None)
            finally:
                await world.user_transport.aclose()

        asyncio.run(main())

    return in_world


Play = Callable[[Callable[[World], Awaitable[None]]], None]


def test_a_whole_life_with_children_finalizer_status_and_events(play: Play) -> None:
    async def scene(world: World) -> None:
        await world.create("a")
        widget = await world.phase("a", "Ready")
        assert widget.metadata.finalizers == (toy.FINALIZER,)
        assert widget.status.observed_generation == widget.metadata.generation == 1
        await world.patch("a", {"spec": {"size": 2}})
        await world.phase("a", "Ready", size=2)
        assert await world.until(lambda: _equal(world.children(), ["a-g2"]))
        await world.user.delete(WIDGETS, world.namespace, "a")
        await world.gone("a")
        assert await world.children() == []

        async def series() -> bool:
            events = (await world.user.list(EVENTS, world.namespace)).items
            ready = [each for each in events if each.reason == "Ready" and each.regarding.uid == widget.metadata.uid]
            return len(ready) == 1 and ready[0].series is not None and ready[0].series.count == 2

        assert await world.until(series)

    play(scene)


async def _equal(found: Awaitable[object], wanted: object) -> bool:
    return await found == wanted


def test_what_is_at_rest_is_not_written_and_nothing_is_listed(play: Play) -> None:
    async def scene(world: World) -> None:
        names = [f"w{number}" for number in range(10)]
        for name in names:
            await world.create(name)
        for name in names:
            await world.phase(name, "Ready")

        async def marked() -> bool:
            widgets = (await world.user.list(WIDGETS, world.namespace)).items
            return all(toy.SEEN in each.metadata.annotations for each in widgets)

        await world.until(marked)
        # Ten passes more for each, all of them asked for by changes that mean nothing to the controller.
        world.transport.requests.clear()
        for round_ in range(10):
            for name in names:
                await world.patch(name, {"metadata": {"annotations": {"example.com/x": str(round_)}}})
        await world.create("marker")
        await world.phase("marker", "Ready")
        foreign = [
            (method, path)
            for method, path in world.transport.requests
            if "/leases/" not in path and "marker" not in path and "/events" not in path
        ]
        # All that is left is the creation of the marker's child, whose path does not name it.
        assert foreign == [("POST", f"/api/v1/namespaces/{world.namespace}/configmaps")]

    play(scene)


def test_another_writer_at_fifty_hertz_neither_loses_nor_is_lost(play: Play) -> None:
    async def scene(world: World) -> None:
        await world.create("a")
        flips = 0
        over = False

        async def flip() -> None:
            nonlocal flips
            while not over:
                flips += 1
                await world.patch("a", {"metadata": {"annotations": {"example.com/flip": str(flips)}}})
                await anyio.sleep(0.02)

        async with anyio.create_task_group() as group:
            group.start_soon(flip)
            for size in range(2, 7):
                await world.phase("a", "Ready", size=size - 1)
                await world.patch("a", {"spec": {"size": size}})
            await world.phase("a", "Ready", size=6)
            over = True
        widget = await world.user.get(WIDGETS, world.namespace, "a")
        assert widget.metadata.annotations["example.com/flip"] == str(flips)
        assert toy.SEEN in widget.metadata.annotations
        assert widget.metadata.finalizers == (toy.FINALIZER,)

    play(scene)


def test_a_foreign_object_under_the_childs_name_is_a_refusal_and_stays_untouched(play: Play) -> None:
    async def scene(world: World) -> None:
        stranger = ConfigMap(metadata=ObjectMeta(name="a-g1", namespace=world.namespace), data={"mine": "yes"})
        await world.user.create(CONFIG_MAPS, stranger)
        await world.create("a")
        widget = await world.phase("a", "Refused")
        assert widget.status.message == "AlreadyExists"
        assert (await world.user.get(CONFIG_MAPS, world.namespace, "a-g1")).data == {"mine": "yes"}
        await world.user.delete(WIDGETS, world.namespace, "a")
        await world.gone("a")
        assert (await world.user.get(CONFIG_MAPS, world.namespace, "a-g1")).data == {"mine": "yes"}

    play(scene)


def test_an_invalid_child_is_a_refusal_shown_in_status(play: Play) -> None:
    async def scene(world: World) -> None:
        name = "a" * 253  # the child's name is longer, and too long
        await world.create(name)
        widget = await world.phase(name, "Refused")
        assert widget.status.message == "Invalid"

    play(scene)


def test_an_object_that_was_replaced_keeps_what_belongs_to_each(play: Play) -> None:
    """F39: the same name again; children go by the UID of their owner."""

    async def scene(world: World) -> None:
        first = await world.create("a")
        await world.phase("a", "Ready")
        await world.user.delete(WIDGETS, world.namespace, "a", uid=first.metadata.uid)
        await world.gone("a")
        second = await world.create("a")
        await world.phase("a", "Ready")
        child = await world.user.get(CONFIG_MAPS, world.namespace, "a-g1")
        assert child.metadata.owner_references[0].uid == second.metadata.uid != first.metadata.uid

    play(scene)
