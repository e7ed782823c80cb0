"""Whose identity a run may take: the controllers' namespace, and ServiceAccounts without the label for runs."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from magos.api.annotations import EXECUTION_ALLOWED
from magos.api.conditions import LONGEST_MESSAGE
from magos.api.kube import JOBS, SERVICE_ACCOUNT_METADATA, ServiceAccountMetadata
from magos.api.kube.config import MetaWithoutAnnotations
from magos.api.labels import RUNNER
from magos.api.meta import ObjectMeta
from magos.api.names import JobType
from magos.api.phases import Phase
from magos.api.project import PROJECTS, Project
from magos.api.reasons import Reason
from magos.api.result import Violation, ViolationAction
from magos.api.workspace import WORKSPACES
from magos.reconcilers.workspace.handlers.starting.identity import judge_identity
from magos.reconcilers.workspace.inputs.probes import account_probe, start_probes
from magos.reconcilers.workspace.observation import Observation
from magos.runtime.decision import Create, Decision, EventType, Query, QueryAnswer
from tests.unit.reconcilers.cluster import Cluster
from tests.unit.reconcilers.model import NAME, NAMESPACE, SETTINGS, workspace_manifest
from tests.unit.reconcilers.results import apply_result, plan_result

R = Reason
CONTROLLERS_HERE = replace(SETTINGS, refused_namespace=NAMESPACE)
AUDIT = Violation("p", "no", ViolationAction.AUDIT)


def declared(model: Cluster | None = None, **spec: Any) -> Cluster:
    """A Workspace with permission, not reconciled since."""
    model = model or Cluster()
    model.put(PROJECTS, Project(metadata=ObjectMeta(name="platform", namespace=NAMESPACE)))
    model.put(WORKSPACES, workspace_manifest(**spec))
    model.annotate(execution_allowed="true")
    return model


def shown(model: Cluster) -> tuple[Phase | None, str]:
    status = model.workspace.status
    return status.phase, status.reason


def creates_job(decision: Decision) -> bool:
    return any(isinstance(effect, Create) and effect.kind is JOBS for effect in decision.effects)


def warnings(model: Cluster, reason: Reason) -> int:
    return len([e for e in model.events if e.reason == reason and e.type is EventType.WARNING])


# --- a plan -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("true", None),
        (None, R.SERVICE_ACCOUNT_NOT_ALLOWED),
        ("false", R.SERVICE_ACCOUNT_NOT_ALLOWED),
        ("", R.SERVICE_ACCOUNT_NOT_ALLOWED),
        ("True", R.SERVICE_ACCOUNT_NOT_ALLOWED),
    ],
)
@pytest.mark.parametrize("name", ["magos-job", "magos-workspace"])
def test_a_plan_takes_only_an_account_that_is_labelled_for_runs(
    name: str, label: str | None, expected: Reason | None
) -> None:
    model = Cluster()
    model.put_account(name, label)
    declared(model, service_account_name=name)
    model.settle()
    if expected is None:
        assert model.workspace.status.phase is Phase.PLANNING
        return
    assert shown(model) == (Phase.FAILED, expected)
    assert model.created_jobs == []
    assert EXECUTION_ALLOWED not in model.workspace.metadata.annotations


def test_a_missing_account_is_told_before_a_job_is_created() -> None:
    model = declared(service_account_name="nobody")
    model.settle()
    assert shown(model) == (Phase.FAILED, R.SERVICE_ACCOUNT_NOT_FOUND)
    assert f"{NAMESPACE}/nobody does not exist" in model.workspace.status.message
    assert model.created_jobs == []


@pytest.mark.parametrize(("label", "flag"), [(None, "true`"), ("no", "true --overwrite`")])
def test_the_message_names_the_account_and_the_command(label: str | None, flag: str) -> None:
    model = Cluster()
    model.put_account("deployer", label)
    declared(model, service_account_name="deployer")
    model.settle()
    message = model.workspace.status.message
    assert f"ServiceAccount {NAMESPACE}/deployer " in message
    assert f"`kubectl label serviceaccount deployer --namespace={NAMESPACE} {RUNNER}={flag}" in message


def test_the_longest_names_leave_room_for_the_command() -> None:
    name, namespace = "a" * 253, "n" * 63
    meta = MetaWithoutAnnotations(name=name, namespace=namespace, labels={RUNNER: "no"})
    workspace = workspace_manifest(service_account_name=name)
    seen = Observation(
        now=Cluster().now,
        settings=SETTINGS,
        entropy=bytes(4),
        workspace=replace(workspace, metadata=replace(workspace.metadata, namespace=namespace)),
        account=ServiceAccountMetadata(metadata=meta),
    )
    refused = judge_identity(seen)
    assert refused is not None
    assert len(refused.message) + 100 <= LONGEST_MESSAGE


@pytest.mark.parametrize("label", [None, "no"])
def test_a_refused_start_heals_with_its_trigger_once_the_account_is_labelled(label: str | None) -> None:
    model = Cluster()
    model.put_account("magos-job", label)
    declared(model)
    model.settle()
    trigger = model.workspace.status.current_run_trigger
    model.put_account("magos-job", "true")
    model.settle()
    assert shown(model)[0] is Phase.PENDING
    assert model.workspace.status.current_run_trigger == trigger
    model.annotate(execution_allowed="true")
    model.settle()
    assert model.workspace.status.phase is Phase.PLANNING


def test_a_refused_start_is_told_once_and_rests() -> None:
    model = Cluster()
    model.put_account("magos-job", None)
    declared(model)
    model.settle()
    before = model.versions
    for _ in range(5):
        model.advance(minutes=3)
        model.step()
    assert warnings(model, R.SERVICE_ACCOUNT_NOT_ALLOWED) == 1
    assert model.versions - before <= 5  # the next tick, and nothing else


# --- an apply ---------------------------------------------------------------------------------------------------------

PLANS: list[tuple[Phase, Callable[[Cluster], None]]] = [
    (Phase.PLANNED, lambda m: m.run_job_end(JobType.PLAN, plan_result(m))),
    (
        Phase.PLANNED_WITH_VIOLATIONS,
        lambda m: m.run_job_end(JobType.PLAN, plan_result(m, violations=(AUDIT,), violations_total=1)),
    ),
]


def approve(model: Cluster) -> None:
    if model.workspace.status.awaiting_approval is not None:
        model.annotate(approved=model.workspace.status.current_run_id)
        model.settle()


@pytest.mark.parametrize(("phase", "end_plan"), PLANS)
@pytest.mark.parametrize(
    ("take", "reason"),
    [
        (lambda m: m.put_account("magos-job", None), R.SERVICE_ACCOUNT_NOT_ALLOWED),
        (lambda m: m.remove(SERVICE_ACCOUNT_METADATA, "magos-job"), R.SERVICE_ACCOUNT_NOT_FOUND),
        (lambda m: setattr(m, "settings", CONTROLLERS_HERE), R.NAMESPACE_NOT_ALLOWED),
    ],
)
def test_an_apply_that_may_not_act_here_any_more_waits_without_losing_its_plan(
    phase: Phase, end_plan: Callable[[Cluster], None], take: Callable[[Cluster], None], reason: Reason
) -> None:
    model = Cluster()
    model.to_planning()
    run = model.workspace.status.current_run_id
    take(model)
    end_plan(model)
    approve(model)
    for _ in range(3):
        model.settle()
        model.advance(minutes=3)
    assert shown(model) == (phase, reason)
    assert model.workspace.status.message.startswith(f"Run {run} is planned; its apply waits: ")
    assert model.job(JobType.APPLY) is None
    assert warnings(model, reason) == 1
    model.put_account("magos-job", "true")
    model.settings = SETTINGS
    model.settle()
    assert model.workspace.status.current_run_id == run
    model.run_job(JobType.APPLY, apply_result(model))
    assert shown(model) == (Phase.APPLIED, R.APPLY_SUCCEEDED)


def test_a_request_for_another_run_discards_a_plan_that_waits_for_its_account() -> None:
    model = Cluster()
    model.to_planning()
    model.put_account("magos-job", None)
    model.run_job_end(JobType.PLAN, plan_result(model))
    model.annotate(reconcile_request="again")
    model.settle()
    model.annotate(execution_allowed="true")
    model.settle()
    assert shown(model) == (Phase.FAILED, R.SERVICE_ACCOUNT_NOT_ALLOWED)


def test_a_running_job_is_observed_to_its_end_without_the_label() -> None:
    model = Cluster()
    model.to_applying()
    model.put_account("magos-job", None)
    model.run_job_end(JobType.APPLY, apply_result(model))
    assert shown(model) == (Phase.APPLIED, R.APPLY_SUCCEEDED)


# --- the controllers' namespace ---------------------------------------------------------------------------------------


def test_nothing_is_created_in_the_namespace_of_the_controllers() -> None:
    model = declared(Cluster(CONTROLLERS_HERE))
    model.settle()
    assert shown(model) == (Phase.FAILED, R.NAMESPACE_NOT_ALLOWED)
    assert "MAGOS_ALLOW_CONTROLLER_NAMESPACE" in model.workspace.status.message
    assert [write for write in model.writes if write.startswith("create")] == []


def test_allowing_the_namespace_starts_what_was_refused() -> None:
    model = declared(Cluster(CONTROLLERS_HERE))
    model.settle()
    model.settings = SETTINGS
    model.settle()
    model.annotate(execution_allowed="true")
    model.settle()
    assert model.workspace.status.phase is Phase.PLANNING


def test_an_allowed_namespace_does_not_allow_an_account_without_the_label() -> None:
    model = Cluster(replace(SETTINGS, refused_namespace=""))
    model.put_account("magos-workspace", None)
    declared(model, service_account_name="magos-workspace")
    model.settle()
    assert shown(model) == (Phase.FAILED, R.SERVICE_ACCOUNT_NOT_ALLOWED)


# --- the law ----------------------------------------------------------------------------------------------------------

LABELS = st.sampled_from([{}, {RUNNER: "true"}, {RUNNER: "false"}, {RUNNER: ""}, {"runner": "true"}])
NAMES = st.sampled_from(["magos-job", "magos-workspace", ".."])


def permitted(planned: bool) -> Cluster:
    """A Workspace whose plan, or whose apply, could start now if the account were allowed."""
    model = Cluster()
    model.put_account("magos-job", None)
    declared(model)
    if planned:
        model.put_account("magos-job", "true")
        model.settle()
        model.put_account("magos-job", None)
        model.run_job(JobType.PLAN, plan_result(model))
        return model
    while model.workspace.status.phase is not Phase.PENDING:
        model.step()
    return model


@pytest.fixture(scope="module", params=[False, True], ids=["plan", "apply"])
def ready(request: pytest.FixtureRequest) -> Cluster:
    return permitted(request.param)


@given(account=st.none() | st.tuples(NAMES, LABELS), asked=st.booleans())
def test_no_job_is_created_without_a_labelled_account_read_in_this_pass(
    ready: Cluster, account: tuple[str, dict[str, str]] | None, asked: bool
) -> None:
    facts: dict[Query, QueryAnswer] = {probe: ready.answer(probe) for probe in start_probes(ready.workspace, None)}
    found = None
    if account is not None:
        meta = MetaWithoutAnnotations(name=account[0], namespace=NAMESPACE, labels=account[1])
        found = ServiceAccountMetadata(metadata=meta)
    probe = account_probe(ready.workspace)
    if asked:
        facts[probe] = QueryAnswer(value=found, at=ready.now)
    else:
        del facts[probe]
    decision = ready.decide(NAME, answers=facts)
    assert creates_job(decision) == (asked and account == ("magos-job", {RUNNER: "true"}))
