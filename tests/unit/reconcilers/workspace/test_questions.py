"""Whatever a Workspace asks the API server, it does not ask the same again: each chain of passes comes to a decision.

The situations are all states that a few histories go through, seen by caches that lag or admit it, with a Project, Jobs
or pods that have changed behind the caches' back.
"""

import functools
import itertools
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from magos.api.kube import CONFIG_MAPS, JOBS, PODS
from magos.api.meta import ObjectMeta
from magos.api.names import JobType
from magos.api.phases import Phase
from magos.api.project import PROJECTS, Project, ProjectSpec, ProjectValidation
from magos.api.reasons import Reason
from magos.api.selectors import LabelSelector
from magos.api.status import NameReference
from magos.api.triggers import Trigger
from magos.api.variableset import VARIABLESETS
from magos.api.workspace import WORKSPACES
from magos.reconcilers.archive.keeping import Keeping
from magos.reconcilers.workspace.inputs.specification import same_specification
from magos.reconcilers.workspace.machine import reconcile
from magos.reconcilers.workspace.observation import observe
from magos.runtime.decision import (
    Create,
    Decision,
    PatchAnnotations,
    Query,
    QueryAnswer,
    QueryFailure,
    Refusal,
    Request,
)
from tests.unit.reconcilers.cluster import Cluster
from tests.unit.reconcilers.model import NAME, NAMESPACE, OTHER_SHA, SETTINGS, ModelView
from tests.unit.reconcilers.results import apply_result, failed, plan_result
from tests.unit.reconcilers.workspace.test_machine import Workspaces, variable_set

State = dict[str, dict[tuple[str, str], Any]]
GOLD = ProjectSpec(validation=ProjectValidation(policy_selector=LabelSelector(match_labels={"tier": "gold"})))
INHERITING = ProjectSpec(variable_set_ref=(NameReference(name="inputs"),))


class Recorded(Cluster):
    """A cluster that remembers each state it was in."""

    def __init__(self) -> None:
        self.states: list[State] = []
        super().__init__()

    def put(self, kind: Any, item: Any) -> Any:
        stored = super().put(kind, item)
        self._remember()
        return stored

    def remove(self, kind: Any, name: str) -> None:
        super().remove(kind, name)
        self._remember()

    def _remember(self) -> None:
        self.states.append({resource: dict(items) for resource, items in self.state.items()})


_SERVER = Cluster()


class World(Struct, frozen=True, kw_only=True):
    """What is there and what the caches show of it."""

    live: State
    cache: State
    stale: bool
    now: datetime

    def decide(self, answers: dict[Query, QueryAnswer], refusal: Refusal | None = None) -> Decision:
        view = ModelView(self.cache, answers, refusal)
        view.stale = self.stale
        request = Request(namespace=NAMESPACE, name=NAME)
        return reconcile(observe(request, view, self.now, SETTINGS, b"abcd"))

    def answers(self, decision: Decision) -> dict[Query, QueryAnswer]:
        _SERVER.now, _SERVER.state = self.now, self.live
        return {query: _SERVER.answer(query) for query in decision.queries}

    def last(self) -> Decision:
        """Return the first decision of a chain that changes something, or that asks nothing."""
        asked: set[Query] = set()
        decision = self.decide({})
        while decision.queries and not (decision.status or decision.effects):
            assert not asked.issuperset(decision.queries), f"asked before: {decision.queries}"
            asked.update(decision.queries)
            decision = self.decide(self.answers(decision))
        return decision


def applied(model: Cluster) -> None:
    model.put(VARIABLESETS, variable_set(1))
    model.to_applied(variable_set_ref=(NameReference(name="inputs"),))
    model.annotate(reconcile_request="again")
    model.settle()


def discarded(model: Cluster) -> None:
    model.to_planned(auto_apply=False)
    model.annotate(detected_revision=OTHER_SHA, reconcile_request="again")
    model.settle()


def interrupted(model: Cluster) -> None:
    model.to_planning()
    model.run_job_end(JobType.PLAN, failed(model, JobType.PLAN, "Interrupted", "stopped", exit_code=143))


def lost(model: Cluster) -> None:
    job = model.to_applying()
    model.user_deletes(JOBS, job.metadata.name)
    model.settle()


def silent(model: Cluster) -> None:
    model.to_planning()
    model.run_job_end(JobType.PLAN, None)


def refused(model: Cluster) -> None:
    model.put_account("magos-job", None)
    model.put(PROJECTS, Project(metadata=ObjectMeta(name="platform", namespace=NAMESPACE)))
    model.add_workspace()
    model.annotate(execution_allowed="true")
    model.settle()
    model.put_account("magos-job", "true")
    model.settle()


def deleted(model: Cluster) -> None:
    model.to_applying()
    model.user_deletes(WORKSPACES, NAME)
    model.settle()
    model.run_job_end(JobType.APPLY, apply_result(model))


def forced(model: Cluster) -> None:
    model.to_applying()
    model.annotate(force_delete="true")
    model.user_deletes(WORKSPACES, NAME)
    model.settle()


