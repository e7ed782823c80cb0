"""Variables are promoted in order (I7, spec §6.4 rule 8): between members that use one VariableSet."""

from typing import Any

import pytest
from msgspec.structs import replace

from magos.api.kube import JOBS
from magos.api.meta import ObjectMeta
from magos.api.phases import Phase
from magos.api.project import PROJECTS, Project, ProjectSpec
from magos.api.status import NameReference
from magos.api.triggers import Trigger
from magos.api.variableset import VARIABLESETS, VariableSet, VariableSetSpec, VariableSetStatus
from magos.api.workspace import WORKSPACES, ObservedVariables, Source, UsedVariableSet, Workspace
from magos.reconcilers.permission import permitted
from magos.reconcilers.workspace.inputs.layers import Layer
from magos.reconcilers.workspace.inputs.variables import Composition, compose
from tests.unit.reconcilers.cluster import Cluster
from tests.unit.reconcilers.fleet import PROJECT, Fleet, applied, member, rollout
from tests.unit.reconcilers.model import NAME, NAMESPACE, SHA, workspace_manifest
from tests.unit.reconcilers.variablesets import literal

SHARED = (NameReference(name="shared"),)
ELSEWHERE = Source(repo_url="https://git.example.com/other.git", target_revision="main")


def uses(digest: str, name: str = "shared", *, inherited: bool = False) -> UsedVariableSet:
    return UsedVariableSet(name=name, digest=digest, inherited=inherited)


def observing(workspace: Workspace, *sets: UsedVariableSet) -> Workspace:
    status = replace(workspace.status, observed_variables=ObservedVariables(fingerprint="f", sets=sets))
    return replace(workspace, status=status)


def taking(workspace: Workspace, *sets: UsedVariableSet) -> Workspace:
    run = workspace.status.current_run
    assert run is not None
    return replace(workspace, status=replace(workspace.status, current_run=replace(run, variable_sets=sets)))


def dev(*sets: UsedVariableSet, **spec: Any) -> Workspace:
    return observing(applied("d", "dev", **{"variable_set_ref": SHARED, **spec}), *sets)


def prod(*sets: UsedVariableSet, phase: Phase = Phase.PENDING, trigger: Trigger = Trigger.VARIABLES) -> Workspace:
    return taking(member("p", "prod", phase, trigger=trigger, observed=SHA, variable_set_ref=SHARED), *sets)


def judge(*members: Workspace) -> Fleet:
    fleet = Fleet(rollout("dev", "prod"), members)
    fleet.settle()
    return fleet


WAITS = "p waits: VariableSet shared, as its run takes it, is not yet applied by d"


def test_changed_variables_reach_a_later_step_after_the_earlier_ones_have_applied_them() -> None:
    fleet = judge(dev(uses("old")), prod(uses("new")))
    assert fleet.allowed == set()
    assert WAITS in fleet.rollout.status.message
    assert fleet.rollout.status.message.endswith("by d.")
    fleet.set(dev(uses("new")))
    fleet.settle()
    assert fleet.allowed == {"p"}


@pytest.mark.parametrize("dev_uses", [(), SHARED])
def test_a_set_of_the_project_is_everybodys_before_everybody_has_noticed(dev_uses: tuple[NameReference, ...]) -> None:
    fleet = judge(dev(variable_set_ref=dev_uses), prod(uses("new", inherited=True)))
    assert fleet.allowed == set()
    assert WAITS in fleet.rollout.status.message


def test_a_set_is_shared_across_repositories() -> None:
    assert judge(dev(uses("old"), source=ELSEWHERE), prod(uses("new"))).allowed == set()


def test_a_set_that_no_earlier_member_uses_holds_nobody_up() -> None:
    other = dev(uses("x", "other"), variable_set_ref=(NameReference(name="other"),))
    assert judge(other, prod(uses("new"))).allowed == {"p"}


def test_the_cause_of_the_run_does_not_matter() -> None:
    for trigger in Trigger:
        assert judge(dev(uses("old")), prod(uses("new"), trigger=trigger)).allowed == set()
        assert judge(dev(uses("new")), prod(uses("new"), trigger=trigger)).allowed == {"p"}


def test_a_plan_with_other_variables_than_are_applied_before_it_waits_and_says_what_to_do() -> None:
    fleet = judge(dev(uses("newer")), prod(uses("new"), phase=Phase.PLANNED))
    assert fleet.allowed == set()
    assert f"{WAITS}; if its plan is older than that, request a reconcile of it" in fleet.rollout.status.message


def test_a_member_that_has_not_recorded_its_first_run_waits_for_that() -> None:
    fleet = judge(dev(uses("new")), member("p", "prod", source=ELSEWHERE, variable_set_ref=SHARED))
    assert fleet.allowed == set()
    assert "p waits: the workspace controller has not recorded its run yet" in fleet.rollout.status.message


