"""VariableSets in the life of a run: the checks of the start, the fingerprint, the trigger, the gate, the apply."""

from typing import Any

import pytest
from msgspec.structs import replace

from magos.api.annotations import EXECUTION_ALLOWED
from magos.api.kube import JOBS
from magos.api.meta import ObjectMeta
from magos.api.names import JobType
from magos.api.phases import Phase
from magos.api.project import PROJECTS, Project, ProjectSpec
from magos.api.reasons import Reason, ReferenceProblem
from magos.api.status import NameReference
from magos.api.variableset import (
    VARIABLESETS,
    SourceKind,
    UnresolvedReference,
    Variable,
    VariableSet,
    VariableSetSpec,
    VariableSetStatus,
    VariableSource,
)
from magos.api.workspace import WORKSPACES, CurrentRun
from magos.runtime.decision import QueryFailure
from tests.unit.reconcilers.cluster import Cluster
from tests.unit.reconcilers.model import NAMESPACE, Crash, workspace_manifest
from tests.unit.reconcilers.results import apply_result, environment_of, failed, plan_result, reasons
from tests.unit.reconcilers.variablesets import literal, secret

OWN = (NameReference(name="inputs"),)
USES_SET: dict[str, Any] = {"variable_set_ref": OWN}
PASSWORD = secret("password", "db", "password")


def put_set(model: Cluster, *variables: Variable, name: str = "inputs", version: str = "5", **status: Any) -> None:
    """A set as its controller leaves it, or with another ``status``."""
    fields: dict[str, Any] = {
        "phase": Phase.READY,
        "observed_generation": 1,
        "sources": (
            VariableSource(kind=SourceKind.SECRET, name="db", resource_version=version, content_version=version),
        ),
    }
    meta = ObjectMeta(name=name, namespace=NAMESPACE, generation=1)
    found = VariableSet(
        metadata=meta, spec=VariableSetSpec(variables=variables), status=VariableSetStatus(**{**fields, **status})
    )
    model.put(VARIABLESETS, found)


def unresolved(model: Cluster) -> None:
    missing = UnresolvedReference(
        kind=SourceKind.SECRET, name="db", key="password", reason=ReferenceProblem.KEY_NOT_FOUND
    )
    put_set(model, PASSWORD, phase=Phase.FAILED, unresolved_references=(missing,))


def cluster(*variables: Variable) -> Cluster:
    model = Cluster()
    put_set(model, *variables)
    return model


def granted(model: Cluster, **spec: Any) -> Cluster:
    model.put(PROJECTS, Project(metadata=ObjectMeta(name="platform", namespace=NAMESPACE)))
    model.add_workspace(**{**USES_SET, **spec})
    model.annotate(execution_allowed="true")
    model.settle()
    return model


def grant_again(model: Cluster) -> None:
    """Permission was given for other variables than the run takes, so it went."""
    assert EXECUTION_ALLOWED not in model.workspace.metadata.annotations
    assert model.created_jobs == []
    model.annotate(execution_allowed="true")
    model.settle()


def run(model: Cluster) -> CurrentRun:
    found = model.workspace.status.current_run
    assert found is not None
    return found


def outcome(model: Cluster) -> tuple[Phase | None, str]:
    return model.workspace.status.phase, model.workspace.status.reason


def variables_of(model: Cluster, number: int = -1) -> set[str]:
    """The names of the Terraform variables that a created Job hands on."""
    found = environment_of(model.created_jobs[number], "terraform")
    return {name.removeprefix("TF_VAR_") for name in found if name.startswith("TF_VAR_")}


# --- the start --------------------------------------------------------------------------------------------------------


