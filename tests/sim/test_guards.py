"""One scene for each guard: somebody tries exactly what the guard is there against, and nothing happens.

``scripts/mutations`` breaks the guards one by one and expects a scene to fail.
"""

from collections.abc import Awaitable, Callable, Sequence

import anyio
import pytest

from magos.api.kube import JOBS, PODS
from magos.api.names import JobType
from magos.api.result import Violation, ViolationAction
from magos.api.variableset import VARIABLESETS
from magos.api.workspace import WORKSPACES
from tests.sim.apiserver import Answer, Rule
from tests.sim.apiserver.resources import Json
from tests.sim.composed import judge
from tests.sim.fleet.cluster import Fleet, play
from tests.sim.fleet.infrastructure import runner_pods
from tests.sim.fleet.replica import SYSTEM
from tests.sim.fleet.users import URL, Users
from tests.sim.history.records import JobCreated, ToolStarted
from tests.sim.scenarios import SCENARIOS

ALONE = ("workspace",)
PAIR = ("workspace", "project")
ALL = ("workspace", "project", "rollout")
STEPS = tuple((name, {"step": name}) for name in ("dev", "stage", "prod"))


def act(scene: Callable[[Fleet], Awaitable[None]], programs: Sequence[str] = PAIR, seed: int = 1) -> Fleet:
    """Play the scene; its history breaks no invariant."""
    fleet = play(lambda: Fleet(seed, programs=programs), scene, seed=seed)
    judge(fleet)
    return fleet


def halves(fleet: Fleet, name: str = "a") -> list[str]:
    """The Jobs that were created for a Workspace, in their order."""
    return [
        str(each.job_type)
        for each in fleet.history.records
        if isinstance(each, JobCreated) and each.workspace[1] == name
    ]


@pytest.mark.parametrize("value", ["True", "1", "yes", " true", ""])
def test_permission_is_exactly_true(value: str) -> None:
    async def scene(fleet: Fleet) -> None:
        fleet.users.workspace("a")
        fleet.commit()
        fleet.adversary.annotate("a", execution_allowed=value)
        await anyio.sleep(30)

    assert halves(act(scene, ALONE)) == []


def test_permission_that_is_revoked_at_the_last_moment_starts_nothing() -> None:
    """Between the live read that is judged and the creation of the Job."""

    async def scene(fleet: Fleet) -> None:
        handle = fleet.server.handle

        def spy(request, user=""):  # type: ignore[no-untyped-def]
            answer = handle(request, user)
            if user == "workspace" and request.method == "GET" and request.path.endswith("/workspaces/a"):
                fleet.users.annotate("a", execution_allowed=None)
            return answer

        fleet.users.workspace("a")
        fleet.commit()
        await fleet.until(lambda: fleet.phase_of("a") == "Pending")
        await fleet.quiet()
        fleet.server.handle = spy  # type: ignore[method-assign]
        fleet.users.annotate("a", execution_allowed="true")
        await anyio.sleep(30)

    assert halves(act(scene, ALONE)) == []


@pytest.mark.parametrize("name", ["magos-job", "deployer", "nobody"])
def test_a_run_takes_no_account_that_is_not_labelled_for_it(name: str) -> None:
    async def scene(fleet: Fleet) -> None:
        fleet.users.account(runner=False)
        fleet.users.account(runner=False, name="deployer")
        fleet.users.project()
        fleet.users.workspace("a", serviceAccountName=name)
        fleet.commit()
        await fleet.reason("ServiceAccountNotFound" if name == "nobody" else "ServiceAccountNotAllowed", "a")
        await anyio.sleep(600)
        assert fleet.phase_of("a") == "Failed"

    assert halves(act(scene)) == []


def test_a_refused_run_starts_within_seconds_once_its_account_is_labelled() -> None:
    async def scene(fleet: Fleet) -> None:
        fleet.users.account(runner=False)
        fleet.users.project()
        fleet.users.workspace("a")
        fleet.commit()
        await fleet.reason("ServiceAccountNotAllowed", "a")
        await fleet.quiet()
        fleet.users.account(runner=True)
        await fleet.at_work("a", JobType.PLAN, within=10)

    assert halves(act(scene)) == ["plan"]


