"""Every time that stands in an object and is read back, and what becomes of it when it lies in the future.

``MUTING`` lists the times that put something off: whatever they say, it is done within its own interval and ``SKEW``.
``SHOWN`` lists the times that are for people alone: whatever they say, every decision is the same.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import fields, replace

from magos.api.annotations import EXECUTION_ALLOWED, RECORD, SEEN_AT
from magos.api.kube import JOBS, Job
from magos.api.meta import ObjectMeta
from magos.api.names import JobType
from magos.api.phases import Phase
from magos.api.project import PROJECTS, Project
from magos.api.rollout import ROLLOUTS, Rollout
from magos.api.schema.structural import object_schema
from magos.api.timestamps import format_time
from magos.api.variableset import VariableSet
from magos.api.workspace import WORKSPACES, Workspace
from magos.reconcilers.project import GRANT_DELAY, RETURN_DELAY
from magos.reconcilers.rejections import RETRY_DELAY
from magos.reconcilers.storedtimes import SKEW, believed, due_at, read_time
from magos.reconcilers.workspace.inputs.annotated import DEFAULT_INTERVAL
from magos.reconcilers.workspace.inputs.schedule import advance
from magos.reconcilers.workspace.pod.record import decode_record, encode_record
from magos.runtime.decision import Decision, Delete, PatchAnnotations
from tests.unit.reconcilers.cluster import Cluster
from tests.unit.reconcilers.fleet import PROJECT, Fleet, member, rollout
from tests.unit.reconcilers.model import NAME, NAMESPACE, Model, workspace_manifest
from tests.unit.reconcilers.results import plan_result
from tests.unit.reconcilers.variablesets import Bench, literal

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
LAST = "9999-12-31T23:59:59Z"
"""The latest time that a CRD takes."""


class Muting(Struct, frozen=True):
    """A stored time that puts something off: how to get there, what waits, and for how long it may."""

    scene: Callable[[str], tuple[Model, Callable[[], Decision], Callable[[], bool]]]
    interval: timedelta


def set_meta(model: Model, kind: Any, name: str, **changes: Any) -> None:
    item = model.get(kind, name)
    model.put(kind, replace(item, metadata=replace(item.metadata, **changes)))


def set_status(model: Model, kind: Any, name: str, **changes: Any) -> None:
    item = model.get(kind, name)
    model.put(kind, replace(item, status=replace(item.status, **changes)))


def permitted(model: Model, name: str) -> bool:
    found = model.get(WORKSPACES, name)
    return bool(found.metadata.annotations.get(EXECUTION_ALLOWED) == "true")


def rejected_rollout(stored: str) -> Any:
    fleet = Fleet(rollout("dev"), [member("d", "dev", Phase.PENDING)])
    fleet.refusals.append((PatchAnnotations, WORKSPACES.resource, 403, "Forbidden", "webhook says no"))
    fleet.settle()
    fleet.refusals.clear()
    set_status(fleet, ROLLOUTS, PROJECT, last_reconcile_time=stored)
    return fleet, fleet.step, lambda: permitted(fleet, "d")


def project_with_member() -> Cluster:
    model = Cluster()
    model.put(PROJECTS, Project(metadata=ObjectMeta(name="platform", namespace=NAMESPACE)))
    model.put(WORKSPACES, member("a", phase=Phase.PENDING))
    return model


def rejected_project(stored: str) -> Any:
    model = project_with_member()
    model.advance(seconds=10)
    model.refusals.append((PatchAnnotations, WORKSPACES.resource, 403, "Forbidden", "webhook says no"))
    model.settle(project=True)
    model.refusals.clear()
    set_status(model, PROJECTS, "platform", last_reconcile_time=stored)
    return model, lambda: model.step(project=True), lambda: permitted(model, "a")


def parallel_project(stored: str) -> Any:
    model = project_with_member()
    set_status(model, PROJECTS, "platform", phase=Phase.READY, parallel_from=stored)
    return model, lambda: model.step(project=True), lambda: permitted(model, "a")


def created_member(stored: str) -> Any:
    model = project_with_member()
    set_meta(model, WORKSPACES, "a", creation_timestamp=stored)
    return model, lambda: model.step(project=True), lambda: permitted(model, "a")


def cancelled_plan(stored: str) -> Any:
    """A Workspace that is deleted; the deletion of its plan Job was refused."""
    model = Cluster()
    job = model.to_planning()
    model.refusals.append((Delete, JOBS.resource, 403, "Forbidden", "webhook says no"))
    model.user_deletes(WORKSPACES, NAME)
    model.settle()
    model.refusals.clear()
    set_status(model, WORKSPACES, NAME, last_reconcile_time=stored)
    return model, model.step, lambda: model.get(JOBS, job.metadata.name) is None


def ticking(stored: str) -> Any:
    model = Cluster()
    model.to_applied()
    run = model.workspace.status.current_run_id
    set_status(model, WORKSPACES, NAME, next_reconcile_time=stored)
    return model, model.step, lambda: model.workspace.status.current_run_id != run


def unstarted_plan(stored: str, **annotations: str) -> Any:
    model = Cluster()
    model.put(PROJECTS, Project(metadata=ObjectMeta(name="platform", namespace=NAMESPACE)))
    model.put(WORKSPACES, workspace_manifest())
    model.settle()
    model.annotate(execution_allowed="true")
    model.step()
    job = model.job(JobType.PLAN)
    assert job is not None
    mark(model, job, stored, annotations)
    return model, model.step, lambda: model.workspace.status.phase is Phase.FAILED


def unstarted_apply(stored: str) -> tuple[Cluster, Job]:
    model = Cluster()
    model.to_planning()
    model.run_job_end(JobType.PLAN, plan_result(model))
    job = model.job(JobType.APPLY)
    assert job is not None
    mark(model, job, stored, {})
    return model, job


def mark(model: Model, job: Job, created: str, annotations: Mapping[str, str]) -> None:
    """Let the API server and the Job's creator say that it was created then."""
    meta = model.get(JOBS, job.metadata.name).metadata
    record = decode_record(meta.annotations[RECORD])
    assert record is not None
    by_creator = {RECORD: encode_record(replace(record, created_at=created))}
    merged = {**meta.annotations, **by_creator, **annotations}
    set_meta(model, JOBS, job.metadata.name, creation_timestamp=created, annotations=merged)


