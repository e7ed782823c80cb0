"""The parts of one controller process, put together: what there is, not how it lives (that is ``manager``)."""

import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from magos.api.meta import Kind
from magos.runtime.client.client import ApiClient
from magos.runtime.client.transport import Transport
from magos.runtime.client.watchevents import Undecodable
from magos.runtime.clock import Clock
from magos.runtime.controller.controller import Controller, ControllerSpec, Machinery
from magos.runtime.controller.effects import Executor
from magos.runtime.controller.events import EventRecorder
from magos.runtime.controller.passes import PassObserver
from magos.runtime.decision import UNREADABLE, Event, EventType
from magos.runtime.leaderelection.elector import LeaderElector, StopGuard
from magos.runtime.leaderelection.record import Candidate
from magos.runtime.leaderelection.resourcelock import ApiLease
from magos.runtime.manager.assembly import Assembly
from magos.runtime.manager.health import Check, Health, LoopMonitor
from magos.runtime.manager.instruments import PassCounts, RuntimeMetrics
from magos.runtime.manager.metrics import Metrics
from magos.runtime.manager.metricsauth import MetricsAuth
from magos.runtime.manager.metricsserver import MetricsEndpoint, ServingCertificate
from magos.runtime.manager.settings import Settings
from magos.runtime.manager.webserver import WebServer

STUCK_AFTER = 300.0
"""Seconds after which a worker that has not finished its pass counts as stuck."""


class ControllerApp(Struct, frozen=True, kw_only=True):
    """One controller process. ``name`` (``workspace-controller``) is the Lease's default name and who reports Events.

    ``build`` declares the informers and returns the controllers over them; it does no I/O.
    """

    name: str
    settings: Settings
    build: Callable[[Assembly], Sequence[ControllerSpec]]


class Unguarded:
    """The guard of a process without election."""

    def arm(self, until: float) -> None:
        """There is no lease to guard."""

    def disarm(self) -> None:
        """There is no lease to guard."""


class Host(Struct, frozen=True, kw_only=True):
    """What the operating system process around a manager offers.

    ``guard`` ends the process if the loop cannot (``watchdog.Watchdog``); ``on_filled`` is called once all caches are;
    ``metrics`` and ``instruments`` are made before the transport, whose requests they count.
    """

    guard: StopGuard = Unguarded()
    on_filled: Callable[[], None] = lambda: None
    metrics: Metrics | None = None
    instruments: RuntimeMetrics | None = None


class Composition:
    """Everything in the process. Raises ``ConfigurationError`` for settings that cannot be kept."""

    def __init__(
        self, app: ControllerApp, transport: Transport, *, clock: Clock, rng: random.Random, host: Host
    ) -> None:
        self.app = app
        self.working = False
        self.monitor = LoopMonitor(clock)
        self._clock = clock
        self._host = host
        client = ApiClient(transport)
        assembly = Assembly(client, clock, rng, app.settings, host.metrics)
        specs = app.build(assembly)
        self.informers = assembly.informers
        self.companions = assembly.companions
        self.elector = self._candidate(client, rng) if app.settings.leader_elect else None
        reporter = (app.name, app.settings.identity or app.name)
        self.recorder = EventRecorder(client, clock, rng, reporter=reporter, dropped=self._count_dropped_events())
        caches = assembly.caches()
        machinery = Machinery(
            client=client,
            clock=clock,
            rng=rng,
            informers=self.informers,
            caches=caches,
            executor=Executor(client, caches, clock=clock, still_leading=self.still_leading, emit=self.recorder.emit),
        )
        self.controllers = tuple(self._controller(spec, machinery) for spec in specs)
        for informer in self.informers:
            informer.on_undecodable(partial(self._tell_undecodable, informer.kind))
        if host.instruments is not None:
            host.instruments.watch_informers(self.informers)
        self.certificate: ServingCertificate | None = None
        self.servers = tuple(self._endpoints(client))

    def still_leading(self) -> bool:
        """Tell whether this process may write right now."""
        return self.working and (self.elector is None or self.elector.still_leading())

    def begin(self) -> None:
        """Start to work: from now on Events report objects that cannot be decoded, the known ones at once."""
        self.working = True
        for informer in self.informers:
            for bad in informer.cache.undecodable.values():
                self._tell_undecodable(informer.kind, bad)

    def _tell_undecodable(self, kind: Kind[Any], bad: Undecodable) -> None:
        """Record an Event about the object, which is not reconciled until a person corrects it."""
        meta = bad.metadata
        if not (meta.name and self.still_leading()):
            return
        event = Event(
            regarding=kind.ref(meta.namespace, meta.name),
            uid=meta.uid,
            type=EventType.WARNING,
            reason=UNREADABLE,
            action="Decode",
            note=f"{bad.unreadable(kind)}. Until then nothing is decided about what depends on it.",
            api_version=kind.api_version,
            resource_version=meta.resource_version,
        )
        self.recorder.emit(event)

    def unready(self) -> str:
        """Return what is not ready yet, empty if everything is; a standby is ready."""
        unfilled = [each.kind.resource for each in self.informers if not each.synced]
        return f"caches not filled: {', '.join(unfilled)}" if unfilled else ""

    def unhealthy(self) -> str:
        """Return what is stuck, empty if nothing is."""
        stuck = [f"{each.name} {key}" for each in self.controllers for key in each.stuck(STUCK_AFTER)]
        return f"workers stuck for {STUCK_AFTER:g} s: {', '.join(stuck)}" if stuck else ""

    def _controller(self, spec: ControllerSpec, machinery: Machinery) -> Controller:
        instruments, metrics = self._host.instruments, self._host.metrics
        if instruments is None or metrics is None:
            return Controller(spec, machinery)
        observers: list[PassObserver] = [instruments]
        if self.app.settings.metrics_per_object:
            counts = PassCounts(spec.name, spec.kind, machinery.caches)
            observers.append(counts)
            metrics.collect(counts.collect)
        queue_observers = (instruments.observe_queue(spec.name),)
        controller = Controller(spec, machinery, observers=observers, queue_observers=queue_observers)
        instruments.watch_queue(controller.queue)
        return controller

    def _count_dropped_events(self) -> Callable[[], None] | None:
        if self._host.metrics is None:
            return None
        name = "events_dropped_total"
        return self._host.metrics.counter(name, "Events that could not be sent.", (), known=((),)).add

    def _endpoints(self, client: ApiClient) -> Iterator[WebServer]:
        settings, metrics = self.app.settings, self._host.metrics
        if settings.health is not None:
            live: dict[str, Check] = {"loop": self.monitor.problem, "workers": self.unhealthy}
            yield WebServer(settings.health, Health(live=live, ready={"caches": self.unready}).handle)
        if settings.metrics is not None and metrics is not None:
            auth = None
            if settings.metrics_secure:
                auth = MetricsAuth(client, self._clock)
                self.certificate = ServingCertificate(settings)
            tls = None if self.certificate is None else self.certificate.context
            yield WebServer(settings.metrics, MetricsEndpoint(metrics, auth).handle, tls)

    def _candidate(self, client: ApiClient, rng: random.Random) -> LeaderElector:
        settings = self.app.settings
        name = settings.leader_elect_id or self.app.name
        identity = f"{settings.identity or self.app.name}_{rng.getrandbits(64):016x}"
        candidate = Candidate(namespace=settings.namespace, name=name, identity=identity)
        store = ApiLease(client, settings.namespace, name)
        elector = LeaderElector(candidate, store, self._clock, rng, self._host.guard)
        if self._host.instruments is not None:
            self._host.instruments.watch_leadership(name, elector.still_leading)
        return elector