def test_a_label_that_is_taken_after_the_plan_holds_up_the_apply_and_loses_nothing() -> None:
    async def scene(fleet: Fleet) -> None:
        fleet.users.project()
        fleet.users.workspace("a", autoApply=False)
        fleet.commit()
        await fleet.until(lambda: fleet.gated("a"))
        await fleet.quiet()
        run = _run_id(fleet)
        fleet.users.account(runner=False)
        fleet.users.approve("a")
        await fleet.reason("ServiceAccountNotAllowed", "a")
        await anyio.sleep(600)
        assert (fleet.phase_of("a"), _run_id(fleet)) == ("Planned", run)
        assert halves(fleet) == ["plan"]
        fleet.users.account(runner=True)
        await fleet.at_work("a", JobType.APPLY, within=10)
        assert _run_id(fleet) == run

    assert halves(act(scene)) == ["plan", "apply"]


def test_nothing_runs_in_the_namespace_of_the_controllers() -> None:
    async def scene(fleet: Fleet) -> None:
        elsewhere = Users(fleet.server, namespace=SYSTEM)
        elsewhere.account(runner=True, name="magos-workspace")
        elsewhere.project()
        elsewhere.workspace("a", serviceAccountName="magos-workspace")
        await fleet.until(lambda: _reason_of(elsewhere) == "NamespaceNotAllowed")
        await anyio.sleep(600)

    assert halves(act(scene)) == []


def test_a_manual_plan_waits_for_ever() -> None:
    async def scene(fleet: Fleet) -> None:
        fleet.users.project()
        fleet.users.workspace("a", autoApply=False)
        fleet.commit()
        await anyio.sleep(600)

    assert halves(act(scene)) == ["plan"]


def test_a_plan_with_audit_violations_waits_also_if_it_may_apply_by_itself() -> None:
    async def scene(fleet: Fleet) -> None:
        fleet.terraform.violations["a"] = (Violation(policy="p", message="m", action=ViolationAction.AUDIT),)
        fleet.users.project()
        fleet.users.workspace("a")
        fleet.commit()
        await fleet.until(lambda: fleet.gated("a"))
        await anyio.sleep(60)

    assert halves(act(scene)) == ["plan"]


@pytest.mark.parametrize("action", [ViolationAction.DENY, ViolationAction.WARN])
def test_a_blocked_plan_is_not_applied_even_if_its_runner_calls_it_a_success(action: ViolationAction) -> None:
    async def scene(fleet: Fleet) -> None:
        fleet.terraform.lenient = True
        fleet.terraform.violations["a"] = (Violation(policy="p", message="m", action=action),)
        fleet.users.project()
        fleet.users.workspace("a")
        fleet.commit()
        await fleet.phase("ValidationFailed", "a")
        fleet.users.annotate("a", approved=_run_id(fleet))
        await anyio.sleep(60)

    assert halves(act(scene)) == ["plan"]


def test_a_plan_of_another_commit_is_not_applied() -> None:
    async def scene(fleet: Fleet) -> None:
        fleet.terraform.misreports["a"] = "c" * 40
        fleet.users.project()
        fleet.users.workspace("a")
        fleet.commit()
        await fleet.phase("Failed", "a")
        await anyio.sleep(30)

    assert halves(act(scene)) == ["plan"]


def test_an_approval_given_in_advance_opens_nothing() -> None:
    async def scene(fleet: Fleet) -> None:
        fleet.users.project()
        fleet.users.workspace("a", autoApply=False)
        fleet.commit()
        await fleet.at_work("a", JobType.PLAN)
        fleet.users.annotate("a", approved=_run_id(fleet))
        await fleet.until(lambda: fleet.gated("a"))
        await anyio.sleep(60)

    assert halves(act(scene)) == ["plan"]


def test_the_approval_of_another_run_opens_nothing() -> None:
    async def scene(fleet: Fleet) -> None:
        fleet.users.project()
        fleet.users.workspace("a", autoApply=False)
        fleet.commit()
        await fleet.until(lambda: fleet.gated("a"))
        fleet.adversary.annotate("a", approved="20200101T000000-deadbeef")
        await anyio.sleep(60)

    assert halves(act(scene)) == ["plan"]


