"""The runtime's own metrics, under the names that dashboards for controllers know.

Wire it up like this: ``observe_queue`` before and ``watch_queue`` after a controller's queue is made, the instance
itself as observer of passes, ``request`` as observer of the transport, ``watch_leadership`` for the elector and
``watch_informers`` for the informers. ``PassCounts`` counts the passes of each object.
"""

from collections.abc import Callable, Iterable
from typing import Any

from magos.api.meta import Kind
from magos.runtime.cache.informer import Informer
from magos.runtime.controller.passes import PassReport, Result
from magos.runtime.controller.view import Caches
from magos.runtime.controller.workqueue import Key, WorkQueue
from magos.runtime.manager.metrics import Family, FamilyType, Metrics, Sample

PASS_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
QUEUE_BUCKETS = (1e-05, 0.0001, 0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
_QUEUE = ("name", "controller")
_OBJECT = ("namespace", "name", "result")


class QueueMetrics:
    """Observes one queue (``workqueue.QueueObserver``)."""

    def __init__(self, owner: "RuntimeMetrics", controller: str) -> None:
        self._owner = owner
        self._values = (controller, controller)

    def added(self) -> None:
        """Count an add."""
        self._owner.adds.add(*self._values)

    def retried(self) -> None:
        """Count a retry."""
        self._owner.retries.add(*self._values)

    def started(self, waited: float) -> None:
        """Record the time in the queue."""
        self._owner.waited.record(waited, *self._values)

    def finished(self, worked: float) -> None:
        """Record the time with a worker."""
        self._owner.worked.record(worked, *self._values)


class RuntimeMetrics:
    """All of them, for one process."""

    def __init__(self, metrics: Metrics) -> None:
        self.passes = metrics.counter(
            "controller_runtime_reconcile_total", "Reconcile passes by result.", ("controller", "result")
        )
        self.errors = metrics.counter(
            "controller_runtime_reconcile_errors_total", "Reconcile passes that failed.", ("controller",)
        )
        self.seconds = metrics.histogram(
            "controller_runtime_reconcile_time_seconds", "Duration of reconcile passes.", ("controller",), PASS_BUCKETS
        )
        self.adds = metrics.counter("workqueue_adds_total", "Keys that became wanted.", _QUEUE)
        self.retries = metrics.counter("workqueue_retries_total", "Keys that failed and wait to be retried.", _QUEUE)
        self.waited = metrics.histogram(
            "workqueue_queue_duration_seconds", "Time from wanted to handed out.", _QUEUE, QUEUE_BUCKETS
        )
        self.worked = metrics.histogram(
            "workqueue_work_duration_seconds", "Time a worker had a key.", _QUEUE, QUEUE_BUCKETS
        )
        self.requests = metrics.counter(
            "rest_client_requests_total", "Requests to the API server.", ("code", "method", "host")
        )
        self._queues: list[WorkQueue] = []
        self._leaders: dict[str, Callable[[], bool]] = {}
        self._informers: tuple[Informer[Any], ...] = ()
        metrics.collect(self._collect)

    def observe_queue(self, controller: str) -> QueueMetrics:
        """Declare the series of a controller and its queue of the same name; return the queue's observer."""
        for result in Result:
            self.passes.declare(controller, result.value)
        self.errors.declare(controller)
        self.seconds.declare(controller)
        for declared in (self.adds, self.retries, self.waited, self.worked):
            declared.declare(controller, controller)
        return QueueMetrics(self, controller)

    def watch_queue(self, queue: WorkQueue) -> None:
        """Expose the queue's depth and what its workers have."""
        self._queues.append(queue)

    def watch_leadership(self, name: str, still_leading: Callable[[], bool]) -> None:
        """Expose whether this process holds the Lease ``name``."""
        self._leaders[name] = still_leading

    def watch_informers(self, informers: Iterable[Informer[Any]]) -> None:
        """Expose how many objects of each resource cannot be decoded."""
        self._informers = tuple(informers)

    def passed(self, report: PassReport) -> None:
        """Count a pass (``passes.PassObserver``)."""
        self.passes.add(report.controller, report.result.value)
        if report.result is Result.ERROR:
            self.errors.add(report.controller)
        self.seconds.record(report.seconds, report.controller)

    def declare_host(self, host: str) -> None:
        """Let the series of requests that succeed exist from the start."""
        for code, method in (("200", "GET"), ("201", "POST"), ("200", "PUT"), ("200", "PATCH"), ("200", "DELETE")):
            self.requests.declare(code, method, host)

    def request(self, code: str, method: str, host: str) -> None:
        """Count a request to the API server."""
        self.requests.add(code, method, host)

    def _collect(self) -> Iterable[Family]:
        depth, unfinished, longest = [], [], []
        for queue in self._queues:
            values = (queue.name, queue.name)
            running = [seconds for _, seconds in queue.running()]
            depth.append(Sample(values, float(len(queue))))
            unfinished.append(Sample(values, sum(running)))
            longest.append(Sample(values, max(running, default=0.0)))
        yield _gauge("workqueue_depth", "Keys ready to be handed out.", _QUEUE, depth)
        yield _gauge("workqueue_unfinished_work_seconds", "Time of all passes under way.", _QUEUE, unfinished)
        yield _gauge(
            "workqueue_longest_running_processor_seconds", "Time of the longest pass under way.", _QUEUE, longest
        )
        undecodable = [Sample((each.kind.resource,), float(len(each.cache.undecodable))) for each in self._informers]
        what = "Objects that exist and cannot be decoded; nothing is decided about what depends on them."
        yield _gauge("informer_undecodable_objects", what, ("resource",), undecodable)
        leaders = [Sample((name,), float(leads())) for name, leads in self._leaders.items()]
        yield _gauge("leader_election_master_status", "1 if this process holds the Lease.", ("name",), leaders)


class PassCounts:
    """``<kind>_reconcile_total``: passes of each object by result, for as long as the object exists.

    Observes the passes of one controller (``passes.PassObserver``); ``collect`` is a ``metrics.Collector``, because
    series per object belong neither into the SDK's limits nor on after the object's end.
    """

    def __init__(self, controller: str, kind: Kind[Any], caches: Caches) -> None:
        self._name = f"{controller}_reconcile_total"
        self._kind = kind
        self._caches = caches
        self._counts: dict[Key, list[int]] = {}

    def passed(self, report: PassReport) -> None:
        """Count a pass; one that only brings the next at once or waits out a conflict counts as success."""
        counts = self._counts.setdefault(report.key, [0, 0])
        counts[report.result is Result.ERROR] += 1

    def collect(self) -> Iterable[Family]:
        """Return the series of the objects that exist, and forget the others."""
        cache = self._caches.of(self._kind)
        for key in [key for key in self._counts if cache.get(*key) is None]:
            del self._counts[key]
        samples = [
            Sample((key.namespace, key.name, word), float(count))
            for key, counts in sorted(self._counts.items())
            for word, count in zip(("success", "error"), counts, strict=True)
        ]
        yield Family(
            name=self._name,
            help="Reconcile passes by object and result.",
            type=FamilyType.COUNTER,
            labels=_OBJECT,
            samples=samples,
        )


def _gauge(name: str, description: str, labels: tuple[str, ...], samples: list[Sample]) -> Family:
    return Family(name=name, help=description, type=FamilyType.GAUGE, labels=labels, samples=samples)
