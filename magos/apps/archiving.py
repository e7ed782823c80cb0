"""What keeps the evidence of runs, as a part of the workspace controller: the archivist and two small controllers.

One controller releases the Jobs that are archived; it is there also where nothing is kept (any more), so that no Job is
held by a finalizer that nobody would take off. The other one disposes of what deleted Workspaces have left.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from magos.adapters.archivist.archivist import Archivist
from magos.adapters.archivist.delivery import Delivery
from magos.adapters.archivist.stores import Stores
from magos.adapters.archivist.sweeper import Sweeper
from magos.adapters.metrics.archive import ArchiveMetrics
from magos.api import labels
from magos.api.kube import CONFIG_MAPS, JOBS, PODS, Job, Pod
from magos.api.meta import controller_of
from magos.api.workspace import WORKSPACES, Workspace
from magos.history.model import WorkspaceKey
from magos.reconcilers.archive.jobs import judge, release
from magos.reconcilers.archive.keeping import Keeping, Standing
from magos.reconcilers.archive.parcels import dispose, open_parcel
from magos.reconcilers.workspace.observation import BY_WORKSPACE, workspace_index
from magos.runtime.cache.cache import Change
from magos.runtime.cache.informer import Informer
from magos.runtime.controller.controller import ControllerSpec
from magos.runtime.controller.source import EventSource, WakeUp, own_key, owner_key
from magos.runtime.controller.workqueue import Key
from magos.runtime.decision import Decision, Outcome, Reconciler, Request, View
from magos.runtime.manager.assembly import Assembly


class Informers(Struct, frozen=True):
    """What the workspace controller watches already; Jobs and pods are indexed by ``BY_WORKSPACE``."""

    workspaces: Informer[Workspace]
    jobs: Informer[Job]
    pods: Informer[Pod]


class Archiving(Struct, frozen=True):
    """``standing`` tells what is stored of a Workspace's records; ``wake_ups`` are for the Workspace's controller."""

    standing: Callable[[Workspace], Standing]
    specs: Sequence[ControllerSpec]
    wake_ups: Sequence[WakeUp] = ()


def archiving(assembly: Assembly, keeping: Keeping, stores: Stores | None, seen: Informers) -> Archiving:
    """Compose it; without ``stores`` nothing is kept, and only Jobs that still carry the finalizer are let go."""
    if stores is None or not keeping.on:
        return Archiving(standing=lambda _workspace: Standing(), specs=(_jobs(Keeping(), None, seen),))

    def pods_of(namespace: str, name: str, uid: str) -> list[Pod]:
        job = seen.jobs.cache.get(namespace, name)
        return _pods_of(job, seen.pods.cache.by_index) if job is not None and job.metadata.uid == uid else []

    delivery = Delivery(stores, keeping, assembly.client, assembly.clock, pods_of)
    archivist = Archivist(delivery, assembly.clock)
    assembly.beside("archivist", archivist.run)
    if stores.sweep is not None:
        assembly.beside("history sweeper", Sweeper(stores.sweep, seen.workspaces, assembly.clock).run)
    if assembly.metrics is not None:
        archivist.observer = ArchiveMetrics(assembly.metrics, archivist.ledger)
    specs = [_jobs(keeping, archivist, seen)]
    if keeping.namespace:
        parcels = assembly.informer(CONFIG_MAPS, namespace=keeping.namespace, selector=labels.OUTBOX)
        specs.append(
            ControllerSpec(
                name="outbox",
                kind=CONFIG_MAPS,
                reconcile=_parcel_reconciler(archivist),
                sources=(EventSource(parcels, own_key),),
                workers=1,
                wake_ups=(archivist.parcels,),
            )
        )

    def standing(workspace: Workspace) -> Standing:
        records = workspace.status.history_outbox if keeping.records else ()
        return archivist.runs(_key_of(workspace), records)

    return Archiving(standing=standing, specs=specs, wake_ups=(archivist.workspaces,))


def _jobs(keeping: Keeping, archivist: Archivist | None, seen: Informers) -> ControllerSpec:
    return ControllerSpec(
        name="archive",
        kind=JOBS,
        reconcile=_job_reconciler(keeping, archivist),
        sources=(
            EventSource(seen.jobs, _if_held),
            EventSource(seen.pods, _of_pod(seen.jobs)),
            EventSource(seen.workspaces, _of_workspace(seen.jobs)),
        ),
        workers=2,
        wake_ups=(archivist.jobs,) if archivist is not None else (),
    )


def _job_reconciler(keeping: Keeping, archivist: Archivist | None) -> Reconciler:
    """Return the reconciler: two pure functions, and the archivist's ledger between them."""

    def decide(request: Request, view: View, _now: datetime) -> Decision:
        job = view.get(JOBS, request.namespace, request.name)
        owner = controller_of(job.metadata) if job is not None else None
        workspace = view.get(WORKSPACES, request.namespace, owner.name) if owner is not None else None
        pods = _pods_of(job, lambda index, value: view.by_index(PODS, index, value)) if job is not None else []
        task = judge(job, tuple(pods), workspace, keeping) if job is not None else None
        if task is None:
            if archivist is not None:
                archivist.gone(Key(request.namespace, request.name))
            return Decision(outcome=Outcome.GONE)
        if view.stale:
            return Decision(outcome=Outcome.WAITING)
        return release(task, archivist.job(task) if archivist is not None else None, workspace)

    return decide


