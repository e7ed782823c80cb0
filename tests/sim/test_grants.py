"""Permission is given for one run, commit and spec, however slow one controller is beside the other.

A start that is blocked has its permission when something new comes. Who gives permission and who amends the run are two
processes: neither may undo what the other does, or the run is amended by nobody.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType

import anyio
import pytest

from magos.api.kube import JOBS, PODS
from tests.sim.fleet.cluster import Fleet, play
from tests.sim.fleet.users import URL
from tests.sim.history.records import JobCreated, WorkspaceWritten
from tests.sim.tally import TALLY

STRANGER = "stranger"
SPEEDS = (0.001, 0.003, 0.01, 0.02, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Seconds each way between one controller and the API server; the other one needs 1 to 5 ms."""

WATCHED = 120.0
PERMISSION = "magosproject.io/execution-"


def commit(fleet: Fleet) -> None:
    fleet.commit()


def edit(fleet: Fleet) -> None:
    fleet.users.edit("a", terraform={"version": "1.9.9"})


def both(fleet: Fleet) -> None:
    edit(fleet)
    commit(fleet)


NEWS: Mapping[str, tuple[Callable[[Fleet], None], int]] = MappingProxyType(
    {"commit": (commit, 1), "edit": (edit, 1), "both": (both, 2)}
)
"""What comes, and how many changes that is: permission is given at most once for each."""


@pytest.mark.parametrize("orchestrator", ["project", "rollout"])
@pytest.mark.parametrize("slow", ["workspace", "orchestrator"])
@pytest.mark.parametrize("seconds", SPEEDS)
@pytest.mark.parametrize("news", NEWS)
def test_a_waiting_run_is_amended_however_slow_one_controller_is(
    news: str, seconds: float, slow: str, orchestrator: str
) -> None:
    happen, changes = NEWS[news]
    written: list[int] = []

    async def scene(fleet: Fleet) -> None:
        await blocked_with_permission(fleet)
        fleet.server.distant[orchestrator if slow == "orchestrator" else slow] = (seconds, seconds)
        before = writes_of_permission(fleet)
        happen(fleet)
        await anyio.sleep(WATCHED)
        written.append(writes_of_permission(fleet) - before)
        await applied(fleet)

    played(("workspace", orchestrator), scene)
    assert written[0] <= changes


@pytest.mark.parametrize("person", [False, True], ids=["named", "unnamed"])
def test_permission_does_not_outlive_a_reset_that_dies_even_if_its_jobs_are_removed(*, person: bool) -> None:
    """The Jobs of the earlier run would tell the next process that a reset has to be finished."""

    async def scene(fleet: Fleet) -> None:
        fleet.users.project()
        fleet.users.workspace("a", autoApply=False)
        fleet.commit()
        await fleet.until(lambda: fleet.gated("a"), "the gate")
        await fleet.quiet()
        down(fleet, "project")
        if person:
            fleet.users.annotate("a", execution_granted_for=None)
        await anyio.sleep(5.0)
        first = run_id(fleet)
        fleet.also.start_soon(die_after_the_reset, fleet, first)
        fleet.users.edit("a", terraform={"version": "1.9.9"})
        await fleet.until(lambda: run_id(fleet) != first, "the reset")
        for job in fleet.items("jobs.batch"):
            fleet.users.delete(JOBS, job["metadata"]["name"])
        await anyio.sleep(60.0)
        assert fleet.leader("workspace").starts == 2
        assert jobs(fleet) == 1, f"a run starts with the permission of another\n{fleet.show()}"
        fleet.leader("project").held = False
        await fleet.until(lambda: fleet.gated("a") and run_id(fleet) != first, "the next plan")

    played(("workspace", "project"), scene)


def test_a_person_permits_a_run_by_hand_and_no_other() -> None:
    async def scene(fleet: Fleet) -> None:
        fleet.users.workspace("a", autoApply=False)
        fleet.commit()
        await fleet.reason("AwaitingRollout", "a")
        await fleet.quiet()
        fleet.users.annotate("a", execution_allowed="true")
        await fleet.until(lambda: fleet.gated("a"), "the gate")
        fleet.users.edit("a", terraform={"version": "1.9.9"})
        await fleet.reason("AwaitingRollout", "a")
        await anyio.sleep(60.0)
        assert jobs(fleet) == 1

    played(("workspace",), scene)


def played(programs: Sequence[str], scene: Callable[[Fleet], Awaitable[None]]) -> None:
    """Play the scene; its history breaks no invariant."""
    found = play(lambda: Fleet(1, programs=programs), scene).violations()
    TALLY.histories += 1
    TALLY.violations += len(found)
    assert not found, "\n".join(map(str, found))


def down(fleet: Fleet, program: str) -> None:
    """Stop a program until somebody lets it start again."""
    replica = fleet.leader(program)
    replica.held = True
    replica.kill()


async def die_after_the_reset(fleet: Fleet, first: str) -> None:
    """Kill the workspace controller in the moment its status write has been carried out."""
    await fleet.until(lambda: run_id(fleet) != first, "the reset")
    fleet.leader("workspace").kill()


def run_id(fleet: Fleet) -> str:
    found = fleet.users.find("a")
    return found.status.current_run_id if found is not None else ""


def jobs(fleet: Fleet) -> int:
    """Return how many Jobs were ever created."""
    return sum(isinstance(each, JobCreated) for each in fleet.history.records)


async def blocked_with_permission(fleet: Fleet) -> None:
    """A run that has permission and waits for a pod that carries our label: its node does not exist."""
    spec = {"containers": [{"name": "x", "image": "x"}], "nodeName": "elsewhere"}
    fleet.adversary.create(PODS, STRANGER, metadata={"labels": {"magosproject.io/workspace": "a"}}, spec=spec)
    fleet.users.project()
    if "rollout" in fleet.programs:
        fleet.users.rollout(("all", {"step": "a"}))
    fleet.users.workspace("a", labels={"step": "a"})
    fleet.commit()
    await fleet.reason("PreviousRunnerTerminating", "a")
    await fleet.quiet()


async def applied(fleet: Fleet) -> None:
    """The pod goes, and what came last is applied."""
    head = fleet.git.repository(URL).branches["main"]
    assert (fleet.pinned("a"), fleet.current("a")) == (head, True), f"the run is not amended\n{fleet.show()}"
    fleet.adversary.delete(PODS, STRANGER, grace=0)
    await fleet.until(lambda: fleet.observed("a") == head, "the newest commit is applied")


def writes_of_permission(fleet: Fleet) -> int:
    """Return how often a controller has given or taken permission."""
    return sum(
        1
        for each in fleet.history.records
        if isinstance(each, WorkspaceWritten) and permission(each, old=True) != permission(each)
    )


def permission(record: WorkspaceWritten, *, old: bool = False) -> dict[str, str]:
    item = record.old if old else record.new
    return {} if item is None else {k: v for k, v in item.metadata.annotations.items() if k.startswith(PERMISSION)}
