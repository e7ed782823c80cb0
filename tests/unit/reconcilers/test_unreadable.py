"""An object that cannot be decoded is neither as it was nor gone: what each reconciler makes of it, on real caches."""

from typing import Any

import pytest
from msgspec.structs import replace

from magos.adapters.workspacesources import by_workspace
from magos.api.kube import JOBS, PERSISTENT_VOLUME_CLAIMS, PODS
from magos.api.labels import FINALIZER, WORKSPACE
from magos.api.meta import Kind, ObjectMeta
from magos.api.phases import Phase
from magos.api.project import PROJECTS, Project
from magos.api.reasons import Reason
from magos.api.rollout import ROLLOUTS
from magos.api.timestamps import format_time
from magos.api.variableset import VARIABLESETS
from magos.api.workspace import WORKSPACES, Workspace
from magos.reconcilers import project
from magos.reconcilers.members import BY_PROJECT, by_project
from magos.reconcilers.rollout import machine as rollout_machine
from magos.reconcilers.rollout import observation as rollout_observation
from magos.reconcilers.workspace import machine, observation
from magos.reconcilers.workspace.observation import BY_WORKSPACE
from magos.runtime.cache.cache import Cache
from magos.runtime.client.watchevents import Undecodable
from magos.runtime.controller.view import Caches, CacheView
from magos.runtime.decision import (
    UNREADABLE,
    Decision,
    Query,
    QueryAnswer,
    QueryFailure,
    Request,
    StatusPatch,
    Unreadable,
)
from tests.unit.reconcilers.fleet import member, rollout, step
from tests.unit.reconcilers.model import NAMESPACE, SETTINGS, START, workspace_manifest

KINDS: tuple[Kind[Any], ...] = (WORKSPACES, PROJECTS, ROLLOUTS, JOBS, PODS, PERSISTENT_VOLUME_CLAIMS, VARIABLESETS)
INDICES: dict[str, dict[str, Any]] = {
    WORKSPACES.resource: {BY_PROJECT: by_project},
    JOBS.resource: {BY_WORKSPACE: by_workspace},
    PODS.resource: {BY_WORKSPACE: by_workspace},
}
OLD = ObjectMeta(
    name="platform",
    namespace=NAMESPACE,
    uid="p",
    resource_version="1",
    creation_timestamp="2020-01-01T00:00:00Z",
    finalizers=(FINALIZER,),
)
PLATFORM = Project(metadata=OLD)
PROMOTION = replace(rollout(step("dev")), metadata=OLD)


def bad(name: str, **metadata: Any) -> Undecodable:
    return Undecodable(metadata=ObjectMeta(name=name, namespace=NAMESPACE, uid=name, **metadata), problem="too deep")


def view_of(
    items: dict[str, tuple[Any, ...]], odd: dict[str, Undecodable], answers: dict[Query, QueryAnswer] | None = None
) -> CacheView:
    caches = {}
    for kind in KINDS:
        cache: Cache[Any] = Cache(kind, INDICES.get(kind.resource, {}))
        hidden = (odd[kind.resource],) if kind.resource in odd else ()
        cache.replace(items.get(kind.resource, ()), hidden, "10")
        caches[kind] = cache
    return CacheView(Caches(caches), answers=answers)


def aged(workspace: Workspace, version: str = "5") -> Workspace:
    metadata = replace(
        workspace.metadata,
        uid=workspace.metadata.name,
        resource_version=version,
        generation=1,
        creation_timestamp="2020-01-01T00:00:00Z",
    )
    return replace(workspace, metadata=metadata)


def decide_project(
    items: dict[str, tuple[Any, ...]], odd: dict[str, Undecodable], answers: dict[Query, QueryAnswer] | None = None
) -> Decision:
    request = Request(namespace=NAMESPACE, name="platform")
    return project.reconcile(project.observe(request, view_of(items, odd, answers), START))


def reason_and_message(decision: Decision) -> tuple[str, str]:
    assert isinstance(decision.status, StatusPatch)
    return decision.status.desired.reason, decision.status.desired.message


