"""The variableset controller as a process over the simulated API server: watches, index, reads, rest, faults."""

import random
from collections.abc import Awaitable, Callable

import anyio
import msgspec

from magos.api.kube import CONFIG_MAPS, EVENTS, SECRETS, Secret
from magos.api.meta import ObjectMeta
from magos.api.variableset import VARIABLESETS, VariableSet
from magos.apps.variableset import variableset_controller
from magos.runtime.manager.composition import ControllerApp
from magos.runtime.manager.manager import Manager
from magos.runtime.manager.settings import Settings
from tests.sim.apiserver import Answer, Rule, SimApiServer
from tests.sim.apiserver.resources import Json
from tests.sim.virtualtime import VirtualClock, run_virtual

NAMESPACE = "default"


class World:
    """A cluster, a user, and the controller."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.clock = VirtualClock()
        self.server = SimApiServer(self.clock, random.Random(seed + 1))
        self.user = self.server.client("user")

    async def run(self) -> None:
        settings = Settings(namespace="kube-system", identity="x", workers=4, leader_elect=True, grace=1.0, health=None)
        app = ControllerApp(name="variableset-controller", settings=settings, build=variableset_controller)
        manager = Manager(app, self.server.transport("variableset"), clock=self.clock, rng=self.rng)
        await manager.run()

    async def declare(self, name: str, *variables: Json) -> None:
        manifest = {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": {"variables": list(variables)}}
        await self.user.create(VARIABLESETS, manifest)

    async def secret(self, name: str, **values: str) -> Secret:
        data = {key: value.encode() for key, value in values.items()}
        return await self.user.create(SECRETS, Secret(metadata=ObjectMeta(name=name, namespace=NAMESPACE), data=data))

    async def found(self, name: str) -> VariableSet:
        return await self.user.get(VARIABLESETS, NAMESPACE, name)

    async def until(self, name: str, holds: Callable[[VariableSet], bool]) -> VariableSet:
        with anyio.fail_after(300):
            while not holds(found := await self.found(name)):  # noqa: ASYNC110 - what is waited for is on the server
                await anyio.sleep(0.05)
        return found

    def requests(self, verb: str, plural: str) -> list[str]:
        return [
            each.path
            for each in self.server.served
            if each.user == "variableset" and each.verb == verb and f"/{plural}" in each.path
        ]


def in_world(scene: Callable[[World], Awaitable[None]], seed: int = 1) -> None:
    async def main() -> None:
        world = World(seed)
        async with anyio.create_task_group() as group:
            group.start_soon(world.run)
            await scene(world)
            group.cancel_scope.cancel()

    run_virtual(main, seed)


def secret_variable(name: str, source: str, key: str) -> Json:
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": source, "key": key}}}


def ready(found: VariableSet) -> bool:
    return found.status.phase == "Ready" and found.status.observed_generation == found.metadata.generation


def test_a_set_follows_its_sources_and_nobody_elses() -> None:
    async def scene(world: World) -> None:
        await world.declare("a", secret_variable("x", "db", "k"))
        await world.declare("b", {"name": "y", "value": ""})
        await world.until("a", lambda found: found.status.reason == "UnresolvedReferences")
        await world.until("b", ready)
        created = await world.secret("db", k="v")
        found = await world.until("a", ready)
        assert found.status.sources[0].content_version == created.metadata.resource_version
        patched = await world.user.patch(SECRETS, NAMESPACE, "db", {"metadata": {"labels": {"l": "1"}}})
        version = patched.metadata.resource_version
        found = await world.until("a", lambda found: found.status.sources[0].resource_version == version)
        assert found.status.sources[0].content_version == created.metadata.resource_version
        reads = world.requests("get", "secrets/")
        await world.secret("stranger", k="v")
        await world.user.create(CONFIG_MAPS, {"metadata": {"name": "db", "namespace": NAMESPACE}, "data": {"k": "v"}})
        await anyio.sleep(30)
        assert world.requests("get", "secrets/") == reads
        assert world.requests("get", "configmaps/") == []
        await world.user.delete(SECRETS, NAMESPACE, "db")
        await world.until("a", lambda found: found.status.reason == "UnresolvedReferences")

    in_world(scene)


def test_sets_at_rest_are_neither_read_nor_written() -> None:
    async def scene(world: World) -> None:
        await world.secret("db", k="v")
        for number in range(20):
            await world.declare(f"s{number}", secret_variable("x", "db", "k"))
        for number in range(20):
            await world.until(f"s{number}", ready)
        await anyio.sleep(10)
        world.server.served.clear()
        await anyio.sleep(600)
        rest = [e for e in world.server.served if e.user == "variableset" and "/leases" not in e.path]
        assert {each.verb for each in rest} <= {"watch"}

    in_world(scene)


def test_secrets_are_listed_and_watched_as_metadata_only() -> None:
    async def scene(world: World) -> None:
        await world.secret("db", k="CANARY-VALUE")
        await world.declare("a", secret_variable("x", "db", "k"), secret_variable("y", "db", "CANARY-KEY"))
        found = await world.until("a", lambda found: found.status.reason == "UnresolvedReferences")
        events = (await world.user.list(EVENTS, NAMESPACE)).items
        text = msgspec.json.encode([found.status, events]).decode()
        assert "CANARY-KEY" in text
        assert "CANARY-VALUE" not in text

    in_world(scene)


def test_forbidden_is_found_out_and_got_over_within_two_minutes() -> None:
    async def scene(world: World) -> None:
        await world.secret("db", k="v")
        no = Answer(code=403, reason="Forbidden", message="secrets is forbidden")
        world.server.faults.add(Rule(fault=no, methods=frozenset({"GET"}), path="/secrets/db", times=None))
        await world.declare("a", secret_variable("x", "db", "k"))
        found = await world.until("a", lambda found: found.status.reason == "UnresolvedReferences")
        assert [each.reason for each in found.status.unresolved_references] == ["Forbidden"]
        world.server.faults.clear()
        begun = world.clock.monotonic()
        await world.until("a", ready)
        assert world.clock.monotonic() - begun < 120

    in_world(scene)


def test_a_name_that_no_object_can_have_is_missing_and_never_asked_for() -> None:
    async def scene(world: World) -> None:
        for name in ("..", ".", "a/b", "Db", "a" * 254):
            await world.declare(f"s{abs(hash(name))}", secret_variable("x", name, "k"))
            found = await world.until(f"s{abs(hash(name))}", lambda f: f.status.phase is not None)
            assert [each.reason for each in found.status.unresolved_references] == ["ResourceNotFound"]
        assert world.requests("get", "secrets/") == []

    in_world(scene)