def test_only_the_stage_terraform_gets_the_variables_and_status_tells_of_them_without_values() -> None:
    model = granted(cluster(literal("greeting", "costs $(HOME) $5"), PASSWORD))
    manifest = model.created_jobs[0]
    found = environment_of(manifest, "terraform")
    assert found["TF_VAR_greeting"].value == "costs $$(HOME) $$5"
    source = found["TF_VAR_password"].value_from
    assert source is not None
    assert source.secret_key_ref is not None
    assert (source.secret_key_ref.name, source.secret_key_ref.key) == ("db", "password")
    assert found["MAGOS_REDACT_ENV"].value == "TF_VAR_password"
    for stage in ("fetch", "render", "job"):
        assert not [name for name in environment_of(manifest, stage) if name.startswith("TF_VAR_")]
    # Stages that show or judge the plan mask what it has of these variables: they know the names, not the values.
    assert {
        stage
        for stage in ("fetch", "terraform", "render", "job")
        if "MAGOS_REDACT_ENV" in environment_of(manifest, stage)
    } == {
        "terraform",
        "render",
        "job",
    }
    used = {each.name: each.source for each in run(model).variables}
    assert used == {"greeting": "VariableSet/inputs", "password": "Secret/db password"}
    assert run(model).variables_fingerprint.startswith("sha256:")
    assert "costs" not in str(model.workspace.status)


def test_the_inputs_are_in_status_before_the_job_exists() -> None:
    model = cluster(PASSWORD)
    model.add_workspace(**USES_SET)  # there is no Project, so nobody takes the change for one
    put_set(model, PASSWORD, version="6")
    model.annotate(execution_allowed="true")
    model.crash_after = 1
    with pytest.raises(Crash):
        model.step()
    assert [each.version for each in run(model).variables] == ["6"]
    assert model.created_jobs == []
    model.crash_after = None
    model.settle()
    assert len(model.created_jobs) == 1


def test_what_a_job_was_created_with_wins_over_what_status_says() -> None:
    model = granted(cluster(PASSWORD))
    status, before = model.workspace.status, run(model).variables_fingerprint
    other = replace(run(model), variables_fingerprint="sha256:other")
    model.put(WORKSPACES, replace(model.workspace, status=replace(status, phase=Phase.PENDING, current_run=other)))
    model.settle()
    assert outcome(model)[0] is Phase.PLANNING
    assert run(model).variables_fingerprint == before
    assert run(model).variables == ()


def test_sets_of_the_project_come_first_and_the_workspace_overrides_them() -> None:
    model = cluster(literal("size", "own"))
    put_set(model, literal("size", "inherited"), literal("region", "eu"), name="common")
    spec = ProjectSpec(variable_set_ref=(NameReference(name="common"),))
    model.put(PROJECTS, Project(metadata=ObjectMeta(name="platform", namespace=NAMESPACE), spec=spec))
    model.add_workspace(variable_set_ref=OWN)
    model.annotate(execution_allowed="true")
    model.settle()
    found = environment_of(model.created_jobs[0], "terraform")
    assert (found["TF_VAR_size"].value, found["TF_VAR_region"].value) == ("own", "eu")


def test_a_set_that_does_not_exist_fails_the_start_and_heals_by_itself() -> None:
    model = granted(Cluster())
    assert outcome(model) == (Phase.FAILED, Reason.UNRESOLVED_VARIABLES)
    status = model.workspace.status
    assert "VariableSet inputs: ResourceNotFound" in status.message
    assert EXECUTION_ALLOWED not in model.workspace.metadata.annotations
    assert [(c.type, c.status) for c in status.conditions] == [("Ready", "False")]  # heals: not stalled
    assert model.created_jobs == []
    before = model.versions
    model.settle()
    assert model.versions == before
    put_set(model, literal("a", "b"))
    model.settle()
    assert outcome(model)[0] is Phase.PENDING
    assert str(model.workspace.status.current_run_trigger) == "configuration"  # the former trigger
    model.annotate(execution_allowed="true")
    model.settle()
    assert outcome(model)[0] is Phase.PLANNING
    assert variables_of(model) == {"a"}


def test_unresolved_references_are_listed_with_set_kind_name_key_and_reason() -> None:
    model = Cluster()
    unresolved(model)
    granted(model)
    assert outcome(model) == (Phase.FAILED, Reason.UNRESOLVED_VARIABLES)
    assert "VariableSet inputs: Secret/db password: KeyNotFound" in model.workspace.status.message
    assert Reason.UNRESOLVED_VARIABLES in reasons(model.events)