def _parcel_reconciler(archivist: Archivist) -> Reconciler:
    def decide(request: Request, view: View, _now: datetime) -> Decision:
        stored = view.get(CONFIG_MAPS, request.namespace, request.name)
        if stored is None:
            archivist.emptied(Key(request.namespace, request.name))
            return Decision(outcome=Outcome.GONE)
        parcel = open_parcel(stored)
        standing = Standing()
        if parcel is not None:
            key = WorkspaceKey(uid=parcel.uid, namespace=parcel.namespace, name=parcel.name, project=parcel.project)
            standing = archivist.runs(key, parcel.records, parcel=Key(request.namespace, request.name))
        return dispose(stored, parcel, standing)

    return decide


def _pods_of(job: Job, by_index: Callable[[str, str], Sequence[Pod]]) -> list[Pod]:
    label = job.metadata.labels.get(labels.WORKSPACE, "")
    owners = (
        (pod, controller_of(pod.metadata))
        for pod in by_index(BY_WORKSPACE, workspace_index(job.metadata.namespace, label))
    )
    return [pod for pod, owner in owners if owner is not None and owner.uid == job.metadata.uid]


def _key_of(workspace: Workspace) -> WorkspaceKey:
    meta = workspace.metadata
    return WorkspaceKey(uid=meta.uid, namespace=meta.namespace, name=meta.name, project=workspace.spec.project_ref.name)


def _is_held(job: Job | None) -> bool:
    return job is not None and labels.ARCHIVE_FINALIZER in job.metadata.finalizers


def _if_held(change: Change[Job]) -> Iterable[Key]:
    return own_key(change) if _is_held(change.old) or _is_held(change.new) else ()


def _of_pod(jobs: Informer[Job]) -> Callable[[Change[Any]], Iterable[Key]]:
    of_job = owner_key(JOBS)
    return lambda change: tuple(key for key in of_job(change) if _is_held(jobs.cache.get(*key)))


def _of_workspace(jobs: Informer[Job]) -> Callable[[Change[Workspace]], Iterable[Key]]:
    """A Workspace that has come past a Job's end, or is gone, needs it no more."""

    def mapper(change: Change[Workspace]) -> Iterable[Key]:
        workspace = change.new if change.new is not None else change.old
        if workspace is None:
            return ()
        meta = workspace.metadata
        value = workspace_index(meta.namespace, labels.workspace_label(meta.name))
        found = jobs.cache.by_index(BY_WORKSPACE, value)
        return tuple(Key(job.metadata.namespace, job.metadata.name) for job in found if _is_held(job))

    return mapper
