"""The canonical scenes: what people and Git do, and until when. They wait for states, never for times alone.

Each scene ends in a state that does not depend on when the controllers noticed what: that is what a crash at any step
must not change.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from magos.api.kube import JOBS
from magos.api.names import JobType
from magos.api.rollout import ROLLOUTS
from magos.api.workspace import WORKSPACES
from tests.sim.fleet.cluster import Fleet
from tests.sim.fleet.users import URL

__all__ = ["SCENARIOS", "Scenario"]

Scene = Callable[[Fleet], Awaitable[None]]


@dataclass(frozen=True)
class Scenario:
    """A scene and the controllers it needs; ``elections`` are the ways it can be played, with and without."""

    name: str
    play: Scene
    programs: tuple[str, ...] = ("workspace", "project")
    elections: tuple[bool, ...] = (False, True)


def _start(fleet: Fleet, *names: str, **spec: Any) -> None:
    fleet.users.project()
    for name in names:
        fleet.users.workspace(name, labels={"step": name}, **spec)
    fleet.commit()


async def first_run(fleet: Fleet) -> None:
    """From nothing to Applied."""
    fleet.git.push(URL)
    fleet.users.project()
    fleet.users.workspace("a")
    await fleet.phase("Applied", "a")
    await fleet.quiet()


async def _news_while(fleet: Fleet, half: JobType) -> None:
    _start(fleet, "a")
    await fleet.at_work("a", half)
    sha = fleet.commit()
    await fleet.until(lambda: fleet.observed("a") == sha, "the second commit")
    await fleet.quiet()


async def commit_during_plan(fleet: Fleet) -> None:
    """A commit arrives while an earlier one is planned: it causes its own run."""
    await _news_while(fleet, JobType.PLAN)


async def commit_during_apply(fleet: Fleet) -> None:
    """A commit arrives while an earlier one is applied: it causes its own run."""
    await _news_while(fleet, JobType.APPLY)


async def approval(fleet: Fleet) -> None:
    """A gated plan is approved; an approval given too early has no effect."""
    _start(fleet, "a", autoApply=False)
    await fleet.at_work("a", JobType.PLAN)
    found = fleet.users.find("a")
    fleet.users.annotate("a", approved=found.status.current_run_id if found else None)
    await fleet.until(lambda: fleet.gated("a"), "the gate")
    await fleet.quiet()
    fleet.users.approve("a")
    await fleet.phase("Applied", "a")
    await fleet.quiet()


async def discard(fleet: Fleet) -> None:
    """A new commit replaces the plan that waits for approval."""
    _start(fleet, "a", autoApply=False, discardStalePlan=True)
    await fleet.until(lambda: fleet.gated("a"), "the gate")
    sha = fleet.commit()
    await fleet.until(lambda: fleet.gated("a") and fleet.pinned("a") == sha, "the second gate")
    await fleet.quiet()
    fleet.users.approve("a")
    await fleet.until(lambda: fleet.observed("a") == sha, "the second commit")
    await fleet.quiet()


async def account_taken_after_the_plan(fleet: Fleet) -> None:
    """The ServiceAccount loses its label while the plan is made: the plan waits, and is applied with the label."""
    _start(fleet, "a")
    await fleet.at_work("a", JobType.PLAN)
    fleet.users.account(runner=False)
    await fleet.reason("ServiceAccountNotAllowed", "a")
    await fleet.quiet()
    fleet.users.account(runner=True)
    await fleet.phase("Applied", "a")
    await fleet.quiet()


async def request_after_failure(fleet: Fleet) -> None:
    """A plan that fails is repeated on request, and the request is consumed."""
    fleet.users.project()
    fleet.users.workspace("a")
    fleet.commit(plan_fails=frozenset({"a"}))
    await fleet.phase("Failed", "a")
    await fleet.quiet()
    sha = fleet.commit()
    fleet.users.annotate("a", reconcile_request="again")
    await fleet.until(lambda: fleet.observed("a") == sha, "the repair")
    await fleet.quiet()


async def edit_during_plan(fleet: Fleet) -> None:
    """The spec changes while it is planned: the plan is discarded, the next one is of the new spec."""
    _start(fleet, "a")
    await fleet.at_work("a", JobType.PLAN)
    fleet.users.edit("a", terraform={"version": "1.9.9"})
    await fleet.until(lambda: fleet.phase_of("a") == "Applied" and fleet.current("a"), "the new spec")
    await fleet.quiet()


async def job_deleted_by_a_person(fleet: Fleet) -> None:
    """Somebody deletes the Job of a plan at work, which status has told of, and asks for it again."""
    fleet.terraform.slow["a"] = 40.0
    _start(fleet, "a")
    await fleet.at_work("a", JobType.PLAN)
    await fleet.phase("Planning", "a")
    found = fleet.users.find("a")
    if found is not None and found.status.current_run is not None:
        fleet.users.delete(JOBS, found.status.current_run.plan_job)
    await fleet.reason("Interrupted", "a")
    fleet.users.annotate("a", reconcile_request="again")
    await fleet.phase("Applied", "a")
    await fleet.quiet()


async def deletion_during_apply(fleet: Fleet) -> None:
    """A Workspace is deleted while it applies; a second one stays."""
    _start(fleet, "a", "b")
    await fleet.at_work("a", JobType.APPLY)
    fleet.users.delete(WORKSPACES, "a")
    await fleet.phase("gone", "a")
    await fleet.phase("Applied", "b")
    await fleet.quiet()


async def force_delete(fleet: Fleet) -> None:
    """The deletion does not wait for the apply."""
    fleet.terraform.slow["a"] = 60.0
    _start(fleet, "a")
    await fleet.at_work("a", JobType.APPLY)
    fleet.users.delete(WORKSPACES, "a")
    fleet.users.annotate("a", force_delete="true")
    await fleet.phase("gone", "a")
    await fleet.until(lambda: not fleet.items("pods"), "the pod's end")
    await fleet.quiet()


async def watch_loss_with_deletes(fleet: Fleet) -> None:
    """All watches break and the history is gone while objects are deleted."""
    fleet.terraform.slow.update(a=300.0, b=300.0)  # so that neither is over before the other begins, faults or not
    _start(fleet, "a", "b")
    await fleet.until(lambda: fleet.working("a", JobType.PLAN) and fleet.working("b", JobType.PLAN), "both plans")
    for watch in fleet.server.watches:
        watch.lossy = True
    fleet.users.delete(WORKSPACES, "b")
    fleet.server.store.compact()
    fleet.server.disconnect()
    await fleet.phase("Applied", "a")
    await fleet.phase("gone", "b")
    await fleet.until(lambda: not [pod for pod in fleet.items("pods") if "deletionTimestamp" in pod["metadata"]])
    await fleet.quiet()


async def leader_changes(fleet: Fleet) -> None:
    """The leader ends cleanly while a plan runs, and is cut off while the apply runs."""
    _start(fleet, "a")
    await fleet.at_work("a", JobType.PLAN)
    fleet.leader("workspace").terminate()
    await fleet.at_work("a", JobType.APPLY)
    fleet.leader("workspace").partition()
    await fleet.phase("Applied", "a")
    await fleet.quiet()


_STEPS = tuple((name, {"step": name}) for name in ("dev", "stage", "prod"))


async def rollout_with_failure(fleet: Fleet) -> None:
    """Three steps; the middle one fails, the fix is promoted through all."""
    fleet.users.rollout(*_STEPS)
    fleet.users.project()
    for name, _ in _STEPS:
        fleet.users.workspace(name, labels={"step": name})
    fleet.commit(apply_fails=frozenset({"stage"}))
    await fleet.phase("Failed", "stage")
    await fleet.quiet()
    sha = fleet.commit()
    await fleet.until(lambda: all(fleet.observed(name) == sha for name, _ in _STEPS), "the promotion")
    await fleet.quiet()


async def drift_during_a_pass(fleet: Fleet) -> None:
    """The first step is due for its check while the second applies a commit: it waits for the next pass."""
    fleet.users.project()
    fleet.users.rollout(*_STEPS[:2])
    for name, _ in _STEPS[:2]:
        fleet.users.workspace(name, labels={"step": name})
    fleet.terraform.slow["stage"] = 60.0
    fleet.commit()
    await fleet.at_work("stage", JobType.PLAN)
    fleet.terraform.drift(("default", "dev"))
    fleet.users.annotate("dev", reconcile_interval="20s")
    await fleet.until(lambda: fleet.phase_of("dev") == "Pending", "the check of dev")
    fleet.users.annotate("dev", reconcile_interval=None)
    await fleet.phase("Applied", "dev", "stage")
    await fleet.quiet()


async def handover(fleet: Fleet) -> None:
    """A Rollout takes over from the Project while a run is on its way, and gives back."""
    _start(fleet, "dev", "stage")
    await fleet.at_work("dev", JobType.PLAN)
    fleet.users.rollout(*_STEPS[:2])
    await fleet.phase("Applied", "dev", "stage")
    await fleet.quiet()
    fleet.users.delete(ROLLOUTS, "platform")
    sha = fleet.commit()
    await fleet.until(lambda: all(fleet.observed(name) == sha for name in ("dev", "stage")), "the second commit")
    await fleet.quiet()


async def variables_rotated_in_the_gate(fleet: Fleet) -> None:
    """A Secret changes while the plan waits: the plan is applied as it was made, then the new value is planned."""
    fleet.users.secret("credentials", token="old")
    reference = {"secretKeyRef": {"name": "credentials", "key": "token"}}
    fleet.users.variable_set("shared", [{"name": "token", "valueFrom": reference}])
    _start(fleet, "a", autoApply=False, variableSetRef=[{"name": "shared"}])
    await fleet.until(lambda: fleet.gated("a"), "the gate")
    await fleet.quiet()
    fleet.users.secret("credentials", token="new")
    await fleet.quiet()
    fleet.users.approve("a")
    await fleet.until(lambda: fleet.infrastructure("a").endswith("=old"), "the apply of what was planned")
    await fleet.until(lambda: fleet.gated("a"), "the second gate")
    await fleet.quiet()
    fleet.users.approve("a")
    await fleet.until(lambda: fleet.infrastructure("a").endswith("=new"), "the new value")
    await fleet.phase("Applied", "a")
    await fleet.quiet()


async def commits_noticed_by_refwatcher(fleet: Fleet) -> None:
    """Nobody tells of commits; the branch moves on, back, and on again."""
    first = fleet.git.push(URL)
    fleet.users.project()
    fleet.users.workspace("a")
    fleet.users.annotate("a", git_poll_interval="5s")
    await fleet.until(lambda: fleet.observed("a") == first, "the first commit")
    second = fleet.git.push(URL)
    await fleet.until(lambda: fleet.observed("a") == second, "the second commit")
    fleet.git.force(URL, "main", first)
    await fleet.until(lambda: fleet.observed("a") == first, "the first commit again")
    await fleet.quiet()


_ALL = ("workspace", "project", "rollout")

SCENARIOS: Mapping[str, Scenario] = MappingProxyType(
    {
        scenario.name: scenario
        for scenario in (
            Scenario("first run", first_run),
            Scenario("commit during plan", commit_during_plan),
            Scenario("commit during apply", commit_during_apply),
            Scenario("approval", approval),
            Scenario("discard", discard),
            Scenario("account taken after the plan", account_taken_after_the_plan),
            Scenario("request after failure", request_after_failure),
            Scenario("edit during plan", edit_during_plan),
            Scenario("job deleted by a person", job_deleted_by_a_person),
            Scenario("deletion during apply", deletion_during_apply),
            Scenario("force-delete", force_delete),
            Scenario("watch loss with deletes", watch_loss_with_deletes),
            Scenario("leader changes", leader_changes, elections=(True,)),
            Scenario("rollout with failure", rollout_with_failure, _ALL),
            Scenario("drift during a pass", drift_during_a_pass, _ALL),
            Scenario("handover", handover, _ALL),
            Scenario(
                "variables rotated in the gate",
                variables_rotated_in_the_gate,
                ("workspace", "project", "variableset"),
            ),
            Scenario(
                "commits noticed by RefWatcher",
                commits_noticed_by_refwatcher,
                ("workspace", "project", "refwatcher"),
            ),
        )
    }
)
"""By name."""
