"""The metrics of RefWatcher (spec §12.1): what is polled, how long it takes, what it means for each Workspace."""

from collections.abc import Iterable

from magos.reconcilers.refwatcher.machine import PollResult
from magos.reconcilers.refwatcher.schedule import PollScheduler
from magos.runtime.controller.workqueue import Key
from magos.runtime.manager.metrics import Family, FamilyType, Metrics, Sample

_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 7.5, 10.0, 15.0)
_LABELS = ("namespace", "name", "result")


class PollMetrics:
    """Observes a poller; the series of a Workspace exist, from 0 on, for as long as it is polled."""

    def __init__(self, metrics: Metrics, schedule: PollScheduler, *, per_object: bool) -> None:
        self._schedule = schedule
        self._per_object = per_object
        self._counts: dict[Key, dict[PollResult, int]] = {}
        self._seconds = metrics.histogram("refwatcher_poll_duration_seconds", "Duration of a listing.", (), _BUCKETS)
        self._seconds.declare()
        metrics.collect(self._collect)

    def listed(self, seconds: float) -> None:
        """Record the duration of a listing."""
        self._seconds.record(seconds)

    def judged(self, key: Key, result: PollResult) -> None:
        """Count what a listing meant for a Workspace."""
        if self._per_object:
            counts = self._counts.setdefault(key, dict.fromkeys(PollResult, 0))
            counts[result] += 1

    def _collect(self) -> Iterable[Family]:
        yield Family(
            name="refwatcher_registry_size",
            help="Workspaces that are polled.",
            samples=[Sample((), float(len(self._schedule)))],
        )
        yield Family(
            name="refwatcher_worker_queue_depth",
            help="Sources that are queued for a worker.",
            samples=[Sample((), float(self._schedule.depth))],
        )
        if self._per_object:
            yield self._polls()

    def _polls(self) -> Family:
        known = {Key(*name): self._counts.get(Key(*name)) for name in self._schedule.names()}
        self._counts = {key: counts for key, counts in known.items() if counts is not None}
        return Family(
            name="refwatcher_poll_total",
            help="Polls by Workspace and by what they meant for it.",
            type=FamilyType.COUNTER,
            labels=_LABELS,
            samples=[
                Sample((key.namespace, key.name, result), float(0 if counts is None else counts[result]))
                for key, counts in sorted(known.items(), key=lambda item: item[0])
                for result in PollResult
            ],
        )
