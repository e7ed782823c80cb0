"""A simulated cluster with processes that run the toy controller, for tests of the runtime."""

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

import anyio

from magos.api.kube import CONFIG_MAPS
from magos.runtime.cache.informer import Informer
from magos.runtime.client.client import ApiClient
from magos.runtime.controller.controller import Controller, ControllerSpec, Machinery
from magos.runtime.controller.effects import Executor, StepObserver
from magos.runtime.controller.passes import PassReport
from magos.runtime.controller.queries import QueryHandler
from magos.runtime.controller.source import EventSource, own_key, owner_key
from magos.runtime.controller.view import Caches
from magos.runtime.decision import Event, Query, Reconciler
from tests.sim import toy
from tests.sim.apiserver import SimApiServer, SimTransport
from tests.sim.apiserver.resources import CUSTOM, Json, custom_resource
from tests.sim.toy import WIDGETS, Widget
from tests.sim.virtualtime import VirtualClock, run_virtual

WIDGET_RESOURCE = custom_resource(toy.GROUP, "v1", "widgets", "Widget")
DEADLINE = 600.0


class Process:
    """One replica: its own connection, caches and controller. ``leading`` is what its fence says."""

    def __init__(
        self,
        world: "World",
        user: str = "controller",
        *,
        reconcile: Reconciler = toy.reconcile,
        observer: StepObserver | None = None,
        workers: int = 4,
        queries: Mapping[type[Query], QueryHandler] | None = None,
    ) -> None:
        rng = random.Random(world.rng.random())
        self.leading = True
        self.events: list[Event] = []
        self.reports: list[PassReport] = []
        self.transport: SimTransport = world.server.transport(user)
        self.client = ApiClient(self.transport)
        self.widgets = Informer(self.client, WIDGETS, clock=world.clock, rng=rng)
        self.config_maps = Informer(self.client, CONFIG_MAPS, clock=world.clock, rng=rng)
        self.caches = Caches({each.kind: each.cache for each in (self.widgets, self.config_maps)})
        self.executor = Executor(
            self.client,
            self.caches,
            clock=world.clock,
            still_leading=lambda: self.leading,
            emit=self.events.append,
            observer=observer,
        )
        spec = ControllerSpec(
            name="toy",
            kind=WIDGETS,
            reconcile=reconcile,
            sources=(EventSource(self.widgets, own_key), EventSource(self.config_maps, owner_key(WIDGETS))),
            workers=workers,
            queries=queries or {},
            log_fields=lambda status: {"phase": status.phase},
        )
        machinery = Machinery(
            client=self.client,
            clock=world.clock,
            rng=rng,
            informers=(self.widgets, self.config_maps),
            caches=self.caches,
            executor=self.executor,
        )
        self.controller = Controller(spec, machinery, observers=(self,))

    def passed(self, report: PassReport) -> None:
        """Keep what the controller reports."""
        self.reports.append(report)

    async def run(self) -> None:
        """Run until cancelled, as a leader does."""
        async with anyio.create_task_group() as group:
            await self.sync(group)
            await self.controller.run()
            group.cancel_scope.cancel()

    async def sync(self, group: anyio.abc.TaskGroup) -> None:
        """Start the informers and wait until their caches are filled."""
        for informer in (self.widgets, self.config_maps):
            group.start_soon(informer.run)
        await self.widgets.wait_synced()
        await self.config_maps.wait_synced()

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Process"]:
        """Run the process around a block; leaving the block kills it."""
        async with anyio.create_task_group() as group:
            group.start_soon(self.run)
            yield self
            group.cancel_scope.cancel()


class World:
    """The cluster and a user in it."""

    def __init__(self, seed: int = 1, *, latency: tuple[float, float] = (0.001, 0.005)) -> None:
        self.rng = random.Random(seed)
        self.clock = VirtualClock()
        self.server = SimApiServer(
            self.clock, random.Random(seed + 1), resources=(*CUSTOM, WIDGET_RESOURCE), latency=latency
        )
        self.user = self.server.client("user")

    async def create(self, name: str, *, size: int = 1, namespace: str = "default") -> Widget:
        """Create a Widget as a user."""
        manifest = {"metadata": {"name": name, "namespace": namespace}, "spec": {"size": size}}
        return await self.user.create(WIDGETS, manifest)

    async def resize(self, name: str, size: int) -> Widget:
        """Change the spec of a Widget as a user."""
        return await self.user.patch(WIDGETS, "default", name, {"spec": {"size": size}})

    def widget(self, name: str) -> Json | None:
        """Return the stored Widget, without a request."""
        return self.server.store.get(WIDGET_RESOURCE, ("default", name))

    def children(self) -> dict[str, str]:
        """Return the stored ConfigMaps: name to owner UID."""
        items = self.server.store.items(self.server.resource("configmaps"), "default")
        return {each["metadata"]["name"]: each["metadata"]["ownerReferences"][0]["uid"] for each in items}

    def is_ready(self, name: str, size: int) -> bool:
        """Tell whether a Widget and its children are as wanted, and nothing else is left."""
        widget = self.widget(name)
        if widget is None or widget.get("status", {}).get("phase") != "Ready":
            return False
        uid = widget["metadata"]["uid"]
        mine = [child for child, owner in self.children().items() if owner == uid]
        child = f"{name}-g{size}"
        return mine == [child] and widget["status"]["child"] == child

    async def until(self, condition: Callable[[], bool], *, within: float = DEADLINE) -> None:
        """Wait in virtual time until the condition holds."""
        with anyio.fail_after(within):
            while not condition():  # noqa: ASYNC110 - any state of the world may be the condition
                await anyio.sleep(0.01)

    def writes(self, users: Sequence[str] = ("controller",)) -> int:
        """Return the number of writing requests of these users so far."""
        verbs = {"create", "update", "patch", "delete"}
        return sum(1 for served in self.server.served if served.user in users and served.verb in verbs)


def in_world(scene: Callable[[World], Awaitable[None]], *, seed: int = 1) -> None:
    """Play a scene in a fresh world in virtual time."""

    async def main() -> None:
        await scene(World(seed))

    run_virtual(main, seed=seed)