def test_a_set_that_is_not_validated_yet_is_waited_for() -> None:
    model = Cluster()
    put_set(model, PASSWORD, observed_generation=0)
    granted(model)
    assert outcome(model) == (Phase.PENDING, Reason.AWAITING_VARIABLES)
    assert "variableset controller" in model.workspace.status.message
    assert EXECUTION_ALLOWED in model.workspace.metadata.annotations
    assert reasons(model.events).count(Reason.AWAITING_VARIABLES) == 1
    before = model.versions
    model.settle()
    assert model.versions == before
    put_set(model, PASSWORD)
    model.settle()
    grant_again(model)
    assert outcome(model)[0] is Phase.PLANNING


def test_a_failed_start_is_not_begun_again_by_a_set_that_nobody_has_validated() -> None:
    model = Cluster()
    unresolved(model)
    granted(model)
    put_set(model, PASSWORD, observed_generation=0)
    model.settle()
    assert outcome(model) == (Phase.FAILED, Reason.UNRESOLVED_VARIABLES)


def test_a_set_that_only_the_server_knows_is_used() -> None:
    model = cluster(literal("a", "1"))
    model.sync()
    model.lagging.add(VARIABLESETS.resource)
    put_set(model, literal("a", "1"), literal("b", "2"))
    granted(model)
    grant_again(model)
    assert variables_of(model) == {"a", "b"}


def test_a_set_that_may_not_be_read_is_an_error() -> None:
    model = cluster()
    model.failing_kinds[VARIABLESETS.resource] = QueryFailure(reason="Forbidden", message="variablesets is forbidden")
    granted(model)
    assert outcome(model) == (Phase.FAILED, Reason.RECONCILE_ERROR)
    assert model.created_jobs == []


def test_sets_that_only_the_live_project_names_are_read_live_with_it() -> None:
    model = cluster(literal("a", "1"))
    model.put(PROJECTS, Project(metadata=ObjectMeta(name="platform", namespace=NAMESPACE)))
    model.sync()
    model.lagging |= {PROJECTS.resource, VARIABLESETS.resource}
    put_set(model, literal("late", "2"), name="common")
    project = model.get(PROJECTS, "platform")
    model.put(PROJECTS, replace(project, spec=ProjectSpec(variable_set_ref=(NameReference(name="common"),))))
    model.add_workspace(variable_set_ref=OWN)
    model.annotate(execution_allowed="true")
    model.settle()
    grant_again(model)
    assert variables_of(model) == {"a", "late"}
    started = len(model.history)
    model.run_job(JobType.PLAN, plan_result(model))  # the cached Project is still the old one
    assert [str(reason) for _, reason in model.history[started:]].count("VariablesChanged") == 0


# --- the trigger ------------------------------------------------------------------------------------------------------


def test_changed_variables_start_one_run() -> None:
    model = cluster(PASSWORD)
    model.to_applied(**USES_SET)
    before = run(model).variables_fingerprint
    put_set(model, PASSWORD, version="6")
    model.settle()
    assert outcome(model)[0] is Phase.PENDING
    assert (Phase.PENDING, Reason.VARIABLES_CHANGED) in model.history
    assert str(model.workspace.status.current_run_trigger) == "variables"
    model.annotate(execution_allowed="true")
    model.settle()
    model.run_job(JobType.PLAN, plan_result(model, has_changes=False))
    assert outcome(model) == (Phase.APPLIED, Reason.NO_CHANGES)
    assert run(model).variables_fingerprint != before
    count = len(model.history)
    model.settle()
    assert len(model.history) == count


def test_a_set_that_says_the_same_starts_nothing() -> None:
    model = cluster(PASSWORD)
    model.to_applied(**USES_SET)
    count = len(model.history)
    put_set(model, PASSWORD, message="looked again")
    model.settle()
    put_set(model, PASSWORD, observed_generation=0)  # being validated: nothing is known
    model.settle()
    unresolved(model)
    model.settle()
    assert len(model.history) == count


