"""Leader election under virtual time: drift, slow, lost and unanswered requests, wall-clock jumps, and real cases."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta

import anyio
import pytest
import structlog.testing
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from magos.api.kube import LEASES, Lease
from magos.runtime.apierror import ApiError
from magos.runtime.client import ApiClient
from magos.runtime.codec import Status
from magos.runtime.leaderelection import Candidate, LeaderElector, LeadershipLost, Timing
from magos.runtime.leases import ApiLease
from magos.runtime.transport import Lane
from tests.sim.apiserver import SimApiServer, SimTransport
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


# --- single cases, against the simulated API server ------------------------------------------------------------------


class Quiet:
    """A guard that only remembers."""

    def __init__(self) -> None:
        self.armed: list[float] = []
        self.disarmed = 0

    def arm(self, until: float) -> None:
        self.armed.append(until)

    def disarm(self) -> None:
        self.disarmed += 1


class Cluster:
    """The simulated API server and electors that talk to it."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.server = SimApiServer(self.clock, random.Random(1), namespaces=[NAMESPACE])
        self.admin = self.server.client("admin")
        self.guards: dict[str, Quiet] = {}
        self.transports: dict[str, SimTransport] = {}

    def elector(self, identity: str) -> LeaderElector:
        self.transports[identity] = self.server.transport(identity)
        store = ApiLease(ApiClient(self.transports[identity]), NAMESPACE, NAME)
        self.guards[identity] = Quiet()
        candidate = Candidate(namespace=NAMESPACE, name=NAME, identity=identity)
        return LeaderElector(candidate, store, self.clock, random.Random(identity), self.guards[identity])

    async def lease(self) -> Lease:
        return await self.admin.get(LEASES, NAMESPACE, NAME)


def case(body: Callable[[Cluster], Awaitable[None]]) -> None:
    async def main() -> None:
        await body(Cluster())

    run_virtual(main, 5)


async def until(condition: Callable[[], bool], seconds: float = 60) -> float:
    loop = asyncio.get_running_loop()
    start = loop.time()
    while not condition():
        assert loop.time() < start + seconds, "it did not happen"
        await asyncio.sleep(0.02)
    return loop.time() - start


def test_the_lease_tells_people_who_leads_since_when() -> None:
    async def body(cluster: Cluster) -> None:
        elector = cluster.elector("one")
        async with anyio.create_task_group() as group:
            group.start_soon(elector.run, anyio.sleep_forever)
            await until(elector.still_leading)
            first = (await cluster.lease()).spec
            assert (first.holder_identity, first.lease_duration_seconds, first.lease_transitions) == ("one", 15, 0)
            assert first.renew_time is not None
            assert first.renew_time.startswith("2026-01-01T00:00:00.")
            await asyncio.sleep(20)
            later = (await cluster.lease()).spec
            assert later.acquire_time == first.acquire_time
            assert later.renew_time is not None
            assert "2026-01-01T00:00:17" < later.renew_time < "2026-01-01T00:00:21"
            lanes = {served.lane for served in cluster.server.served if served.user == "one"}
            assert lanes == {Lane.LEASE}
            group.cancel_scope.cancel()

    case(body)


def test_a_clean_stop_gives_the_lease_back_after_the_work() -> None:
    async def body(cluster: Cluster) -> None:
        one, two = cluster.elector("one"), cluster.elector("two")
        ended: list[float] = []

        async def work() -> None:
            await asyncio.sleep(30)
            assert one.still_leading()
            ended.append(cluster.clock.monotonic())

        async with anyio.create_task_group() as group:
            group.start_soon(one.run, work)
            await until(one.still_leading)
            group.start_soon(two.run, anyio.sleep_forever)
            await until(lambda: bool(ended))
            assert not two.still_leading()
            assert await until(two.still_leading) < 2.1
            spec = (await cluster.lease()).spec
            assert (spec.holder_identity, spec.lease_transitions, two.term) == ("two", 1, 1)
            assert cluster.guards["one"].disarmed == 1
            group.cancel_scope.cancel()
        spec = (await cluster.lease()).spec
        assert (spec.holder_identity, spec.lease_duration_seconds) == ("", 1)

    case(body)


@pytest.mark.parametrize("after", [29.999, 30.0, 30.001, 30.003, 30.005, 30.01])
def test_a_renewal_cut_short_by_the_stop_does_not_keep_the_lease(after: float) -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.elector("one").run(lambda: asyncio.sleep(after))
        assert (await cluster.lease()).spec.holder_identity == ""

    case(body)


