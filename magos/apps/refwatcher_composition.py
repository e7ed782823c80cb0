"""What RefWatcher watches, and how reconciler and poller work together (spec §6.7).

A pass does no I/O: it keeps the registry in step with the Workspace and carries out what the last poll meant for it.
The poller runs beside the controller, so only on the leader; it wakes passes and writes nothing.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from magos.api.kube import SECRET_METADATA, SecretMetadata
from magos.api.workspace import WORKSPACES, Workspace
from magos.apps.refwatcher_access import SELECTOR, AccessReader
from magos.apps.refwatcher_listing import GitLister, host_of
from magos.apps.refwatcher_metrics import PollMetrics
from magos.apps.refwatcher_poller import Lister, Poller, nothing_to_do
from magos.outbound.peers import Peers
from magos.reconcilers.refwatcher.machine import Observation, reconcile
from magos.reconcilers.refwatcher.schedule import PollLimits
from magos.reconcilers.refwatcher.watch import DEFAULT_POLL_INTERVAL, RepositoryAccess, WatchSettings, observe
from magos.runtime.cache.informer import Change, Informer
from magos.runtime.controller.controller import ControllerSpec
from magos.runtime.controller.source import EventSource, WakeUp, own_key
from magos.runtime.controller.workqueue import Key
from magos.runtime.decision import Decision, Outcome, Reconciler, Request, View
from magos.runtime.manager.assembly import Assembly

__all__ = ["RefWatcherSettings", "refwatcher_controller"]


class RefWatcherSettings(Struct, frozen=True, kw_only=True):
    """What the flags and the environment of RefWatcher say (spec §13.2)."""

    default_poll_interval: timedelta = DEFAULT_POLL_INTERVAL
    limits: PollLimits = PollLimits()
    allowed_schemes: tuple[str, ...] = ("https", "http", "ssh")
    peers: Peers = Peers()


def refwatcher_controller(
    assembly: Assembly, settings: RefWatcherSettings, lister: Lister | None = None
) -> Sequence[ControllerSpec]:
    """Declare the informers and return the controller; ``lister`` stands for the Git servers of a simulation."""
    workspaces = assembly.informer(WORKSPACES)
    secrets = assembly.informer(SECRET_METADATA, selector=SELECTOR)
    access, wake_up = AccessReader(), WakeUp()
    if lister is None:
        lister = GitLister(
            assembly.client,
            access,
            assembly.clock,
            allowed_schemes=settings.allowed_schemes,
            peers=settings.peers,
            threads=settings.limits.workers,
        )
    poller = Poller(settings.limits, lister, workspaces.cache.get, wake_up, clock=assembly.clock, rng=assembly.rng)
    if assembly.metrics is not None:
        per_object = assembly.settings.metrics_per_object
        poller.observer = PollMetrics(assembly.metrics, poller.schedule, per_object=per_object)
    assembly.beside("poller", poller.run)
    watching = WatchSettings(default_interval=settings.default_poll_interval, host_of=host_of)
    return (
        ControllerSpec(
            name="refwatcher",
            kind=WORKSPACES,
            reconcile=_reconciler(poller, watching),
            sources=(EventSource(workspaces, own_key), EventSource(secrets, _of_namespace(workspaces))),
            workers=assembly.settings.workers,
            queries={RepositoryAccess: access},
            wake_ups=(wake_up,),
        ),
    )


def _reconciler(poller: Poller, settings: WatchSettings) -> Reconciler:
    """Return the reconciler: two pure functions, and the registry in memory between them."""

    def decide(request: Request, view: View, now: datetime) -> Decision:
        key = Key(request.namespace, request.name)
        subject = observe(request, view, settings)
        if subject.ask is not None:
            return Decision(queries=(subject.ask,), outcome=Outcome.WAITING)
        if subject.watch is None:
            poller.drop(key)
        else:
            poller.track(key, subject.watch)
        if subject.workspace is None:
            return Decision(outcome=Outcome.GONE)
        heard, watch = poller.heard(key), subject.watch
        similar = watch.access.similar if watch is not None else ()
        decision = reconcile(
            Observation(now=now, workspace=subject.workspace, polled=watch is not None, answer=heard, similar=similar)
        )
        if heard is not None and nothing_to_do(decision):
            poller.settle(key)
        return decision

    return decide


def _of_namespace(workspaces: Informer[Workspace]) -> Callable[[Change[SecretMetadata]], Iterable[Key]]:
    """Metadata does not tell the URL: every Workspace of the namespace looks which credentials it has now."""

    def mapper(change: Change[SecretMetadata]) -> Iterable[Key]:
        secret = change.new if change.new is not None else change.old
        if secret is None or change.initial:
            return ()
        return tuple(
            Key(each.metadata.namespace, each.metadata.name)
            for each in workspaces.cache.list(secret.metadata.namespace)
        )

    return mapper