def test_without_a_record_an_applied_member_is_waited_for_and_no_other_one() -> None:
    unknown = applied("d", "dev", variable_set_ref=SHARED)
    assert judge(unknown, prod(uses("new"))).allowed == set()
    gated = member(
        "d", "dev", Phase.PLANNED, trigger=Trigger.SCHEDULED, observed=SHA, gated=True, variable_set_ref=SHARED
    )
    assert judge(gated, prod(uses("new"))).allowed == {"p"}
    assert judge(unknown, prod()).allowed == {"p"}, "a run that an earlier version recorded"


def test_a_scheduled_run_that_is_to_apply_the_set_is_let_through_first() -> None:
    """Its set cannot be resolved, so no changed variables make it urgent; both would wait for each other."""
    fleet = judge(dev(uses("old")), prod(uses("new")))
    assert (fleet.allowed, fleet.rollout.status.current_step) == (set(), 1)
    drifting = member("d", "dev", Phase.PENDING, trigger=Trigger.SCHEDULED, observed=SHA, variable_set_ref=SHARED)
    fleet.set(observing(drifting, uses("old")))
    fleet.settle()
    assert fleet.allowed == {"d"}
    assert fleet.rollout.status.current_step == 0
    fleet.set(dev(uses("new")))
    fleet.settle()
    assert fleet.allowed == {"p"}


# --- with the workspace controller ------------------------------------------------------------------------------------


class Together:
    """One state under both controllers; ``NAME`` is in step prod behind ``d``, which has applied the first value."""

    def __init__(self, *, inherited: bool) -> None:
        refs = () if inherited else SHARED
        made = workspace_manifest(NAME, variable_set_ref=refs)
        last = replace(made, metadata=replace(made.metadata, labels={"stage": "prod"}))
        self.refs = refs
        self.rollout = Fleet(rollout("dev", "prod"), [applied("d", "dev", variable_set_ref=refs), last])
        self.workspace = Cluster()
        self.workspace.state = self.rollout.state
        self.workspace.versions = 1000  # so that no version is given twice
        spec = ProjectSpec(variable_set_ref=SHARED if inherited else ())
        self.workspace.put(PROJECTS, Project(metadata=ObjectMeta(name=PROJECT, namespace=NAMESPACE), spec=spec))
        self.change("1")
        self.first_takes("1")
        self.workspace.annotate(detected_revision=SHA)

    def change(self, value: str) -> None:
        self.workspace.put(VARIABLESETS, shared(value))

    def first_takes(self, value: str) -> None:
        taken = compose([Layer(name="shared", found=shared(value))], [])
        assert isinstance(taken, Composition)
        self.rollout.set(observing(applied("d", "dev", variable_set_ref=self.refs), *taken.sets))

    def settle(self) -> None:
        for _ in range(3):
            self.workspace.settle()
            self.rollout.settle()
        self.workspace.settle()


def shared(value: str) -> VariableSet:
    return VariableSet(
        metadata=ObjectMeta(name="shared", namespace=NAMESPACE, generation=1),
        spec=VariableSetSpec(variables=(literal("size", value),)),
        status=VariableSetStatus(phase=Phase.READY, observed_generation=1),
    )


@pytest.mark.parametrize("inherited", [False, True])
def test_a_later_step_that_notices_a_change_first_waits_all_the_same(inherited: bool) -> None:
    both = Together(inherited=inherited)
    both.change("2")
    both.settle()
    assert both.workspace.all(JOBS) == []
    assert f"{NAME} waits: VariableSet shared" in both.rollout.rollout.status.message
    both.first_takes("2")
    both.settle()
    assert len(both.workspace.created_jobs) == 1


@pytest.mark.parametrize("inherited", [False, True])
def test_variables_that_change_after_the_grant_are_not_taken_by_it(inherited: bool) -> None:
    both = Together(inherited=inherited)
    both.workspace.settle()
    both.rollout.settle()
    assert both.rollout.allowed == {NAME}
    both.change("2")
    both.workspace.settle()
    assert not permitted(both.workspace.workspace)
    both.settle()
    assert both.workspace.all(JOBS) == []
    both.first_takes("2")
    both.settle()
    assert len(both.workspace.created_jobs) == 1


def test_without_a_project_variables_that_change_after_the_grant_are_not_taken_by_it() -> None:
    both = Together(inherited=False)
    both.workspace.remove(PROJECTS, PROJECT)
    both.workspace.settle()
    both.rollout.settle()
    both.change("2")
    both.settle()
    assert both.workspace.all(JOBS) == []
    run = both.rollout.get(WORKSPACES, NAME).status.current_run
    assert run is not None
    assert run.variable_sets != ()
    both.first_takes("2")
    both.settle()
    assert len(both.workspace.created_jobs) == 1