HISTORIES: tuple[Callable[[Cluster], None], ...] = (
    applied,
    discarded,
    interrupted,
    lost,
    silent,
    refused,
    deleted,
    forced,
)


def _changed(state: State) -> Iterator[State]:
    """The state, and what may have become of it behind the caches' back."""
    yield state
    project = state.get(PROJECTS.resource, {}).get((NAMESPACE, "platform"))
    if project is not None:
        for spec in (GOLD, INHERITING):
            changed = {**state, PROJECTS.resource: {(NAMESPACE, "platform"): replace(project, spec=spec)}}
            yield changed
            yield {**changed, JOBS.resource: {}}
    yield {**state, PROJECTS.resource: {}}
    yield {**state, JOBS.resource: {}, PODS.resource: {}}


@functools.cache
def _states(history: Callable[[Cluster], None]) -> tuple[list[State], datetime]:
    model = Recorded()
    history(model)
    return model.states, model.now


def worlds(history: Callable[[Cluster], None]) -> Iterator[World]:
    states, now = _states(history)
    for number, state in enumerate(states):
        if (NAMESPACE, NAME) not in state.get(WORKSPACES.resource, {}):
            continue
        for live in _changed(state):
            # A live Project is cached as well, or the cache lags in everything, a little or much.
            lagging = states[max(number - 6, 0) : number : 4]
            for cache in (live, {**state, PROJECTS.resource: live.get(PROJECTS.resource, {})}, *lagging):
                for stale, passed in itertools.product((False, True), (timedelta(seconds=1), timedelta(minutes=20))):
                    yield World(live=live, cache=cache, stale=stale, now=now + passed)


@pytest.mark.parametrize("history", HISTORIES)
def test_no_chain_of_passes_asks_what_it_has_asked_before(history: Callable[[Cluster], None]) -> None:
    for world in worlds(history):
        world.last()


@pytest.mark.parametrize("history", HISTORIES)
def test_a_pass_that_is_shown_a_refusal_asks_nothing(history: Callable[[Cluster], None]) -> None:
    """The refusal is shown once: behind a question the refused effect would be tried again, and refused again."""
    for world in worlds(history):
        for effect in world.last().effects:
            refusal = Refusal(effect=effect, code=403, reason="Forbidden", message="no")
            assert world.decide({}, refusal).queries == (), effect


@pytest.mark.parametrize("history", HISTORIES)
def test_a_read_that_is_refused_is_not_asked_for_again_at_once(history: Callable[[Cluster], None]) -> None:
    for world in worlds(history):
        decision = world.decide({})
        failure = QueryFailure(reason="Forbidden", message="no")
        answers = {query: QueryAnswer(failure=failure, at=world.now) for query in decision.queries}
        if answers:
            assert world.decide(answers).queries == ()


def test_a_plan_whose_job_disappears_beside_an_edit_of_the_project_begins_anew() -> None:
    """Found by the state machine: the live read of the Job and that of the Project took turns."""
    state = Workspaces()
    state.begin(auto_apply=False, discard=False, inputs="none")
    state.edit_the_project(inherits=False, validated=True)
    state.permit(value="true")
    state.things_go_their_way(how="good")
    state.edit_the_project(inherits=False, validated=False)
    state.delete_a_job(which=0)
    state.model.step()
    status = state.model.workspace.status
    assert (status.phase, status.reason) == (Phase.PENDING, Reason.CONFIGURATION_CHANGED)
    state.teardown()


def edited_during_the_plan() -> Cluster:
    """The selector of the Project has changed, and no result can be saved on a Job."""
    model = Cluster()
    model.to_planning()
    model.put(PROJECTS, replace(model.get(PROJECTS, "platform"), spec=GOLD))
    model.refusals.append((PatchAnnotations, JOBS.resource, 422, "Invalid", "no"))
    return model


@pytest.mark.parametrize("stopped", [False, True])
def test_a_plan_whose_result_cannot_be_saved_ends_although_the_project_was_edited(stopped: bool) -> None:
    model = edited_during_the_plan()
    run = model.workspace.status.current_run_id
    interruption = failed(model, JobType.PLAN, "Interrupted", "stopped", exit_code=143)
    model.run_job_end(JobType.PLAN, interruption if stopped else plan_result(model))
    status = model.workspace.status
    assert (status.phase, status.current_run_trigger) == (Phase.PENDING, Trigger.CONFIGURATION)
    assert status.current_run_id != run
    assert status.current_run is not None
    assert same_specification(status.current_run.spec_hash, model.workspace, model.get(PROJECTS, "platform"))


def test_a_forced_deletion_is_not_kept_by_a_parcel_that_is_refused() -> None:
    keeping = Keeping(records=True, logs=True, retention=3, namespace="magos-system")
    model = Cluster(replace(SETTINGS, keeping=keeping))
    model.to_applied()
    assert model.workspace.status.history_outbox
    model.refusals.append((Create, CONFIG_MAPS.resource, 403, "Forbidden", "no"))
    model.annotate(force_delete="true")
    model.user_deletes(WORKSPACES, NAME)
    model.settle()
    assert model.get(WORKSPACES, NAME) is None