def test_the_project_grants_nothing_beside_a_rollout() -> None:
    """The Rollout's own controller is down."""

    async def scene(fleet: Fleet) -> None:
        fleet.users.rollout(*STEPS[:1])
        fleet.users.project()
        fleet.users.workspace("dev", labels={"step": "dev"})
        fleet.commit()
        await anyio.sleep(60)

    assert halves(act(scene, PAIR), "dev") == []


def test_no_step_behind_a_failed_one() -> None:
    async def scene(fleet: Fleet) -> None:
        _promotion(fleet)
        fleet.commit(apply_fails=frozenset({"dev"}))
        await fleet.phase("Failed", "dev")
        await anyio.sleep(30)

    assert halves(act(scene, ALL), "prod") == []


def test_no_step_behind_a_failed_one_even_if_the_commit_is_the_same() -> None:
    """The first step has applied the commit and fails in a later run of it."""

    async def scene(fleet: Fleet) -> None:
        _promotion(fleet)
        fleet.commit()
        await fleet.phase("Applied", "dev", "prod")
        await fleet.quiet()
        fleet.git.repository(URL).reachable = False
        fleet.users.annotate("dev", reconcile_request="now")
        await fleet.phase("Failed", "dev")
        fleet.git.repository(URL).reachable = True
        fleet.users.annotate("prod", reconcile_request="now")
        await anyio.sleep(60)

    assert halves(act(scene, ALL), "prod") == ["plan", "apply"]


def test_no_step_behind_one_that_still_works() -> None:
    async def scene(fleet: Fleet) -> None:
        _promotion(fleet)
        fleet.terraform.slow["dev"] = 100.0
        fleet.commit()
        await fleet.at_work("dev", JobType.PLAN)
        await anyio.sleep(60)

    assert halves(act(scene, ALL), "prod") == []


def test_no_commit_before_the_earlier_steps_have_applied_it() -> None:
    """Somebody tells the last step alone of a commit."""

    async def scene(fleet: Fleet) -> None:
        _promotion(fleet)
        fleet.commit()
        await fleet.phase("Applied", "dev", "prod")
        await fleet.quiet()
        sha = fleet.git.push(URL)
        fleet.adversary.annotate("prod", detected_revision=sha)
        await anyio.sleep(60)

    assert halves(act(scene, ALL), "prod") == ["plan", "apply"]


@pytest.mark.parametrize("of_the_project", [False, True])
def test_no_variables_before_the_earlier_steps_have_applied_them(of_the_project: bool) -> None:
    """The first step is slow to notice that they have changed; the last one is quick."""

    async def scene(fleet: Fleet) -> None:
        refs = [{"name": "shared"}]
        fleet.users.variable_set("shared", [{"name": "size", "value": "old"}])
        fleet.users.rollout(STEPS[0], STEPS[2])
        fleet.users.project(variableSetRef=refs if of_the_project else [])
        for name in ("dev", "prod"):
            own: Json = {} if of_the_project else {"variableSetRef": refs}
            fleet.users.workspace(name, labels={"step": name}, **own)
        fleet.commit()
        await fleet.phase("Applied", "dev", "prod")
        await fleet.quiet()
        fleet.server.faults.add(Rule(fault=Answer(), methods=frozenset({"PATCH"}), path="/workspaces/dev", times=None))
        fleet.users.patch(VARIABLESETS, "shared", {"spec": {"variables": [{"name": "size", "value": "new"}]}})
        await anyio.sleep(60)
        assert fleet.infrastructure("prod").endswith("=old")
        assert fleet.phase_of("prod") == "Pending"
        fleet.server.faults.clear()
        await fleet.until(lambda: fleet.infrastructure("dev").endswith("=new"), "the new value in the first step")
        assert fleet.infrastructure("prod").endswith("=old")
        await fleet.until(lambda: fleet.infrastructure("prod").endswith("=new"), "the new value in the last step")
        await fleet.phase("Applied", "dev", "prod")

    assert halves(act(scene, (*ALL, "variableset")), "prod") == ["plan", "apply"] * 2


