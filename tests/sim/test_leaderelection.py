"""Leader election, one case at a time, against the simulated API server."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator

import anyio
import pytest
import structlog.testing
from msgspec import structs

from magos.api.kube import LEASES, Lease
from magos.runtime.client.client import ApiClient
from magos.runtime.client.transport import Lane
from magos.runtime.leaderelection.elector import LeaderElector, LeadershipLost
from magos.runtime.leaderelection.record import Candidate, Timing
from magos.runtime.leaderelection.resourcelock import ApiLease
from tests.sim.apiserver import SimApiServer, SimTransport
from tests.sim.apiserver.faults import Answer, Rule
from tests.sim.virtualtime import VirtualClock, run_virtual

NAMESPACE, NAME = "magos", "workspace-controller"


@pytest.fixture(autouse=True)
def logs() -> Iterator[list[structlog.typing.EventDict]]:
    """What was logged."""
    with structlog.testing.capture_logs() as captured:
        yield captured


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


def test_a_lasting_refusal_is_an_error_that_names_the_lease(logs: list[structlog.typing.EventDict]) -> None:
    async def body(cluster: Cluster) -> None:
        cluster.server.faults.add(Rule(fault=Answer(code=403, reason="Forbidden", message="no"), times=None))
        with anyio.move_on_after(5):
            await cluster.elector("one").run(anyio.sleep_forever)

    case(body)
    assert {log["log_level"] for log in logs if log["event"] == "cannot acquire the lease yet"} == {"error"}
    assert "Lease magos/workspace-controller" in logs[0]["error"]


@pytest.mark.parametrize("timing", [{"renew": 13.0}, {"retry": 9.0}, {"drift": 0.0, "renew": 15.0}, {"retry": 0.0}])
def test_timings_that_break_the_promise_are_refused(timing: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="leader election needs"):
        Timing(**timing)  # type: ignore[arg-type]


async def _lose(elector: LeaderElector, work: Callable[[], Awaitable[None]]) -> None:
    with pytest.raises(LeadershipLost, match="magos/workspace-controller"):
        await elector.run(work)
