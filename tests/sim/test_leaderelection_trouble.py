"""Leader election under drift, slow, lost and unanswered requests, partitions and wall-clock jumps."""

import asyncio
import random
from collections.abc import Callable, Iterator
from datetime import timedelta

import anyio
import pytest
import structlog.testing
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from magos.api.kube import Lease
from magos.runtime.client.errors import ApiError, Status
from magos.runtime.leaderelection.elector import LeaderElector, LeadershipLost
from magos.runtime.leaderelection.record import Candidate
from tests.sim.virtualtime import VirtualClock, run_virtual

LONGEST_FLIGHT = 20.0
NAMESPACE, NAME = "magos", "workspace-controller"


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Hours of elections log a lot."""
    with structlog.testing.capture_logs():
        yield


class Server:
    """One Lease with versions, and a network whose every message may be slow or lost."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.lease: Lease | None = None
        self.version = 0
        self.trouble = 0.0
        self.commits = 0

    def write(self, lease: Lease) -> Lease:
        version = self.lease.metadata.resource_version if self.lease is not None else ""
        if lease.metadata.resource_version != version:
            raise ApiError("conflict", answer=Status(code=409, reason="Conflict"))
        self.version += 1
        self.commits += 1
        self.lease = structs.replace(
            lease, metadata=structs.replace(lease.metadata, resource_version=str(self.version))
        )
        return self.lease

    async def travel(self) -> None:
        """One way of a message: usually quick, in trouble slow or lost."""
        if self.rng.random() < self.trouble:
            kind = self.rng.choice(["slow", "lost", "refused"])
            if kind == "refused":
                raise ApiError("connection refused")
            if kind == "lost":
                await asyncio.sleep(60)
                raise ApiError("no answer")
            await asyncio.sleep(min(self.rng.expovariate(1 / 4), LONGEST_FLIGHT))
        await asyncio.sleep(self.rng.uniform(0.001, 0.05))


class Store:
    """One candidate's way to the server. Requests go on when the client has given up: they may still be committed."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.cut = False
        self.flights: set[asyncio.Task[Lease | None]] = set()

    async def get(self, seconds: float) -> Lease | None:  # noqa: ARG002 - the elector's own limit is under test
        return await self._fly(lambda: self.server.lease)

    async def create(self, lease: Lease, seconds: float) -> Lease:  # noqa: ARG002
        return await self._written(lease)

    async def replace(self, lease: Lease, seconds: float) -> Lease:  # noqa: ARG002
        return await self._written(lease)

    async def _written(self, lease: Lease) -> Lease:
        stored = await self._fly(lambda: self.server.write(lease))
        assert stored is not None
        return stored

    async def _fly(self, act: Callable[[], Lease | None]) -> Lease | None:
        async def flight() -> Lease | None:
            if self.cut:
                await asyncio.sleep(60)
                raise ApiError("no answer")
            await self.server.travel()
            result = act()
            await self.server.travel()
            return result

        task = asyncio.create_task(flight())
        self.flights.add(task)
        task.add_done_callback(self._landed)
        return await asyncio.shield(task)

    def _landed(self, task: asyncio.Task[Lease | None]) -> None:
        self.flights.discard(task)
        if not task.cancelled():
            task.exception()  # nobody may be waiting for it any more


class Guard:
    """Checks at every start of a right to act that nobody else has it, and that work stops in time."""

    def __init__(self, replica: "Replica") -> None:
        self.replica = replica
        self.until = float("inf")

    def arm(self, until: float) -> None:
        self.until = until
        self.replica.world.check()

    def disarm(self) -> None:
        assert self.replica.clock.monotonic() <= self.until + 1, (
            "the work ended too late: the watchdog would have struck"
        )
        self.until = float("inf")


class Replica:
    """A process that competes, works, and starts again when it lost."""

    def __init__(self, world: "World", number: int) -> None:
        self.world = world
        self.number = number
        self.clock = VirtualClock(rate=world.rng.uniform(0.9, 1.1), offset=world.rng.uniform(0, 1e6))
        self.store = Store(world.server)
        self.elector: LeaderElector | None = None
        self.working = False
        self.life = anyio.CancelScope()

    def leading(self) -> bool:
        return self.elector is not None and self.elector.still_leading()

    async def work(self) -> None:
        assert not self.working
        self.working = True
        try:
            while True:
                if self.leading():
                    self.world.wrote(self.number)
                await asyncio.sleep(self.world.rng.uniform(0.01, 0.5))
        finally:
            self.working = False

    async def live(self) -> None:
        for start in range(10_000):
            candidate = Candidate(namespace=NAMESPACE, name=NAME, identity=f"replica-{self.number}-{start}")
            rng = random.Random(self.world.rng.random())
            self.elector = LeaderElector(candidate, self.store, self.clock, rng, Guard(self))
            with anyio.CancelScope() as self.life:
                with pytest.raises(LeadershipLost):
                    await self.elector.run(self.work)
                self.world.losses += 1
            assert not self.working
            assert not self.elector.still_leading()
            await asyncio.sleep(self.world.rng.uniform(0.5, 3))


class World:
    """Several replicas, one server, and what happens to them."""

    def __init__(self, seed: int, replicas: int) -> None:
        self.rng = random.Random(seed)
        self.server = Server(self.rng)
        self.writes: list[tuple[float, int]] = []
        self.losses = 0
        self.replicas = [Replica(self, number) for number in range(replicas)]

    def leaders(self) -> list[Replica]:
        return [replica for replica in self.replicas if replica.leading()]

    def check(self) -> None:
        assert len(self.leaders()) <= 1, "two leaders at one instant"

    def wrote(self, number: int) -> None:
        self.check()
        self.writes.append((asyncio.get_running_loop().time(), number))

    async def fate(self, seconds: float) -> None:
        """Let trouble come and go."""
        end = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < end:
            self.server.trouble = self.rng.choice([0, 0, 0.1, 0.4, 0.8])
            for replica in self.replicas:
                replica.store.cut = self.rng.random() < 0.2
                if self.rng.random() < 0.1:
                    replica.life.cancel()
                if self.rng.random() < 0.3:
                    replica.clock.jump_wall(timedelta(seconds=self.rng.uniform(-7200, 7200)))
            await asyncio.sleep(self.rng.uniform(1, 40))
        self.server.trouble = 0
        for replica in self.replicas:
            replica.store.cut = False

    async def run(self, rounds: int) -> None:
        loop = asyncio.get_running_loop()
        async with anyio.create_task_group() as group:
            for replica in self.replicas:
                group.start_soon(replica.live)
            for _ in range(rounds):
                await self.fate(200)
                known = len(self.writes)
                await asyncio.sleep(LONGEST_FLIGHT)
                healed = loop.time()
                while len(self.writes) == known and loop.time() < healed + 60:  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
                assert loop.time() - healed < 24, "no leader after the network healed"
            group.cancel_scope.cancel()


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**32), replicas=st.integers(1, 5), order=st.integers(0, 1000))
def test_never_two_leaders_and_always_one_after_the_network_healed(seed: int, replicas: int, order: int) -> None:
    run_virtual(lambda: World(seed, replicas).run(4), order)


def test_hours_of_trouble_change_leaders_often_and_never_double_them() -> None:
    world: list[World] = []

    async def main() -> None:
        world.append(World(11, 3))
        await world[0].run(50)

    run_virtual(main, 3)
    assert world[0].losses > 10
    assert world[0].server.commits > 1000
    assert len({number for _, number in world[0].writes}) == 3