def test_a_grant_is_for_the_version_that_was_judged() -> None:
    """Between the Rollout's live read and its grant the last step is told of another commit."""

    async def scene(fleet: Fleet) -> None:
        handle = fleet.server.handle
        newer = ""

        def spy(request, user=""):  # type: ignore[no-untyped-def]
            nonlocal newer
            answer = handle(request, user)
            listed = request.method == "GET" and request.path.endswith("/workspaces")
            if user == "rollout" and listed and not newer and fleet.observed("dev"):
                newer = fleet.git.push(URL)
                fleet.adversary.annotate("prod", detected_revision=newer)
            return answer

        _promotion(fleet)
        fleet.commit()
        fleet.server.handle = spy  # type: ignore[method-assign]
        await fleet.until(lambda: bool(newer), "the moment")
        await anyio.sleep(60)

    assert halves(act(scene, ALL), "prod") == []


def test_permission_for_one_commit_is_none_for_the_next() -> None:
    """Permission is there, the start has to wait, and meanwhile the commit changes."""

    async def scene(fleet: Fleet) -> None:
        _promotion(fleet)
        fleet.commit()
        await fleet.phase("Applied", "dev", "prod")
        await fleet.quiet()
        _foreign_pod(fleet, "prod")
        fleet.commit()
        await fleet.until(lambda: fleet.phase_of("dev") == "Applied" and _reason(fleet) == "PreviousRunnerTerminating")
        sha = fleet.git.push(URL)
        fleet.adversary.annotate("prod", detected_revision=sha)
        await fleet.quiet()
        fleet.adversary.delete(PODS, "stranger", grace=0)
        await anyio.sleep(60)

    assert halves(act(scene, ALL), "prod") == ["plan", "apply"]


def test_a_pod_of_somebody_else_under_our_name_holds_up_the_start() -> None:
    async def scene(fleet: Fleet) -> None:
        _foreign_pod(fleet, "a")
        fleet.users.project()
        fleet.users.workspace("a")
        fleet.commit()
        await anyio.sleep(60)

    assert halves(act(scene)) == []


def test_a_workspace_that_is_made_again_waits_for_the_pod_of_the_old_one() -> None:
    async def scene(fleet: Fleet) -> None:
        fleet.terraform.slow["a"] = 30.0
        fleet.users.project()
        fleet.users.workspace("a")
        fleet.commit()
        await fleet.at_work("a", JobType.APPLY)
        fleet.kubelet.up = False
        fleet.users.delete(WORKSPACES, "a")
        fleet.users.annotate("a", force_delete="true")
        await fleet.phase("gone", "a")
        fleet.users.workspace("a")
        await anyio.sleep(120)
        fleet.kubelet.up = True
        fleet.kubelet.wake()
        await fleet.phase("Applied", "a")

    act(scene)


def test_a_job_of_somebody_else_under_the_next_name_is_not_taken_for_ours() -> None:
    async def scene(fleet: Fleet) -> None:
        fleet.users.workspace("a")
        fleet.commit()
        await fleet.until(lambda: fleet.phase_of("a") == "Pending")
        await fleet.quiet()
        found = fleet.users.find("a")
        assert found is not None
        assert found.status.current_run is not None
        spec = {"suspend": True, "template": {"spec": {"containers": [{"name": "x", "image": "x"}]}}}
        fleet.adversary.create(JOBS, found.status.current_run.plan_job, spec=spec)
        fleet.users.annotate("a", execution_allowed="true")
        await fleet.phase("Failed", "a", within=60)

    assert halves(act(scene, ALONE)) == []


def test_nothing_is_applied_that_was_planned_for_another_spec() -> None:
    fleet = act(SCENARIOS["edit during plan"].play)
    assert halves(fleet) == ["plan", "plan", "apply"]


def test_an_approval_does_not_carry_a_plan_over_an_edit() -> None:
    """Somebody approves and somebody else edits the spec at the same moment."""

    async def scene(fleet: Fleet) -> None:
        fleet.users.project()
        fleet.users.workspace("a", autoApply=False)
        fleet.commit()
        await fleet.until(lambda: fleet.gated("a"))
        await fleet.quiet()
        fleet.users.edit("a", terraform={"version": "1.9.9"})
        fleet.users.approve("a")
        await anyio.sleep(60)

    assert halves(act(scene)) == ["plan", "plan"]


