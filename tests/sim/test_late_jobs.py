"""Requests take effect after their client gave up: an apply that is not wanted any more never begins."""

from collections.abc import Awaitable, Callable

import anyio
import pytest

from magos.api.kube import JOBS
from magos.api.labels import JOB_TYPE, RUN_ID, WORKSPACE
from magos.api.names import JobType
from magos.api.workspace import WORKSPACES
from magos.runtime.client.transport import HttpRequest
from tests.sim.apiserver.faults import Late, Rule
from tests.sim.composed import judge
from tests.sim.fleet.cluster import Fleet, play
from tests.sim.history.records import ToolStarted


def act(scene: Callable[[Fleet], Awaitable[None]], seed: int = 1, *, election: bool = False) -> Fleet:
    """Play the scene; its history breaks no invariant."""
    fleet = play(lambda: Fleet(seed, election=election), scene, seed=seed)
    judge(fleet)
    return fleet


def creates_apply(request: HttpRequest) -> bool:
    return request.method == "POST" and request.path.endswith("/jobs") and b"-apply" in bytes(request.body or b"")


def releases(request: HttpRequest) -> bool:
    return request.method == "PATCH" and "/jobs/" in request.path and b'"suspend":false' in bytes(request.body or b"")


def applies(fleet: Fleet) -> list[str]:
    """The runs whose apply the tool began."""
    return [r.run_id for r in fleet.history.records if isinstance(r, ToolStarted) and r.job_type is JobType.APPLY]


def jobs_of(fleet: Fleet, run_id: str) -> list[str]:
    found = (each["metadata"]["labels"] for each in fleet.items("jobs.batch"))
    return [labels[JOB_TYPE] for labels in found if labels[RUN_ID] == run_id]


async def late_apply(fleet: Fleet, seconds: float) -> str:
    """The creation of the first apply Job takes effect late; return the run it belongs to."""
    fleet.users.project()
    fleet.users.workspace("a")
    rule = fleet.server.faults.add(Rule(fault=Late(seconds=seconds), only=creates_apply))
    fleet.commit()
    await fleet.until(lambda: rule.struck == 1, "the late request")
    found = fleet.users.find("a")
    assert found is not None
    return found.status.current_run_id


@pytest.mark.parametrize("seconds", [0.5, 3.0, 8.0, 20.0, 60.0])
@pytest.mark.parametrize("election", [False, True])
def test_a_plan_that_was_discarded_is_not_applied_by_a_late_creation(seconds: float, *, election: bool) -> None:
    async def scene(fleet: Fleet) -> None:
        first = await late_apply(fleet, seconds)
        fleet.leader("workspace").kill()  # so that nobody repeats the creation before the plan is discarded
        fleet.users.annotate("a", reconcile_request="another")
        await fleet.until(lambda: (w := fleet.users.find("a")) is not None and w.status.current_run_id != first)
        await fleet.phase("Applied", "a", within=300)
        await anyio.sleep(120)
        await fleet.quiet()
        assert first not in applies(fleet)
        assert "apply" not in jobs_of(fleet, first), "the late Job is gone"
        assert fleet.phase_of("a") == "Applied"

    act(scene, election=election)


@pytest.mark.parametrize("seconds", [0.5, 30.0])
def test_a_creation_that_is_late_and_still_wanted_is_applied_once(seconds: float) -> None:
    async def scene(fleet: Fleet) -> None:
        run = await late_apply(fleet, seconds)
        await fleet.phase("Applied", "a", within=300)
        await anyio.sleep(60)
        await fleet.quiet()
        assert applies(fleet) == [run]

    act(scene)


def test_an_apply_whose_job_a_person_deleted_is_not_begun_again_by_a_late_creation() -> None:
    async def scene(fleet: Fleet) -> None:
        fleet.terraform.slow["a"] = 30.0
        run = await late_apply(fleet, 30.0)
        await fleet.at_work("a", JobType.APPLY)
        await fleet.phase("Applying", "a")
        found = fleet.users.find("a")
        assert found is not None
        assert found.status.current_run is not None
        fleet.users.delete(JOBS, found.status.current_run.apply_job)
        await fleet.until(lambda: fleet.phase_of("a") == "Failed", "the end")
        await anyio.sleep(60)
        assert applies(fleet).count(run) == 1
        assert "apply" not in jobs_of(fleet, run)

    act(scene)


@pytest.mark.parametrize("seconds", [0.5, 5.0, 40.0])
def test_a_release_that_is_late_starts_nothing_that_is_over(seconds: float) -> None:
    async def scene(fleet: Fleet) -> None:
        fleet.users.project()
        fleet.users.workspace("a")
        rule = fleet.server.faults.add(Rule(fault=Late(seconds=seconds), only=releases))
        fleet.commit()
        await fleet.phase("Applied", "a", within=300)
        assert rule.struck == 1
        await anyio.sleep(60)
        assert len(applies(fleet)) == 1

    act(scene)


def test_a_workspace_is_deleted_although_its_apply_was_never_released() -> None:
    async def scene(fleet: Fleet) -> None:
        fleet.users.project()
        fleet.users.workspace("a")
        fleet.server.faults.add(Rule(fault=Late(seconds=0.5), only=releases, times=None))
        fleet.commit()
        await fleet.phase("Applying", "a")
        fleet.users.delete(WORKSPACES, "a")
        await fleet.phase("gone", "a", within=100)

    act(scene)


def test_the_end_of_a_foreign_job_that_was_waited_for_is_noticed_at_once() -> None:
    async def scene(fleet: Fleet) -> None:
        labels = {WORKSPACE: "a"}
        spec = {"suspend": True, "template": {"spec": {"containers": [{"name": "x", "image": "x"}]}}}
        fleet.adversary.create(JOBS, "foreign", metadata={"labels": labels}, spec=spec)
        fleet.users.project()
        fleet.users.workspace("a")
        fleet.users.annotate("a", reconcile_interval="1h")
        fleet.commit()
        await fleet.reason("PreviousRunnerTerminating", "a")
        await fleet.quiet()
        fleet.adversary.delete(JOBS, "foreign")
        await fleet.phase("Applied", "a", within=60)

    act(scene)
