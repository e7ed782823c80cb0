"""The process dies at every single step of a run, before or after it: the end is the same (invariant I14)."""

from collections.abc import Callable
from typing import TypeAlias

import pytest

from magos.api.kube import CONFIG_MAPS, JOBS
from magos.api.meta import ObjectMeta
from magos.api.names import JobType
from magos.api.phases import Phase
from magos.api.project import PROJECTS, Project
from magos.api.selectors import LabelSelector
from magos.api.status import NameReference
from magos.api.validatingpolicy import VALIDATING_POLICIES, ValidatingPolicy
from magos.api.variableset import (
    VARIABLESETS,
    SourceKind,
    VariableSet,
    VariableSetSpec,
    VariableSetStatus,
    VariableSource,
)
from magos.api.workspace import WORKSPACES, Validation, Workspace
from magos.runtime.decision import Decision, Effect, StatusPatch
from tests.unit.reconcilers.cluster import Cluster
from tests.unit.reconcilers.model import NAMESPACE, OTHER_SHA, SHA, Crash, workspace_manifest
from tests.unit.reconcilers.results import apply_result, failed, plan_result
from tests.unit.reconcilers.variablesets import secret

Story: TypeAlias = Callable[[Cluster], None]
SETS = (NameReference(name="inputs"),)
JSON_MODE = {"evaluation": {"mode": "JSON"}}


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
    model.settle(project=True)  # which finds no Rollout
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


def story_with_inputs(model: Cluster) -> None:
    """A gated plan with variables and policies, an approval after a rotation, and the run that the rotation causes."""
    model.put(VARIABLESETS, variable_set(1))
    model.put(VALIDATING_POLICIES, ValidatingPolicy(metadata=ObjectMeta(name="cost"), spec=JSON_MODE))
    model.put(PROJECTS, Project(metadata=ObjectMeta(name="platform", namespace=NAMESPACE)))
    validation = Validation(policy_selector=LabelSelector())
    model.put(WORKSPACES, workspace_manifest(auto_apply=False, variable_set_ref=SETS, validation=validation))
    model.annotate(detected_revision=SHA)
    orchestrate(model)
    model.run_job(JobType.PLAN, plan_result(model))
    orchestrate(model)
    model.put(VARIABLESETS, variable_set(2))
    orchestrate(model)
    model.annotate(approved=model.workspace.status.current_run_id)
    orchestrate(model)
    model.run_job(JobType.APPLY, apply_result(model))
    orchestrate(model)
    model.put(
        VALIDATING_POLICIES, ValidatingPolicy(metadata=ObjectMeta(name="cost"), spec={**JSON_MODE, "validations": []})
    )
    model.run_job(JobType.PLAN, plan_result(model, has_changes=False))
    orchestrate(model)
    model.annotate(reconcile_request="again")
    orchestrate(model)
    model.run_job(JobType.PLAN, plan_result(model, has_changes=False))
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
        status.current_run.variables_fingerprint if status.current_run is not None else "",
        dict(workspace.metadata.annotations),
    )


def variable_set(version: int) -> VariableSet:
    source = VariableSource(kind=SourceKind.SECRET, name="db", content_version=str(version))
    status = VariableSetStatus(phase=Phase.READY, observed_generation=1, sources=(source,))
    meta = ObjectMeta(name="inputs", namespace=NAMESPACE, generation=1)
    return VariableSet(metadata=meta, spec=VariableSetSpec(variables=(secret("a", "db", "k"),)), status=status)


def steps_of(told: Story) -> int:
    model = Dying(10_000, after=False)
    told(model)
    return model.steps


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(("told", "revision", "jobs"), [(story, OTHER_SHA, 6), (story_with_inputs, SHA, 4)])
def test_death_at_any_step_changes_nothing_but_the_time(told: Story, revision: str, jobs: int, after: bool) -> None:
    undisturbed = Cluster()
    told(undisturbed)
    assert undisturbed.workspace.status.phase is Phase.APPLIED
    assert undisturbed.workspace.status.observed_revision == revision
    steps = steps_of(told)
    assert steps > 35
    for point in range(steps):
        model = Dying(point, after=after)
        told(model)
        assert model.died
        assert essence(model.workspace) == essence(undisturbed.workspace), point
        assert len(model.created_jobs) == len(undisturbed.created_jobs) == jobs, point
        for kind in (JOBS, CONFIG_MAPS):
            assert len(model.all(kind)) == len(undisturbed.all(kind)), (point, kind)
