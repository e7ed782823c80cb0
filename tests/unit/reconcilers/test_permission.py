"""What permission was given for, when it counts, and who writes it how often."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from magos.api.annotations import EXECUTION_ALLOWED, EXECUTION_GRANTED_FOR
from magos.api.kube import JOBS
from magos.api.meta import ObjectMeta
from magos.api.names import JobType
from magos.api.phases import Phase
from magos.api.project import PROJECTS, Project
from magos.api.reasons import Reason
from magos.api.workspace import WORKSPACES, CurrentRun, UsedVariableSet, Validation, Workspace
from magos.reconcilers.members import can_be_granted, wants_grant
from magos.reconcilers.permission import awaits_amendment, grant_of, granted_for, named_otherwise, permitted
from tests.unit.reconcilers.cluster import Cluster
from tests.unit.reconcilers.fleet import Fleet, member, rollout
from tests.unit.reconcilers.model import LATER_SHA, NAMESPACE, OTHER_SHA, SHA, Crash, workspace_manifest
from tests.unit.reconcilers.results import apply_result, plan_result, reasons

RUNS = st.sampled_from(["", "20260101T000000-00000001", "20260101T000000-00000002"])
COMMITS = st.sampled_from(["", SHA, OTHER_SHA])
SPECS = st.sampled_from(["", "sha256:" + "1" * 64, "sha256:" + "1" * 64 + "/" + "2" * 16])
STANDINGS = st.tuples(RUNS, COMMITS, SPECS)


def standing(run_id: str, commit: str, spec: str, **annotations: str) -> Workspace:
    made = member("a", phase=Phase.PENDING)
    run = CurrentRun(revision=commit, spec_hash=spec)
    status = replace(made.status, current_run_id=run_id, current_run=run)
    values = {f"magosproject.io/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return replace(made, status=status, metadata=replace(made.metadata, annotations=values))


def carrying(workspace: Workspace, annotations: Any) -> Workspace:
    return replace(workspace, metadata=replace(workspace.metadata, annotations=dict(annotations)))


@given(one=STANDINGS, other=STANDINGS)
def test_a_grant_counts_for_exactly_the_run_commit_and_spec_it_was_given_for(
    one: tuple[str, str, str], other: tuple[str, str, str]
) -> None:
    granted = grant_of(standing(*one))
    same = one == other or one[0] == other[0] == ""
    assert permitted(carrying(standing(*other), granted)) == same
    assert bool(named_otherwise(carrying(standing(*other), granted))) == (not same)


@pytest.mark.parametrize(
    "variables",
    [
        {"variables_fingerprint": "sha256:other"},
        {"variable_sets": (UsedVariableSet(name="common", digest="sha256:other", inherited=False),)},
        {"variable_sets": (UsedVariableSet(name="other", digest="sha256:one", inherited=False),)},
        {"variable_sets": ()},
    ],
)
def test_a_grant_is_void_for_a_run_with_other_variables(variables: dict[str, Any]) -> None:
    waiting = standing("r", SHA, "s")
    run = CurrentRun(revision=SHA, spec_hash="s", variables_fingerprint="sha256:one")
    run = replace(run, variable_sets=(UsedVariableSet(name="common", digest="sha256:one", inherited=False),))
    granted = replace(waiting, status=replace(waiting.status, current_run=run))
    assert permitted(carrying(granted, grant_of(granted)))
    amended = replace(waiting, status=replace(waiting.status, current_run=replace(run, **variables)))
    assert not permitted(carrying(amended, grant_of(granted)))
    assert named_otherwise(carrying(amended, grant_of(granted))) == "another spec or other variables"


@given(standings=STANDINGS, value=st.sampled_from(["True", "1", "", " true"]))
def test_a_name_alone_permits_nothing(standings: tuple[str, str, str], value: str) -> None:
    workspace = standing(*standings)
    assert not permitted(carrying(workspace, {EXECUTION_GRANTED_FOR: granted_for(workspace)}))
    assert not permitted(carrying(workspace, {**grant_of(workspace), EXECUTION_ALLOWED: value}))


@given(standings=STANDINGS)
def test_permission_that_names_nothing_counts_for_whatever_the_run_says(standings: tuple[str, str, str]) -> None:
    workspace = standing(*standings, execution_allowed="true")
    assert permitted(workspace)
    assert named_otherwise(workspace) == ""


@given(standings=STANDINGS, name=st.text(max_size=60))
def test_no_text_of_a_stranger_permits_or_breaks_anything(standings: tuple[str, str, str], name: str) -> None:
    workspace = standing(*standings, execution_allowed="true", execution_granted_for=name)
    assert permitted(workspace) == (name == granted_for(workspace))
    assert bool(named_otherwise(workspace)) == (name != granted_for(workspace))


def test_what_void_permission_was_given_for_is_told() -> None:
    told = {
        ("r2", SHA, "s"): "another run",
        ("r", OTHER_SHA, "s"): "another commit",
        ("r", "", "s"): "a commit that was not known yet",
        ("r", SHA, "t"): "another spec or other variables",
    }
    for given_for, words in told.items():
        assert named_otherwise(carrying(standing("r", SHA, "s"), grant_of(standing(*given_for)))) == words


# --- the orchestrator -------------------------------------------------------------------------------------------------


def edited(workspace: Workspace) -> Workspace:
    return replace(workspace, metadata=replace(workspace.metadata, generation=2))


@pytest.mark.parametrize(
    ("waiting", "granted"),
    [
        (member("a"), False),
        (member("a", phase=Phase.PENDING), True),
        (member("a", phase=Phase.PENDING, detected=SHA), True),
        (member("a", phase=Phase.PENDING, detected=OTHER_SHA), False),
        (member("a", phase=Phase.PENDING, pinned=""), True),
        (member("a", phase=Phase.PENDING, pinned="", observed=OTHER_SHA), False),
        (member("a", phase=Phase.PLANNED, detected=OTHER_SHA), True),
        (edited(member("a", phase=Phase.PENDING)), False),
        (edited(member("a", phase=Phase.PLANNED)), False),
    ],
    ids=[
        "no run",
        "a run",
        "its commit is the newest",
        "another commit is newer",
        "no commit is known",
        "the commit is known, but not by the run",
        "a plan keeps its commit",
        "the spec was edited",
        "the spec was edited after the plan",
    ],
)
def test_nobody_is_granted_what_would_be_void_a_moment_later(waiting: Workspace, *, granted: bool) -> None:
    waiting = replace(waiting, metadata=replace(waiting.metadata, generation=waiting.metadata.generation or 1))
    assert wants_grant(waiting)
    assert awaits_amendment(waiting) != granted
    assert can_be_granted(waiting) == granted


def test_a_rollout_leaves_a_member_alone_until_its_run_is_amended_and_then_renews_a_grant_that_is_void() -> None:
    waiting = member("d", "dev", Phase.PENDING, detected=OTHER_SHA)
    void = carrying(waiting, {**waiting.metadata.annotations, **grant_of(waiting)})
    fleet = Fleet(rollout("dev"), [void])
    before = len(fleet.writes)
    fleet.settle()
    assert [each for each in fleet.writes[before:] if each == "patch workspaces"] == []
    amended = member("d", "dev", Phase.PENDING, detected=OTHER_SHA, pinned=OTHER_SHA)
    fleet.set(carrying(amended, {**amended.metadata.annotations, **grant_of(waiting)}))
    before = len(fleet.writes)
    fleet.settle()
    stored = fleet.get(WORKSPACES, "d")
    assert permitted(stored)
    assert fleet.writes[before:].count("patch workspaces") == 1


def test_what_is_taken_back_is_taken_as_a_whole() -> None:
    waiting = member("p", "", Phase.PENDING)
    fleet = Fleet(rollout("dev"), [member("d", "dev"), carrying(waiting, grant_of(waiting))])
    fleet.settle()
    assert not set(fleet.get(WORKSPACES, "p").metadata.annotations) & {EXECUTION_ALLOWED, EXECUTION_GRANTED_FOR}


# --- the workspace controller -----------------------------------------------------------------------------------------


def granted(revision: str = SHA, **spec: Any) -> Cluster:
    """A Workspace whose first run waits, granted by its Project."""
    model = Cluster()
    model.put(PROJECTS, Project(metadata=ObjectMeta(name="platform", namespace=NAMESPACE)))
    model.put(WORKSPACES, workspace_manifest(**spec))
    if revision:
        model.annotate(detected_revision=revision)
    model.settle()
    model.settle(project=True)
    model.advance(seconds=5)
    model.settle(project=True)
    assert permitted(model.workspace)
    return model


def test_a_grant_of_a_project_needs_no_pass_of_its_own_before_an_amendment() -> None:
    model = granted()
    model.annotate(detected_revision=OTHER_SHA)
    model.step()
    run = model.workspace.status.current_run
    assert run is not None
    assert run.revision == OTHER_SHA
    assert not permitted(model.workspace)
    model.settle()
    assert model.created_jobs == []
    status = model.workspace.status
    assert (status.phase, status.reason) == (Phase.PENDING, Reason.AWAITING_ROLLOUT)
    assert status.message.endswith("The permission it carries does not count: it was given for another commit.")
    model.settle(project=True)
    model.settle()
    assert model.workspace.status.phase is Phase.PLANNING


def test_an_edit_ends_what_was_granted_and_a_request_does_not() -> None:
    model = granted()
    model.annotate(reconcile_request="r")
    model.step()
    assert permitted(model.workspace)
    model.edit(validation=Validation())
    model.step()
    assert not permitted(model.workspace)


def test_a_run_that_learns_its_commit_from_the_plan_is_permitted_anew_before_it_applies() -> None:
    model = granted(revision="")
    model.settle()
    model.run_job(JobType.PLAN, plan_result(model))
    status = model.workspace.status
    assert (status.phase, status.reason) == (Phase.PLANNED, Reason.AWAITING_ROLLOUT)
    assert "a commit that was not known yet" in status.message
    assert Reason.AWAITING_ROLLOUT not in reasons(model.events)  # nothing is odd about it
    model.settle(project=True)
    model.settle()
    model.run_job(JobType.APPLY, apply_result(model))
    assert model.workspace.status.phase is Phase.APPLIED
    assert not set(model.workspace.metadata.annotations) & {EXECUTION_ALLOWED, EXECUTION_GRANTED_FOR}


def test_the_end_of_a_reset_takes_no_permission_of_the_run_that_waits() -> None:
    model = granted(auto_apply=False)
    model.settle()
    model.run_job(JobType.PLAN, plan_result(model))
    model.edit(validation=Validation())
    model.crash_after = 1
    with suppress(Crash):
        model.step()
    model.crash_after = None
    assert model.workspace.status.phase is Phase.PENDING
    assert not permitted(model.workspace)
    model.settle(project=True)
    assert permitted(model.workspace)
    assert model.all(JOBS) != []
    model.step()
    assert model.all(JOBS) == []
    assert permitted(model.workspace)


def test_a_refused_start_takes_the_permission_as_a_whole() -> None:
    model = granted(service_account_name="nobody")
    model.settle()
    assert model.workspace.status.phase is Phase.FAILED
    assert not set(model.workspace.metadata.annotations) & {EXECUTION_ALLOWED, EXECUTION_GRANTED_FOR}


def test_a_plan_with_a_grant_that_counts_is_kept_whatever_is_newer() -> None:
    model = granted()
    model.settle()
    model.annotate(detected_revision=LATER_SHA)
    model.run_job(JobType.PLAN, plan_result(model))
    assert model.workspace.status.phase is Phase.APPLYING