def applying(stored: str) -> Any:
    model, _ = unstarted_apply(stored)
    return model, model.step, lambda: model.workspace.status.phase is Phase.FAILED


def deleted_apply(stored: str) -> Any:
    model, job = unstarted_apply(stored)
    model.user_deletes(WORKSPACES, NAME)
    return model, model.step, lambda: model.get(JOBS, job.metadata.name) is None


def marked(stored: str) -> Any:
    return unstarted_plan(LAST, **{SEEN_AT: stored})


START = timedelta(minutes=10)
MUTING = {
    "Rollout.status.lastReconcileTime": Muting(rejected_rollout, RETRY_DELAY),
    "Project.status.lastReconcileTime": Muting(rejected_project, RETRY_DELAY),
    "Workspace.status.lastReconcileTime": Muting(cancelled_plan, RETRY_DELAY),
    "Workspace.status.nextReconcileTime": Muting(ticking, DEFAULT_INTERVAL),
    "Project.status.parallelFrom": Muting(parallel_project, RETURN_DELAY),
    "Workspace.metadata.creationTimestamp": Muting(created_member, GRANT_DELAY),
    "Job.metadata.creationTimestamp of a plan": Muting(unstarted_plan, START),
    "Job.metadata.creationTimestamp of an apply": Muting(applying, START),
    "Job.metadata.creationTimestamp of an apply in Deleting": Muting(deleted_apply, START),
    "Job.metadata.annotations seen-at": Muting(marked, START),
}
SHOWN = frozenset(
    {
        "VariableSet.status.lastReconcileTime",
        *(
            f"{kind}.status.conditions.lastTransitionTime"
            for kind in ("Workspace", "Project", "Rollout", "VariableSet")
        ),
        "Workspace.status.lastRunStartedAt",
        "Workspace.status.awaitingApproval.since",
        "Workspace.status.currentRun.approval.at",
        "Workspace.status.historyOutbox.startedAt",
        "Workspace.status.historyOutbox.finishedAt",
    }
)


