"""The Project controller (spec §6.3)."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from magos.api.annotations import EXECUTION_ALLOWED
from magos.api.meta import ObjectMeta
from magos.api.phases import Phase
from magos.api.project import PROJECTS, Project
from magos.api.reasons import Reason
from magos.api.rollout import ROLLOUTS, Rollout, RolloutSpec, RolloutStrategy
from magos.api.status import NameReference
from magos.api.timestamps import parse_time
from magos.api.workspace import WORKSPACES
from magos.reconcilers.project import observe, reconcile
from magos.runtime.decision import PatchAnnotations, Request
from tests.unit.reconcilers.cluster import Cluster
from tests.unit.reconcilers.fleet import member
from tests.unit.reconcilers.model import NAMESPACE, ModelView, workspace_manifest
from tests.unit.reconcilers.results import reasons


def project(model: Cluster) -> Project:
    found = model.get(PROJECTS, "platform")
    assert isinstance(found, Project)
    return found


def allowed(model: Cluster, name: str) -> bool:
    return bool(model.get(WORKSPACES, name).metadata.annotations.get(EXECUTION_ALLOWED) == "true")


def with_members(*names: str, phase: Phase | None = Phase.PENDING) -> Cluster:
    model = Cluster()
    model.put(PROJECTS, Project(metadata=ObjectMeta(name="platform", namespace=NAMESPACE)))
    for name in names:
        model.put(WORKSPACES, member(name, phase=phase))
    return model


def pass_the_delay(model: Cluster) -> None:
    """Let the Project find no Rollout, and the time go by until its members may run."""
    model.settle(project=True)
    model.advance(seconds=10)
    model.settle(project=True)


def add_rollout(model: Cluster) -> None:
    spec = RolloutSpec(project_ref="platform", strategy=RolloutStrategy(steps=()))
    model.put(ROLLOUTS, Rollout(metadata=ObjectMeta(name="platform", namespace=NAMESPACE), spec=spec))


@pytest.mark.parametrize("phase", [Phase.PENDING, Phase.PLANNED, Phase.PLANNED_WITH_VIOLATIONS])
def test_members_that_wait_are_granted_not_before_two_seconds(phase: Phase) -> None:
    model = with_members("a", "b", phase=phase)
    model.settle(project=True)
    assert not allowed(model, "a")
    assert model.decide_project().requeue_at is not None
    model.advance(seconds=2)  # what is 2 s by whole seconds may be 1 s by the clock
    model.settle(project=True)
    assert not allowed(model, "a")
    model.advance(seconds=1)
    model.settle(project=True)
    assert allowed(model, "a")
    assert allowed(model, "b")
    assert reasons(model.events) == ["Granted", "Granted"]
    assert project(model).status.members == 2
    assert (project(model).status.phase, project(model).status.reason) == (Phase.READY, Reason.DEFAULT_PARALLEL)


@pytest.mark.parametrize(
    "phase",
    [None, Phase.PLANNING, Phase.APPLYING, Phase.APPLIED, Phase.FAILED, Phase.VALIDATION_FAILED, Phase.DELETING],
)
def test_members_without_a_run_that_waits_are_not_touched(phase: Phase | None) -> None:
    model = with_members("a", phase=phase)
    pass_the_delay(model)
    assert not allowed(model, "a")


def test_members_of_others_and_terminating_ones_are_not_touched() -> None:
    model = with_members("a", "b")
    other = workspace_manifest("c", project_ref=NameReference(name="other"))
    model.put(WORKSPACES, other)
    going = model.get(WORKSPACES, "b")
    model.put(WORKSPACES, replace(going, metadata=replace(going.metadata, deletion_timestamp="2026-01-01T00:00:00Z")))
    pass_the_delay(model)
    assert [allowed(model, name) for name in "abc"] == [True, False, False]
    assert project(model).status.members == 1


def test_a_rollout_of_the_name_means_hands_off() -> None:
    model = with_members("a", "b")
    model.annotate("b", execution_allowed="true")
    add_rollout(model)
    model.advance(seconds=10)
    model.settle(project=True)
    assert [allowed(model, name) for name in "ab"] == [False, True]
    assert project(model).status.reason == Reason.MANAGED_BY_ROLLOUT
    model.remove(ROLLOUTS, "platform")
    pass_the_delay(model)
    assert allowed(model, "a")


def test_a_rollout_that_is_gone_for_less_than_five_seconds_leaves_no_gap() -> None:
    model = with_members("a")
    add_rollout(model)
    model.advance(seconds=10)
    model.settle(project=True)
    for _ in range(3):  # as long as it takes: every return begins the wait anew
        model.remove(ROLLOUTS, "platform")
        model.settle(project=True)
        until = project(model).status.parallel_from
        assert until is not None
        assert f"members may run in parallel from {until} on" in project(model).status.message
        assert model.decide_project().requeue_at == parse_time(until) >= model.now + timedelta(seconds=5)
        model.advance(seconds=5)
        model.settle(project=True)  # nothing is remembered but what is stored
        assert project(model).status.parallel_from == until
        assert not allowed(model, "a")
        add_rollout(model)
        model.settle(project=True)
        assert (project(model).status.reason, project(model).status.parallel_from) == (Reason.MANAGED_BY_ROLLOUT, None)


@pytest.mark.parametrize("stored", ["2999-01-01T00:00:00Z", "soon", "2026-01-01", ""])
def test_no_clock_and_no_hand_makes_the_wait_longer_than_it_is_from_now(stored: str) -> None:
    model = with_members("a")
    model.settle(project=True)
    found = project(model)
    model.put(PROJECTS, replace(found, status=replace(found.status, parallel_from=stored)))
    model.settle(project=True)
    assert not allowed(model, "a")
    model.advance(seconds=7)
    model.settle(project=True)
    assert allowed(model, "a")


def test_a_project_that_had_its_wait_waits_no_more() -> None:
    model = with_members()
    pass_the_delay(model)
    model.put(WORKSPACES, member("a", phase=Phase.PENDING))
    model.advance(seconds=1)
    model.settle(project=True)
    assert not allowed(model, "a")
    model.advance(seconds=2)
    model.settle(project=True)
    assert allowed(model, "a")


def test_a_rollout_that_only_the_server_knows_means_hands_off_too() -> None:
    model = with_members("a")
    model.settle(project=True)
    model.advance(seconds=10)
    model.sync()
    model.lagging.add(ROLLOUTS.resource)
    add_rollout(model)
    model.step(project=True)
    model.step(project=True)
    assert not allowed(model, "a")


def test_a_member_that_changed_since_it_was_judged_is_not_granted() -> None:
    model = with_members("a")
    model.settle(project=True)
    model.advance(seconds=10)
    model.step(project=True)
    model.annotate("a", execution_allowed=None)
    decision = model.decide_project()
    assert decision.effects == ()  # granted already
    model.annotate("a", execution_allowed=None)


def test_a_refused_grant_is_told_and_does_not_loop() -> None:
    model = with_members("a", "b")
    model.refusals.append((PatchAnnotations, WORKSPACES.resource, 403, "Forbidden", "webhook says no"))
    pass_the_delay(model)
    status = project(model).status
    assert (status.phase, status.reason) == (Phase.FAILED, Reason.RECONCILE_ERROR)
    assert "webhook says no" in status.message
    assert reasons(model.events).count("ReconcileError") == 1
    model.refusals.clear()
    model.advance(minutes=2)
    model.settle(project=True)
    assert allowed(model, "a")
    assert project(model).status.reason == Reason.DEFAULT_PARALLEL


def test_a_deletion_that_is_refused_says_why_once() -> None:
    model = with_members("a")
    model.settle(project=True)
    model.annotate("a", execution_allowed="true")
    model.refusals.append((PatchAnnotations, WORKSPACES.resource, 403, "Forbidden", "webhook says no"))
    model.user_deletes(PROJECTS, "platform")
    model.settle(project=True)
    status = project(model).status
    assert (status.phase, "webhook says no" in status.message) == (Phase.DELETING, True)
    assert reasons(model.events) == ["ReconcileError"]
    model.refusals.clear()
    model.advance(minutes=2)
    model.settle(project=True)
    assert model.get(PROJECTS, "platform") is None


@pytest.mark.parametrize("managed", [False, True])
def test_deletion_takes_permission_back_unless_a_rollout_manages_it(managed: bool) -> None:
    model = with_members("a", "b")
    model.settle(project=True)
    model.annotate("a", execution_allowed="true")
    if managed:
        add_rollout(model)
    model.user_deletes(PROJECTS, "platform")
    model.settle(project=True)
    assert model.get(PROJECTS, "platform") is None
    assert allowed(model, "a") is managed
    assert model.get(WORKSPACES, "b") is not None
    assert (reasons(model.events) == ["Revoked"]) is not managed


def test_a_deletion_that_sees_caches_which_lag_asks_once_and_waits() -> None:
    model = with_members("a")
    model.settle(project=True)
    model.user_deletes(PROJECTS, "platform")
    model.apply(model.decide_project())
    model.sync()
    asked = model.decide_project()
    answers = {query: model.answer(query) for query in asked.queries}
    assert answers
    view = ModelView(model.cache, answers, None)
    view.stale = True
    decision = reconcile(observe(Request(namespace=NAMESPACE, name="platform"), view, model.now))
    assert (decision.status, decision.effects, decision.queries) == (None, (), ())
    assert decision.requeue_at is not None


def test_the_fixpoint_decides_nothing() -> None:
    model = with_members("a")
    pass_the_delay(model)
    for _ in range(2):
        decision: Any = model.decide_project()
        assert (decision.status, decision.effects, decision.events, decision.queries) == (None, (), (), ())