def test_a_lagging_cache_is_no_change() -> None:
    model = cluster(PASSWORD)
    model.sync()
    model.lagging.add(VARIABLESETS.resource)
    put_set(model, PASSWORD, version="6")
    model.put(PROJECTS, Project(metadata=ObjectMeta(name="platform", namespace=NAMESPACE)))
    granted(model)
    grant_again(model)
    model.run_job(JobType.PLAN, plan_result(model))
    model.run_job(JobType.APPLY, apply_result(model))
    assert outcome(model)[0] is Phase.APPLIED
    assert len(model.created_jobs) == 2
    model.lagging.clear()
    model.settle()
    assert outcome(model)[0] is Phase.APPLIED


def test_a_project_that_goes_away_is_no_change_of_variables() -> None:
    model = cluster(literal("a", "1"))
    spec = ProjectSpec(variable_set_ref=OWN)
    model.to_applied()
    model.put(PROJECTS, Project(metadata=ObjectMeta(name="platform", namespace=NAMESPACE), spec=spec))
    model.settle()
    assert str(model.workspace.status.current_run_trigger) == "variables"
    model.annotate(execution_allowed="true")
    model.settle()
    model.run_job(JobType.PLAN, plan_result(model, has_changes=False))
    count = len(model.history)
    model.remove(PROJECTS, "platform")
    model.settle()
    assert len(model.history) == count
    model.put(PROJECTS, Project(metadata=ObjectMeta(name="platform", namespace=NAMESPACE), spec=spec))
    model.settle()
    assert len(model.history) == count


def test_a_change_while_the_plan_runs_causes_the_next_run() -> None:
    model = cluster(PASSWORD)
    model.to_planning(**USES_SET)
    put_set(model, PASSWORD, version="6")
    model.settle()
    assert outcome(model)[0] is Phase.PLANNING
    model.run_job_end(JobType.PLAN, plan_result(model))
    assert (Phase.PLANNED, Reason.PLAN_SUCCEEDED) in model.history
    assert (Phase.PENDING, Reason.VARIABLES_CHANGED) in model.history
    assert model.job(JobType.APPLY) is None
    assert "PlanDiscarded" in reasons(model.events)


def test_a_change_during_the_apply_is_served_by_a_run_of_its_own() -> None:
    model = cluster(PASSWORD)
    model.to_applying(**USES_SET)
    put_set(model, PASSWORD, version="6")
    model.settle()
    model.run_job_end(JobType.APPLY, apply_result(model))
    assert (Phase.APPLIED, Reason.APPLY_SUCCEEDED) in model.history
    assert str(model.workspace.status.current_run_trigger) == "variables"


def test_a_failed_run_is_planned_again_with_the_corrected_variables() -> None:
    model = cluster(literal("a", "wrong"))
    model.to_planning(**USES_SET)
    model.run_job_end(JobType.PLAN, failed(model, JobType.PLAN, "PlanFailed", "bad value"))
    assert outcome(model)[0] is Phase.FAILED
    put_set(model, literal("a", "right"))
    model.settle()
    assert str(model.workspace.status.current_run_trigger) == "variables"


def test_a_waiting_drift_run_is_amended_by_changed_variables() -> None:
    model = cluster(PASSWORD)
    model.to_applied(**USES_SET)
    model.advance(minutes=4)
    model.settle()
    assert str(model.workspace.status.current_run_trigger) == "scheduled"
    run_id = model.workspace.status.current_run_id
    put_set(model, PASSWORD, version="6")
    model.settle()
    assert str(model.workspace.status.current_run_trigger) == "variables"
    assert model.workspace.status.current_run_id == run_id


# --- the gate and the apply -------------------------------------------------------------------------------------------