def times_of(schema: Mapping[str, Any], path: str) -> Iterator[str]:
    """Every field below with format date-time."""
    if schema.get("format") == "date-time":
        yield path
    for name, each in schema.get("properties", {}).items():
        yield from times_of(each, f"{path}.{name}")
    if "items" in schema:
        yield from times_of(schema["items"], path)


def test_every_time_in_a_status_is_listed() -> None:
    kinds = (Workspace, Project, Rollout, VariableSet)
    found = {path for kind in kinds for path in times_of(object_schema(kind), kind.__name__)}
    assert found
    assert found == SHOWN | {path for path in MUTING if ".status." in path}


def goes_on(each: Muting, stored: str) -> timedelta:
    """Let passes follow each other as they ask for it; return how long it took until what was put off was done."""
    model, step, done = each.scene(stored)
    begun = model.now
    for _ in range(400):
        before = model.versions
        decision = step()
        if done():
            return model.now - begun
        if model.versions == before:
            assert decision.requeue_at is not None, "nobody comes back"
            # The controller waits for an hour at most, whatever a decision asks for.
            model.now = min(
                max(decision.requeue_at, model.now + timedelta(seconds=0.01)), model.now + timedelta(hours=1)
            )
    raise AssertionError(f"nothing is done by {model.now}")


@pytest.mark.parametrize("name", MUTING)
@pytest.mark.parametrize("ahead", [timedelta(minutes=5), timedelta(hours=1), timedelta(days=365), None], ids=str)
def test_no_time_from_the_future_puts_anything_off_beyond_its_interval(name: str, ahead: timedelta | None) -> None:
    each = MUTING[name]
    stored = LAST if ahead is None else format_time(NOW + ahead)
    assert goes_on(each, stored) <= each.interval + SKEW + timedelta(seconds=1)


@pytest.mark.parametrize("name", MUTING)
@pytest.mark.parametrize("stored", ["", "soon", "0001-01-01T00:00:00+10:00", "2026-01-02T03:04:05"])
def test_no_time_that_cannot_be_read_puts_anything_off_beyond_its_interval(name: str, stored: str) -> None:
    each = MUTING[name]
    assert goes_on(each, stored) <= each.interval + SKEW + timedelta(seconds=1)


@pytest.mark.parametrize("name", [name for name in MUTING if name.startswith("Job")])
def test_a_start_that_began_in_the_future_is_not_given_up_before_its_time(name: str) -> None:
    for stored in (format_time(NOW + timedelta(hours=1)), LAST, "soon"):
        assert goes_on(MUTING[name], stored) >= START - timedelta(seconds=1)


def test_a_mark_is_written_once_and_only_on_a_job_from_the_future() -> None:
    model, step, _ = unstarted_plan(format_time(NOW + timedelta(hours=1)))
    for _ in range(10):
        step()
        model.now += timedelta(seconds=5)
    assert model.writes.count("patch jobs") == 1
    model, step, _ = unstarted_plan(format_time(NOW))
    for _ in range(10):
        step()
        model.now += timedelta(seconds=5)
    assert "patch jobs" not in model.writes


def test_a_refused_mark_ends_no_run_and_is_told() -> None:
    model, step, _ = unstarted_plan(format_time(NOW + timedelta(hours=1)))
    model.refusals.append((PatchAnnotations, JOBS.resource, 403, "Forbidden", "webhook says no"))
    for _ in range(10):
        step()
    assert model.workspace.status.phase is Phase.PLANNING
    assert "webhook says no" in model.workspace.status.message


def settled(model: Cluster) -> Cluster:
    model.settle()
    return model


def worlds() -> Iterator[Cluster]:
    """Workspaces at rest, one for each way to rest."""
    for spec in ({}, {"auto_apply": False}):
        for point in ("to_planning", "to_planned", "to_applying", "to_applied"):
            model = Cluster()
            if spec and point in ("to_applying", "to_applied"):
                continue
            getattr(model, point)(**spec)
            yield settled(model)
    model = Cluster()
    model.add_workspace()
    yield settled(model)
    model = Cluster()
    model.to_applying()
    model.user_deletes(WORKSPACES, NAME)
    yield settled(model)


