"""The metrics that each controller process exposes, asked of the processes themselves: composed, never started."""

import random
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import NoReturn

from msgspec import Struct

from magos.adapters.archivist.stores import Stores
from magos.api.kube import Pod
from magos.api.names import JobType
from magos.apps.project import project_controller
from magos.apps.refwatcher import RefWatcherSettings, refwatcher_controller
from magos.apps.rollout import rollout_controller
from magos.apps.variableset import variableset_controller
from magos.apps.workspace import workspace_controller
from magos.errors import InvariantViolation
from magos.reconcilers.archive.keeping import Keeping
from magos.reconcilers.workspace.pod.settings import WorkspaceSettings
from magos.runtime.client.transport import HttpRequest, HttpStream
from magos.runtime.clock import SystemClock
from magos.runtime.controller.controller import ControllerSpec
from magos.runtime.manager.assembly import Assembly
from magos.runtime.manager.composition import Composition, ControllerApp, Host
from magos.runtime.manager.instruments import RuntimeMetrics
from magos.runtime.manager.metrics import Collector, Counter, Histogram, Metrics
from magos.runtime.manager.settings import Settings

_KEPT = WorkspaceSettings(job_image="magos-job", keeping=Keeping(records=True, logs=True, namespace="magos-system"))


def _no_log(pod: Pod, _job_type: JobType) -> AsyncGenerator[bytes, None]:
    raise InvariantViolation(f"the log of {pod.metadata.name} is read by a process that was never started")


_BUILDS: Mapping[str, Callable[[Assembly], Sequence[ControllerSpec]]] = {
    "workspace": lambda assembly: workspace_controller(assembly, _KEPT, stores=Stores(None, None, read_log=_no_log)),
    "project": project_controller,
    "rollout": rollout_controller,
    "variableset": variableset_controller,
    "refwatcher": lambda assembly: refwatcher_controller(assembly, RefWatcherSettings()),
}


class Metric(Struct, frozen=True, kw_only=True):
    """One family; ``processes`` are those that expose it."""

    name: str
    kind: str
    labels: tuple[str, ...]
    help: str
    processes: tuple[str, ...]


class _Declared(Metrics):
    """Remembers what is declared."""

    def __init__(self) -> None:
        super().__init__()
        self.families: dict[str, tuple[str, tuple[str, ...], str]] = {}
        self.collectors: list[Collector] = []

    def counter(
        self, name: str, description: str, labels: tuple[str, ...], known: Iterable[tuple[str, ...]] = ()
    ) -> Counter:
        self.families[name] = ("counter", labels, description)
        return super().counter(name, description, labels, known)

    def histogram(self, name: str, description: str, labels: tuple[str, ...], buckets: Sequence[float]) -> Histogram:
        self.families[name] = ("histogram", labels, description)
        return super().histogram(name, description, labels, buckets)

    def collect(self, collector: Collector) -> None:
        self.collectors.append(collector)
        super().collect(collector)


class _Nowhere:
    """A transport without a server: composing a process makes no request."""

    async def request(self, request: HttpRequest) -> NoReturn:
        raise NotImplementedError(request.path)

    def stream(self, request: HttpRequest) -> AbstractAsyncContextManager[HttpStream]:
        raise NotImplementedError(request.path)

    async def aclose(self) -> None:
        return


def exposed_metrics() -> tuple[Metric, ...]:
    """Return all families of all processes, by name."""
    found: dict[str, tuple[str, tuple[str, ...], str]] = {}
    where: dict[str, list[str]] = {}
    for process in _BUILDS:
        for name, family in _families(process).items():
            found[name] = family
            where.setdefault(name, []).append(process)
    return tuple(
        Metric(name=name, kind=kind, labels=labels, help=text, processes=tuple(where[name]))
        for name, (kind, labels, text) in sorted(found.items())
    )


def _families(process: str) -> Mapping[str, tuple[str, tuple[str, ...], str]]:
    metrics = _Declared()
    settings = Settings(namespace="magos-system", leader_elect=True)
    app = ControllerApp(name=f"{process}-controller", settings=settings, build=_BUILDS[process])
    host = Host(metrics=metrics, instruments=RuntimeMetrics(metrics))
    Composition(app, _Nowhere(), clock=SystemClock(), rng=random.SystemRandom(), host=host)
    families = dict(metrics.families)
    for collector in metrics.collectors:
        for family in collector():
            families[family.name] = (str(family.type), family.labels, family.help)
    return families