def gated(**spec: Any) -> Cluster:
    model = cluster(PASSWORD, literal("greeting", "hello"))
    model.to_planning(auto_apply=False, **USES_SET, **spec)
    model.run_job_end(JobType.PLAN, plan_result(model))
    assert model.workspace.status.awaiting_approval is not None
    return model


def test_a_gated_plan_is_kept_and_what_was_rotated_does_not_reach_the_apply() -> None:
    model = gated()
    run_id = model.workspace.status.current_run_id
    put_set(model, PASSWORD, literal("greeting", "hello"), version="6")
    model.settle()
    assert model.workspace.status.awaiting_approval is not None
    model.annotate(approved=run_id)
    model.settle()
    assert outcome(model)[0] is Phase.APPLYING
    assert model.workspace.status.current_run_id == run_id
    assert variables_of(model) == {"greeting"}
    found = environment_of(model.created_jobs[-1], "terraform")
    assert found["MAGOS_REDACT_ENV"].value == "TF_VAR_password"  # its old value is in the plan
    model.run_job(JobType.APPLY, apply_result(model))
    assert str(model.workspace.status.current_run_trigger) == "variables"


def test_discard_stale_plan_lets_changed_variables_abandon_a_gated_plan() -> None:
    model = gated(discard_stale_plan=True)
    put_set(model, PASSWORD, literal("greeting", "hello"), version="6")
    model.settle()
    assert outcome(model)[0] is Phase.PENDING
    assert model.workspace.status.awaiting_approval is None
    assert str(model.workspace.status.current_run_trigger) == "variables"
    assert model.all(JOBS) == []


def test_without_gate_changed_variables_stop_an_allowed_apply() -> None:
    model = cluster(PASSWORD)
    model.to_planning(**USES_SET)
    model.annotate(execution_allowed=None)
    model.run_job_end(JobType.PLAN, plan_result(model))
    put_set(model, PASSWORD, version="6")
    model.annotate(execution_allowed="true")
    model.settle()
    assert model.job(JobType.APPLY) is None
    assert str(model.workspace.status.current_run_trigger) == "variables"
    assert EXECUTION_ALLOWED not in model.workspace.metadata.annotations


def test_a_set_that_is_gone_by_the_time_of_the_apply_does_not_stop_it() -> None:
    model = gated()
    model.remove(VARIABLESETS, "inputs")
    model.annotate(approved=model.workspace.status.current_run_id)
    model.settle()
    assert outcome(model)[0] is Phase.APPLYING
    assert variables_of(model) == set()


@pytest.mark.parametrize("after", range(6))
def test_a_crash_at_any_step_of_the_start_keeps_status_and_job_together(after: int) -> None:
    model = cluster(PASSWORD)
    model.put(PROJECTS, Project(metadata=ObjectMeta(name="platform", namespace=NAMESPACE)))
    model.put(WORKSPACES, workspace_manifest(**USES_SET))
    model.settle()
    model.annotate(execution_allowed="true")
    model.crash_after = after % 3
    with_crash = False
    try:
        model.step()
    except Crash:
        with_crash = True
    model.crash_after = None
    if after >= 3:
        put_set(model, PASSWORD, version="6")
    model.settle()
    if not model.created_jobs:
        grant_again(model)
    assert with_crash or after % 3 > 0
    assert len(model.created_jobs) == 1
    assert variables_of(model) == {"password"}
    assert run(model).variables[0].version in ("5", "6")


# --- what the steps of a Rollout compare ------------------------------------------------------------------------------


def observed(model: Cluster) -> dict[str, str]:
    """The sets that count as applied, with their digests."""
    found = model.workspace.status.observed_variables
    assert found is not None
    return {each.name: each.digest for each in found.sets}


def taken(model: Cluster) -> dict[str, str]:
    return {each.name: each.digest for each in run(model).variable_sets}