def without_times(item: Any) -> Any:
    """The value with every time in it blanked."""
    if isinstance(item, Struct):
        found = {each.name: without_times(getattr(item, each.name)) for each in fields(item)}
        return type(item).__name__, tuple((key, value) for key, value in found.items())
    if isinstance(item, tuple):
        return tuple(map(without_times, item))
    if isinstance(item, str) and (item == "soon" or read_time(item) is not None):
        return "a time"
    return item


def shown_changed(status: Any, when: str) -> Any:
    """The status with every time that is only shown set to ``when``."""
    changed = {"conditions": tuple(replace(each, last_transition_time=when) for each in status.conditions)}
    run, gate = status.current_run, status.awaiting_approval
    if run is not None and run.approval is not None:
        changed["current_run"] = replace(run, approval=replace(run.approval, at=when))
    if gate is not None:
        changed["awaiting_approval"] = replace(gate, since=when)
    started = when if status.last_run_started_at else None
    return replace(status, **changed, last_run_started_at=started)


def test_times_that_are_only_shown_decide_nothing() -> None:
    for model in worlds():
        before = model.workspace
        for later in (timedelta(0), timedelta(minutes=4), timedelta(minutes=30)):
            model.put(WORKSPACES, before)
            model.now += later
            entropy = model.entropy
            plain = model.decide()
            for when in (LAST, "1970-01-01T00:00:00Z", "soon"):
                model.put(WORKSPACES, replace(before, status=shown_changed(before.status, when)))
                model.entropy = entropy
                other = model.decide()
                assert (other.queries, other.requeue_at, len(other.effects)) == (
                    plain.queries,
                    plain.requeue_at,
                    len(plain.effects),
                )
                assert (other.status is None) == (plain.status is None)
                if other.status is not None and plain.status is not None:
                    assert without_times(other.status.desired) == without_times(plain.status.desired)


def test_the_times_of_a_variable_set_decide_nothing() -> None:
    bench = Bench(literal("a", "1"))
    bench.settle()
    assert bench.found is not None
    bench.found = replace(bench.found, status=shown_times(bench.found.status))
    decision = bench.step({})
    assert (decision.status, decision.queries, decision.effects) == (None, (), ())


def shown_times(status: Any) -> Any:
    conditions = tuple(replace(each, last_transition_time=LAST) for each in status.conditions)
    return replace(status, last_reconcile_time=LAST, conditions=conditions)


intervals = st.integers(1, 10_000_000).map(lambda seconds: timedelta(seconds=seconds))
times = st.datetimes(timezones=st.just(UTC), min_value=datetime(1900, 1, 1), max_value=datetime(9999, 12, 31))  # noqa: DTZ001 - hypothesis wants them naive


@given(times, intervals)
@example(NOW + SKEW, timedelta(seconds=3))
@example(NOW + SKEW + timedelta(seconds=1), timedelta(seconds=3))
def test_what_is_put_off_is_due_within_its_interval(stored: datetime, interval: timedelta) -> None:
    due = due_at(format_time(stored), interval, NOW)
    assert due <= NOW + interval + SKEW
    whole = stored.replace(microsecond=0)
    if whole <= NOW + SKEW:
        assert due == whole + interval


@given(st.text())
def test_what_cannot_be_read_puts_nothing_off(stored: str) -> None:
    if read_time(stored) is None:
        assert due_at(stored, timedelta(minutes=1), NOW) <= NOW


@given(times, intervals)
def test_believed_is_a_bound_and_lets_the_past_be(when: datetime, within: timedelta) -> None:
    assert believed(when, NOW, within) == (when <= NOW + within + SKEW)


@given(times, intervals, st.none() | intervals)
def test_the_next_tick_is_within_an_interval_whatever_is_stored(
    stored: datetime, interval: timedelta, former: timedelta | None
) -> None:
    schedule = advance(NOW, interval, stored, former)
    assert NOW < schedule.next <= NOW + interval + SKEW


@given(times, intervals)
def test_a_tick_that_is_not_believed_starts_no_run_and_keeps_the_anchor(stored: datetime, interval: timedelta) -> None:
    schedule = advance(NOW, interval, stored, interval)
    if not believed(stored, NOW, interval):
        assert not schedule.due
        assert schedule.next <= NOW + interval
        assert (stored - schedule.next) % interval == timedelta(0)
