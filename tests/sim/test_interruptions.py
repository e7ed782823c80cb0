"""Infrastructure ends plans and applies: a plan begins anew by itself, an apply never does, and no Rollout halts."""

from collections.abc import Awaitable, Callable
from itertools import pairwise

import anyio
import pytest

from magos.api.names import JobType
from magos.api.phases import Phase
from magos.api.reasons import Reason
from magos.api.rollout import ROLLOUTS
from magos.api.triggers import Trigger
from tests.sim.composed import judge
from tests.sim.fleet.cluster import Fleet, play
from tests.sim.fleet.infrastructure import ENDS, End, runner_pods
from tests.sim.history.records import JobCreated, Record, WorkspaceWritten

ALL = ("workspace", "project", "rollout")
STEPS = tuple((name, {"step": name}) for name in ("dev", "stage", "prod"))
HOUR = "1h"


def act(scene: Callable[[Fleet], Awaitable[None]], seed: int = 1) -> Fleet:
    """Play the scene; its history breaks no invariant."""
    fleet = play(lambda: Fleet(seed, programs=ALL), scene, seed=seed)
    judge(fleet)
    return fleet


def begin(fleet: Fleet) -> str:
    """Three Workspaces, a Rollout with a step for each, no tick within the hour; return the commit."""
    fleet.users.project()
    fleet.users.rollout(*STEPS)
    for name, labels in STEPS:
        fleet.users.workspace(name, labels=labels)
        fleet.users.annotate(name, reconcile_interval=HOUR)
    fleet.terraform.slow["stage"] = 20.0
    return fleet.commit()


async def away(fleet: Fleet, seconds: float) -> None:
    """The workspace controller is not there for a while."""
    controller = fleet.leader("workspace")
    controller.held = True
    controller.kill()
    await anyio.sleep(seconds)
    controller.held = False


def halves(fleet: Fleet, name: str) -> list[str]:
    return [
        str(each.job_type)
        for each in fleet.history.records
        if isinstance(each, JobCreated) and each.workspace[1] == name
    ]


def statuses(records: list[Record], name: str) -> list[WorkspaceWritten]:
    return [
        each
        for each in records
        if isinstance(each, WorkspaceWritten) and each.new is not None and each.new.metadata.name == name
    ]


def reasons_of_rollout(fleet: Fleet) -> set[str]:
    return {each["reason"] for each in fleet.items("events.events.k8s.io") if each["regarding"]["kind"] == "Rollout"}


@pytest.mark.parametrize("absent", [False, True], ids=["controller there", "controller away"])
@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_a_plan_that_infrastructure_ends_begins_anew_and_no_rollout_halts(end: End, absent: bool) -> None:
    async def scene(fleet: Fleet) -> None:
        sha = begin(fleet)
        await fleet.at_work("stage", JobType.PLAN)
        await fleet.phase("Planning", "stage")
        [pod] = runner_pods(fleet, "stage", JobType.PLAN)
        end(fleet, pod)
        if absent:
            await away(fleet, 40.0)
        await fleet.until(lambda: all(fleet.observed(name) == sha for name, _ in STEPS), "the promotion", within=600)
        await fleet.quiet()

    fleet = act(scene)
    assert halves(fleet, "stage") == ["plan", "plan", "apply"]
    assert Reason.STEP_FAILED not in reasons_of_rollout(fleet)
    written = statuses(list(fleet.history.records), "stage")
    assert {each.new.status.current_run_trigger for each in written if each.new} <= {None, Trigger.CONFIGURATION}
    told = {each.new.status.message for each in written if each.new and each.new.status.reason == Reason.INTERRUPTED}
    assert any("attempt 2 of 4 begins in 30 s" in message for message in told), told


def test_a_request_is_served_by_the_repetition_of_its_run() -> None:
    async def scene(fleet: Fleet) -> None:
        sha = begin(fleet)
        await fleet.until(lambda: all(fleet.observed(name) == sha for name, _ in STEPS), "the first commit")
        fleet.users.annotate("stage", reconcile_request="again")
        await fleet.at_work("stage", JobType.PLAN)
        ENDS["evicted"](fleet, runner_pods(fleet, "stage", JobType.PLAN)[0])
        await fleet.reason(Reason.INTERRUPTED, "stage")
        found = fleet.users.find("stage")
        assert found is not None
        assert found.status.current_run is not None
        assert found.status.last_handled_reconcile_request == ""
        assert (found.status.current_run_trigger, found.status.current_run.request) == (Trigger.MANUAL, "again")
        await fleet.phase("Applied", "stage", within=600)
        await fleet.quiet()
        found = fleet.users.find("stage")
        assert found is not None
        assert found.status.last_handled_reconcile_request == "again"

    act(scene)


def test_a_plan_that_is_ended_again_and_again_fails_at_last_and_names_the_infrastructure() -> None:
    async def scene(fleet: Fleet) -> None:
        begin(fleet)
        begun: list[float] = []
        for _ in range(4):
            await fleet.at_work("stage", JobType.PLAN)
            begun.append(fleet.clock.monotonic())
            ENDS["pressed"](fleet, runner_pods(fleet, "stage", JobType.PLAN)[0])
            await fleet.until(lambda: not fleet.working("stage", JobType.PLAN))
        await fleet.phase("Failed", "stage")
        assert [round((b - a) / 30) for a, b in pairwise(begun)] == [1, 2, 4]
        assert fleet.reason_of("stage") == Reason.INTERRUPTED
        await fleet.quiet()
        rollout = fleet.server.store.get(fleet.server.resource(ROLLOUTS), ("default", "platform"))
        assert rollout is not None
        assert rollout["status"]["reason"] == Reason.STEP_FAILED
        assert "Infrastructure ended these runs" in rollout["status"]["message"]
        assert "commit it" not in rollout["status"]["message"]

    assert halves(act(scene), "stage") == ["plan"] * 4


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_an_apply_that_infrastructure_ends_is_never_repeated(end: End) -> None:
    async def scene(fleet: Fleet) -> None:
        begin(fleet)
        await fleet.at_work("stage", JobType.APPLY)
        await fleet.phase("Applying", "stage")
        end(fleet, runner_pods(fleet, "stage", JobType.APPLY)[0])
        await fleet.phase("Failed", "stage")
        await anyio.sleep(600)
        found = fleet.users.find("stage")
        assert found is not None
        assert found.status.phase is Phase.FAILED
        rollout = fleet.server.store.get(fleet.server.resource(ROLLOUTS), ("default", "platform"))
        assert rollout is not None
        assert "Infrastructure ended these runs" in rollout["status"]["message"]

    assert halves(act(scene), "stage") == ["plan", "apply"]
