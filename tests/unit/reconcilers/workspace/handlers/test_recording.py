"""A run leaves one record, by the very write that ends it; a record stays until it is stored."""

from datetime import timedelta

from msgspec.structs import replace

from magos.api.kube import CONFIG_MAPS, JOBS, PODS
from magos.api.labels import ARCHIVE_FINALIZER, FINALIZER
from magos.api.names import JobType
from magos.api.phases import Phase
from magos.api.workspace import WORKSPACES, RunRecord, RunResult
from magos.reconcilers.archive.keeping import Backlog, Keeping, Standing
from magos.reconcilers.archive.parcels import open_parcel
from magos.reconcilers.workspace.machine import reconcile
from magos.reconcilers.workspace.observation import observe
from magos.runtime.decision import Create, Decision, RemoveFinalizer, Request
from tests.unit.reconcilers.cluster import Cluster
from tests.unit.reconcilers.model import NAME, NAMESPACE, SETTINGS, ModelView
from tests.unit.reconcilers.results import apply_result, plan_result

KEPT = replace(SETTINGS, keeping=Keeping(records=True, logs=True, retention=3, namespace="magos-system"))


def results(model: Cluster) -> list[RunResult | None]:
    return [each.result for each in model.workspace.status.history_outbox]


def judged(model: Cluster, history: Standing) -> Decision:
    """One pass that is told what is stored."""
    view = ModelView(model.state, {}, None)
    seen = observe(Request(namespace=NAMESPACE, name=NAME), view, model.now, model.settings, b"abcd")
    return reconcile(replace(seen, history=history))


def applied(model: Cluster) -> None:
    model.to_applying()
    model.run_job_end(JobType.APPLY, apply_result(model))


def test_where_nothing_is_kept_there_is_neither_a_record_nor_a_finalizer() -> None:
    model = Cluster()
    applied(model)
    assert model.workspace.status.phase is Phase.APPLIED
    assert results(model) == []
    assert all(not job.metadata.finalizers for job in model.created_jobs)


def test_the_write_that_ends_a_run_holds_its_record() -> None:
    model = Cluster(KEPT)
    applied(model)
    [record] = model.workspace.status.history_outbox
    status = model.workspace.status
    assert (record.run_id, record.result, record.reason) == (status.current_run_id, RunResult.APPLIED, status.reason)
    assert record.revision == status.observed_revision
    assert record.started_at == status.last_run_started_at
    assert record.finished_at is not None
    assert all(job.metadata.finalizers == (ARCHIVE_FINALIZER,) for job in model.created_jobs)


def test_a_plan_that_a_reset_abandons_is_discarded() -> None:
    model = Cluster(KEPT)
    model.to_planning(auto_apply=False)
    model.run_job_end(JobType.PLAN, plan_result(model))
    first = model.workspace.status.current_run_id
    model.annotate(reconcile_request="again")
    model.settle()
    assert [(each.run_id, each.result) for each in model.workspace.status.history_outbox] == [
        (first, RunResult.DISCARDED)
    ]
    assert model.workspace.status.current_run_id != first


def test_records_leave_only_once_they_are_stored() -> None:
    model = Cluster(KEPT)
    applied(model)
    record = model.workspace.status.history_outbox[0]
    assert judged(model, Standing()).status is None, "a pass with nothing to confirm writes nothing"
    stored = judged(model, Standing(stored=frozenset({record}))).status
    assert stored is not None
    assert stored.desired.history_outbox == ()
    other = replace(record, message="another end")
    assert judged(model, Standing(stored=frozenset({other}))).status is None


def test_a_full_queue_gives_up_its_oldest_and_says_so() -> None:
    model = Cluster(KEPT)
    model.to_applying()
    waiting = tuple(RunRecord(run_id=f"run-{number}", result=RunResult.FAILED) for number in range(3))
    model.put(WORKSPACES, replace(model.workspace, status=replace(model.workspace.status, history_outbox=waiting)))
    model.run_job_end(JobType.APPLY, apply_result(model))
    kept = [each.run_id for each in model.workspace.status.history_outbox]
    assert kept == ["run-1", "run-2", model.workspace.status.current_run_id]
    lost = [event.note for event in model.events if event.reason == "ArchiveGivenUp"]
    assert len(lost) == 1
    assert lost[0].startswith("The record of run run-0 is given up: ")


def test_a_backlog_is_a_condition_for_as_long_as_it_lasts() -> None:
    model = Cluster(KEPT)
    applied(model)
    backlog = Backlog(count=2, since=model.now - timedelta(minutes=2), error="connection refused.")
    shown = judged(model, Standing(backlog=backlog)).status
    assert shown is not None
    told = next(each for each in shown.desired.conditions if each.type == "HistoryBacklog")
    assert told.message.startswith("2 records and logs wait to be stored since ")
    assert "connection refused. Runs go on" in told.message
    model.put(WORKSPACES, replace(model.workspace, status=shown.desired))
    assert judged(model, Standing(backlog=backlog)).status is None, "it is written once"
    gone = judged(model, Standing()).status
    assert gone is not None
    assert all(each.type != "HistoryBacklog" for each in gone.desired.conditions)


def deleted(model: Cluster) -> None:
    meta = replace(model.workspace.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    model.put(WORKSPACES, replace(model.workspace, metadata=meta))


def test_a_deletion_hands_on_what_is_not_stored_before_the_finalizer_goes() -> None:
    model = Cluster(KEPT)
    applied(model)
    record = model.workspace.status.history_outbox[0]
    deleted(model)
    model.settle()
    [parcel] = [open_parcel(item) for item in model.all(CONFIG_MAPS)]
    assert parcel is not None
    assert parcel.records == (record,)
    found = model.get(WORKSPACES, NAME)
    assert found is None or FINALIZER not in found.metadata.finalizers


def test_the_finalizer_goes_last_so_that_a_crash_before_it_loses_nothing() -> None:
    model = Cluster(KEPT)
    applied(model)
    deleted(model)
    effects = [model.step().effects for _ in range(3)]
    [last] = [each for each in effects if any(isinstance(effect, RemoveFinalizer) for effect in each)]
    assert [type(effect) for effect in last] == [Create, RemoveFinalizer]


def test_a_run_that_a_deletion_cuts_off_has_an_open_record_from_the_first_write_on() -> None:
    model = Cluster(KEPT)
    model.to_planning()
    run = model.workspace.status.current_run_id
    deleted(model)
    model.step()
    assert model.workspace.status.phase is Phase.DELETING
    assert [(each.run_id, each.result) for each in model.workspace.status.history_outbox] == [(run, None)]
    for job in model.all(JOBS):
        model.remove(JOBS, job.metadata.name)
    for pod in model.all(PODS):
        model.remove(PODS, pod.metadata.name)
    model.settle()
    [parcel] = [open_parcel(item) for item in model.all(CONFIG_MAPS)]
    assert parcel is not None
    assert [(each.run_id, each.result) for each in parcel.records] == [(run, RunResult.DISCARDED)]