@pytest.mark.parametrize("odd", [{WORKSPACES.resource: bad("db")}, {ROLLOUTS.resource: bad("platform")}])
def test_a_project_grants_nothing_beside_a_member_or_a_rollout_that_cannot_be_read(odd: dict[str, Undecodable]) -> None:
    status = replace(PLATFORM.status, parallel_from=format_time(START))
    items = {
        PROJECTS.resource: (replace(PLATFORM, status=status),),
        WORKSPACES.resource: (aged(member("a", phase=Phase.PENDING)),),
    }
    queries = decide_project(items, {}).queries
    assert queries, "without the odd object a grant is on its way"
    answered = {query: QueryAnswer(value=None, at=START) for query in queries}
    assert decide_project(items, {}, answered).effects
    for answers in ({}, answered):
        decision = decide_project(items, odd, answers)
        assert (decision.effects, decision.queries) == ((), ())
        reason, message = reason_and_message(decision)
        assert reason == Reason.RECONCILE_ERROR
        assert "exists but cannot be read (too deep)" in message


def decide_rollout(workspaces: tuple[Workspace, ...], odd: dict[str, Undecodable], *, live: bool) -> Decision:
    items: dict[str, tuple[Any, ...]] = {ROLLOUTS.resource: (PROMOTION,), WORKSPACES.resource: workspaces}
    request = Request(namespace=NAMESPACE, name="platform")
    answers: dict[Query, QueryAnswer] = {}
    if live:
        get, listed = rollout_observation.live_queries(NAMESPACE, "platform")
        hole = QueryFailure(reason=UNREADABLE, message=str(bad("dev").unreadable(WORKSPACES)))
        answers = {get: QueryAnswer(value=PROMOTION, at=START), listed: QueryAnswer(value=workspaces, at=START)}
        if odd:
            answers[listed] = QueryAnswer(failure=hole, at=START)
    view = view_of(items, odd, answers)
    return rollout_machine.reconcile(rollout_observation.observe(request, view, START))


@pytest.mark.parametrize("live", [False, True])
def test_a_rollout_grants_nothing_beside_a_member_that_cannot_be_read(live: bool) -> None:
    members = (aged(member("other", "dev", Phase.PENDING)),)
    without = decide_rollout(members, {}, live=live)
    assert without.effects if live else without.queries, "without the odd member the other one is granted"
    decision = decide_rollout(members, {WORKSPACES.resource: bad("dev")}, live=live)
    assert (decision.effects, decision.queries) == ((), ())
    reason, message = reason_and_message(decision)
    assert reason == Reason.RECONCILE_ERROR
    assert message == (
        f"Workspace {NAMESPACE}/dev exists but cannot be read (too deep): correct or delete it, or update Magos."
        " Until then no permission is given or taken."
    )


def observe_workspace(odd: dict[str, Undecodable]) -> observation.Observation:
    workspace = aged(workspace_manifest())
    request = Request(namespace=NAMESPACE, name=workspace.metadata.name)
    view = view_of({WORKSPACES.resource: (workspace,), PROJECTS.resource: (PLATFORM,)}, odd)
    return observation.observe(request, view, START, SETTINGS, b"1234")


@pytest.mark.parametrize(
    "odd",
    [
        {WORKSPACES.resource: bad("network")},
        {JOBS.resource: bad("some-job", labels={WORKSPACE: "network"})},
        {JOBS.resource: replace(bad("some-job"), whole=False)},
        {PODS.resource: bad("some-pod", labels={WORKSPACE: "network"})},
        {PERSISTENT_VOLUME_CLAIMS.resource: bad("network-data")},
        {PROJECTS.resource: bad("platform")},
    ],
    ids=["itself", "its Job", "a Job without readable labels", "its pod", "its claim", "its Project"],
)
def test_a_workspace_is_not_judged_while_what_belongs_to_it_cannot_be_read(odd: dict[str, Undecodable]) -> None:
    assert machine.reconcile(observe_workspace({})).effects
    with pytest.raises(Unreadable):
        observe_workspace(odd)


def test_what_belongs_to_others_hinders_nobody() -> None:
    odd = {JOBS.resource: bad("some-job", labels={WORKSPACE: "database"}), PROJECTS.resource: bad("other")}
    assert observe_workspace(odd) == observe_workspace({})
