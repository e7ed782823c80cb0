"""The process dies at every single step of a run, before or after it: the end is the same (invariant I14)."""

import pytest

from magos.api.kube import JOBS
from magos.api.meta import ObjectMeta
from magos.api.names import JobType
from magos.api.phases import Phase
from magos.api.project import PROJECTS, Project
from magos.api.workspace import WORKSPACES, Workspace
from magos.runtime.decision import Decision, Effect, StatusPatch
from tests.unit.reconcilers.cluster import Cluster
from tests.unit.reconcilers.model import NAMESPACE, OTHER_SHA, SHA, Crash, workspace_manifest
from tests.unit.reconcilers.results import apply_result, failed, plan_result


class Dying(Cluster):
    """Dies once, at the given step, ``after`` it was carried out or before."""

    def __init__(self, point: int, *, after: bool) -> None:
        super().__init__()
        self.point = point
        self.after = after
        self.steps = 0

    @property
    def died(self) -> bool:
        return self.steps > self.point

    def _carry_out(self, step: StatusPatch | Effect, moved: dict[str, str]) -> None:
        due = self.steps == self.point
        self.steps += 1
        if due and not self.after:
            raise Crash
        super()._carry_out(step, moved)
        if due:
            raise Crash

    def step(self, *, project: bool = False) -> Decision:
        try:
            return super().step(project=project)
        except Crash:
            return super().step(project=project)


def orchestrate(model: Cluster) -> None:
    model.advance(seconds=5)
    before = -1
    while before != model.versions:
        before = model.versions
        model.settle(project=True)
        model.settle()


def story(model: Cluster) -> None:
    """A first run, a commit that fails, its retry by request, a spec edit before the apply, and the end."""
    model.put(PROJECTS, Project(metadata=ObjectMeta(name="platform", namespace=NAMESPACE)))
    model.put(WORKSPACES, workspace_manifest())
    model.annotate(detected_revision=SHA)
    orchestrate(model)
    model.run_job(JobType.PLAN, plan_result(model))
    orchestrate(model)
    model.run_job(JobType.APPLY, apply_result(model))
    orchestrate(model)
    model.annotate(detected_revision=OTHER_SHA)
    orchestrate(model)
    model.run_job(JobType.PLAN, failed(model, JobType.PLAN, "PlanFailed", "broken"))
    orchestrate(model)
    model.annotate(reconcile_request="again")
    orchestrate(model)
    model.edit(service_account_name="other")
    model.run_job(JobType.PLAN, plan_result(model))
    orchestrate(model)
    model.run_job(JobType.PLAN, plan_result(model))
    orchestrate(model)
    model.run_job(JobType.APPLY, apply_result(model))
    orchestrate(model)


def essence(workspace: Workspace) -> tuple[object, ...]:
    status = workspace.status
    return (
        status.phase,
        status.reason,
        status.observed_revision,
        status.last_attempted_revision,
        status.last_handled_reconcile_request,
        status.plan_summary,
        dict(workspace.metadata.annotations),
    )


def steps_of_the_story() -> int:
    model = Dying(10_000, after=False)
    story(model)
    return model.steps


STEPS = steps_of_the_story()


@pytest.mark.parametrize("after", [False, True])
def test_death_at_any_step_changes_nothing_but_the_time(after: bool) -> None:
    undisturbed = Cluster()
    story(undisturbed)
    assert undisturbed.workspace.status.phase is Phase.APPLIED
    assert undisturbed.workspace.status.observed_revision == OTHER_SHA
    assert STEPS > 40
    for point in range(STEPS):
        model = Dying(point, after=after)
        story(model)
        assert model.died
        assert essence(model.workspace) == essence(undisturbed.workspace), point
        assert len(model.created_jobs) == len(undisturbed.created_jobs) == 6, point
        assert len(model.all(JOBS)) == len(undisturbed.all(JOBS)), point