@pytest.mark.parametrize("changes", [False, True])
def test_what_a_run_took_of_its_sets_counts_as_applied_when_it_has_ended(changes: bool) -> None:
    model = granted(cluster(literal("a", "1")))
    assert set(taken(model)) == {"inputs"}
    assert model.workspace.status.observed_variables is None
    model.run_job(JobType.PLAN, plan_result(model, has_changes=changes))
    if changes:
        model.run_job(JobType.APPLY, apply_result(model))
    assert outcome(model)[0] is Phase.APPLIED
    first = taken(model)
    assert observed(model) == first
    put_set(model, literal("a", "2"))
    model.settle()
    assert outcome(model)[0] is Phase.PENDING
    assert taken(model) != first
    assert observed(model) == first, "it is not applied yet"


@pytest.mark.parametrize("change", ["value", "more", "secret"])
def test_the_digest_of_a_set_tells_every_change_and_is_the_same_for_all_who_use_it(change: str) -> None:
    model = cluster(literal("a", "1"), PASSWORD)
    put_set(model, literal("b", "1"), name="other")
    project = ProjectSpec(variable_set_ref=(NameReference(name="other"), *OWN))
    model.add_workspace(**USES_SET)
    alone = taken(model)["inputs"]
    model.put(PROJECTS, Project(metadata=ObjectMeta(name="platform", namespace=NAMESPACE), spec=project))
    model.settle()
    assert taken(model)["inputs"] == alone
    assert [each.inherited for each in run(model).variable_sets] == [True, True]
    variables = {"value": literal("a", "2"), "more": literal("c", "1"), "secret": literal("a", "1")}[change]
    put_set(model, variables, PASSWORD, version="6" if change == "secret" else "5")
    model.settle()
    assert taken(model)["inputs"] != alone


@pytest.mark.parametrize("phase", [Phase.APPLIED, Phase.PENDING, Phase.PLANNED])
def test_a_change_that_does_not_concern_a_workspace_counts_as_applied_there_without_a_run(phase: Phase) -> None:
    """Its own set overrides what has changed: nobody may wait for a run that never comes."""
    model = cluster(literal("a", "own"))
    put_set(model, literal("a", "1"), name="common")
    refs = (NameReference(name="common"), *OWN)
    model.to_applied(variable_set_ref=refs)
    if phase is not Phase.APPLIED:
        model.edit(auto_apply=False)
        model.settle()
    if phase is Phase.PLANNED:
        model.annotate(execution_allowed="true")
        model.settle()
        model.run_job(JobType.PLAN, plan_result(model))
    before, run_id = observed(model), model.workspace.status.current_run_id
    assert outcome(model)[0] is phase
    put_set(model, literal("a", "2"), name="common")
    model.settle()
    assert observed(model)["common"] != before["common"]
    assert observed(model)["inputs"] == before["inputs"]
    assert (outcome(model)[0], model.workspace.status.current_run_id) == (phase, run_id)


def test_a_workspace_of_an_earlier_version_records_its_sets_without_a_run() -> None:
    model = cluster(literal("a", "1"))
    model.to_applied(**USES_SET)
    recorded, found, runs = observed(model), model.workspace, len(model.created_jobs)
    old_run = replace(run(model), variable_sets=())
    model.put(WORKSPACES, replace(found, status=replace(found.status, observed_variables=None, current_run=old_run)))
    model.settle()
    assert observed(model) == recorded
    assert (outcome(model)[0], len(model.created_jobs)) == (Phase.APPLIED, runs)


def test_a_set_that_a_waiting_run_takes_takes_permission_with_it_when_it_changes() -> None:
    model = cluster(literal("a", "own"))
    put_set(model, literal("a", "1"), name="common")
    model.put(PROJECTS, Project(metadata=ObjectMeta(name="platform", namespace=NAMESPACE)))
    model.add_workspace(variable_set_ref=(NameReference(name="common"), *OWN))
    before, trigger = taken(model), model.workspace.status.current_run_trigger
    put_set(model, literal("a", "2"), name="common")
    model.annotate(execution_allowed="true")
    model.settle()
    grant_again(model)
    assert taken(model)["common"] != before["common"]
    assert model.workspace.status.current_run_trigger is trigger
    assert outcome(model)[0] is Phase.PLANNING