def test_a_deletion_waits_for_the_apply() -> None:
    fleet = act(SCENARIOS["deletion during apply"].play)
    assert fleet.terraform.infrastructure.keys() == {("default", "a"), ("default", "b")}


def test_a_deletion_gives_up_an_apply_whose_pod_never_starts() -> None:
    """The image is gone between plan and apply, and the Workspace is deleted meanwhile."""

    async def scene(fleet: Fleet) -> None:
        fleet.users.project()
        fleet.users.workspace("a")
        fleet.commit()
        await fleet.at_work("a", JobType.PLAN)
        fleet.kubelet.starts = False
        await fleet.until(lambda: bool(runner_pods(fleet, "a", JobType.APPLY)), "the pod of the apply")
        fleet.users.delete(WORKSPACES, "a")
        await anyio.sleep(60)
        found = fleet.users.find("a")
        assert found is not None
        assert (found.status.phase, "ImagePullBackOff" in found.status.message) == ("Deleting", True)
        await fleet.phase("gone", "a", within=180)
        await fleet.quiet()
        assert not fleet.infrastructure("a")
        assert not fleet.items("pods")

    act(scene)


def test_what_happens_during_an_apply_waits_for_its_end() -> None:
    async def scene(fleet: Fleet) -> None:
        fleet.terraform.slow["a"] = 60.0
        fleet.users.project()
        fleet.users.workspace("a")
        fleet.commit()
        await fleet.at_work("a", JobType.APPLY)
        first = fleet.pinned("a")
        fleet.commit()
        fleet.users.annotate("a", reconcile_request="now", execution_allowed=None)
        fleet.users.edit("a", terraform={"version": "1.9.9"})
        await anyio.sleep(20)
        assert fleet.pinned("a") == first
        assert fleet.phase_of("a") == "Applying"
        await fleet.until(lambda: ("default", "a") in fleet.terraform.infrastructure)
        assert fleet.terraform.applied[0] == (("default", "a"), first)

    act(scene)


def test_a_plan_is_applied_with_its_own_digest() -> None:
    fleet = act(SCENARIOS["first run"].play)
    applied = [each for each in fleet.history.records if isinstance(each, ToolStarted) and each.digest]
    assert len(applied) == 1


def test_a_new_rollout_is_seen_before_the_project_grants() -> None:
    """The watch of Rollouts is held up; the live read right before the grant is not."""

    async def scene(fleet: Fleet) -> None:
        fleet.users.project()
        fleet.users.workspace("dev", labels={"step": "dev"})
        await anyio.sleep(1.0)
        for watch in fleet.server.watches:
            if watch.request.resource.plural == "rollouts":
                watch.hold()
        fleet.users.rollout(*STEPS[:1])
        fleet.commit()
        await anyio.sleep(30)

    assert halves(act(scene, PAIR), "dev") == []


def test_a_leader_that_was_cut_off_writes_nothing_when_it_is_back() -> None:
    """Its successor leads; whatever the old one had begun is fenced or conditional."""

    fleet = play(lambda: Fleet(3, programs=PAIR, election=True), SCENARIOS["leader changes"].play, seed=3)
    assert not fleet.violations()
    assert halves(fleet) == ["plan", "apply"]


def _run_id(fleet: Fleet) -> str:
    found = fleet.users.find("a")
    return found.status.current_run_id if found is not None else ""


def _reason_of(users: Users) -> str:
    found = users.find("a")
    return found.status.reason if found is not None else ""


def _reason(fleet: Fleet, name: str = "prod") -> str:
    found = fleet.users.find(name)
    return found.status.reason if found is not None else ""


def _promotion(fleet: Fleet) -> None:
    fleet.users.project()
    fleet.users.rollout(STEPS[0], STEPS[2])
    for name in ("dev", "prod"):
        fleet.users.workspace(name, labels={"step": name})


def _foreign_pod(fleet: Fleet, name: str) -> None:
    """A pod that carries our label and never ends: its node does not exist."""
    labels = {"magosproject.io/workspace": name}
    spec = {"containers": [{"name": "x", "image": "x"}], "nodeName": "elsewhere"}
    fleet.adversary.create(PODS, "stranger", metadata={"labels": labels}, spec=spec)