@pytest.mark.parametrize("after", [0.002, 0.004, 0.006, 0.008, 0.01, 0.02, 0.05])
def test_a_candidate_stopped_while_it_claims_leaves_no_claim_behind(after: float) -> None:
    async def body(cluster: Cluster) -> None:
        with anyio.move_on_after(after):
            await cluster.elector("one").run(anyio.sleep_forever)
        await asyncio.sleep(1)
        two = cluster.elector("two")
        async with anyio.create_task_group() as group:
            group.start_soon(two.run, anyio.sleep_forever)
            assert await until(two.still_leading) < 2.1
            group.cancel_scope.cancel()

    case(body)


def test_dead_work_ends_the_election_and_frees_the_lease() -> None:
    async def body(cluster: Cluster) -> None:
        elector = cluster.elector("one")

        async def work() -> None:
            await asyncio.sleep(5)
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await elector.run(work)
        assert not elector.still_leading()
        assert (await cluster.lease()).spec.holder_identity == ""

    case(body)


def test_a_crashed_leader_is_replaced_in_seventeen_seconds() -> None:
    async def body(cluster: Cluster) -> None:
        one, two = cluster.elector("one"), cluster.elector("two")
        async with anyio.create_task_group() as group:
            group.start_soon(_lose, one, anyio.sleep_forever)
            await until(one.still_leading)
            group.start_soon(two.run, anyio.sleep_forever)
            await asyncio.sleep(10)
            cluster.transports["one"].partition()
            assert await until(two.still_leading) < 17
            group.cancel_scope.cancel()

    case(body)


def test_a_cut_off_leader_stops_before_its_right_ends_and_work_is_awaited() -> None:
    async def body(cluster: Cluster) -> None:
        elector = cluster.elector("one")
        tidied: list[bool] = []

        async def work() -> None:
            try:
                await anyio.sleep_forever()
            finally:
                assert not elector.still_leading()
                with anyio.CancelScope(shield=True):
                    await asyncio.sleep(0.5)
                tidied.append(True)

        async with anyio.create_task_group() as group:
            group.start_soon(_lose, elector, work)
            await until(elector.still_leading)
            await asyncio.sleep(7)
            cluster.transports["one"].partition()
            assert 8 < await until(lambda: bool(tidied)) < 11
        assert cluster.guards["one"].disarmed == 1
        assert (await cluster.lease()).spec.holder_identity == "one"

    case(body)


def test_a_leader_that_sees_another_holder_stops_at_once() -> None:
    async def body(cluster: Cluster) -> None:
        elector = cluster.elector("one")
        async with anyio.create_task_group() as group:
            group.start_soon(_lose, elector, anyio.sleep_forever)
            await until(elector.still_leading)
            lease = await cluster.lease()
            thief = structs.replace(lease, spec=structs.replace(lease.spec, holder_identity="thief"))
            await cluster.admin.replace(LEASES, thief)
            assert await until(lambda: not elector.still_leading()) < 4.5

    case(body)


def test_labels_of_others_survive_and_do_not_end_leadership() -> None:
    async def body(cluster: Cluster) -> None:
        elector = cluster.elector("one")
        async with anyio.create_task_group() as group:
            group.start_soon(elector.run, anyio.sleep_forever)
            await until(elector.still_leading)
            await cluster.admin.patch(LEASES, NAMESPACE, NAME, {"metadata": {"labels": {"team": "a"}}})
            await asyncio.sleep(30)
            assert elector.still_leading()
            assert (await cluster.lease()).metadata.labels == {"team": "a"}
            group.cancel_scope.cancel()

    case(body)


def test_a_deleted_lease_does_not_make_two_leaders() -> None:
    async def body(cluster: Cluster) -> None:
        one, two = cluster.elector("one"), cluster.elector("two")
        async with anyio.create_task_group() as group:
            group.start_soon(one.run, anyio.sleep_forever)
            await until(one.still_leading)
            group.start_soon(two.run, anyio.sleep_forever)
            await asyncio.sleep(10)
            await cluster.admin.delete(LEASES, NAMESPACE, NAME)
            for _ in range(600):
                assert one.still_leading()
                assert not two.still_leading()
                await asyncio.sleep(0.1)
            group.cancel_scope.cancel()

    case(body)


def test_time_lost_in_suspend_closes_the_fence_before_any_task_runs() -> None:
    async def body(cluster: Cluster) -> None:
        elector = cluster.elector("one")
        async with anyio.create_task_group() as group:
            group.start_soon(_lose, elector, anyio.sleep_forever)
            await until(elector.still_leading)
            cluster.clock.suspend(13)
            assert not elector.still_leading()

    case(body)


@pytest.mark.parametrize("timing", [{"renew": 13.0}, {"retry": 9.0}, {"drift": 0.0, "renew": 15.0}, {"retry": 0.0}])
def test_timings_that_break_the_promise_are_refused(timing: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="leader election needs"):
        Timing(**timing)  # type: ignore[arg-type]


async def _lose(elector: LeaderElector, work: Callable[[], Awaitable[None]]) -> None:
    with pytest.raises(LeadershipLost, match="magos/workspace-controller"):
        await elector.run(work)
