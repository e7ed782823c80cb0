"""Metrics under exact names, as OpenTelemetry instruments read through its Prometheus exporter.

Promises:

1. A name is exposed as it is written: no unit suffix, prefix or scope label is added. A counter's name ends in
   ``_total``.
2. A label set that is declared exists with 0 from the start, of histograms too.
3. Counting on the loop costs a dictionary entry (counters) or one recorded value (histograms). At a scrape the
   loop only takes a snapshot; the text is made in a thread.
4. What exists once per object comes from a *collector*: a function that is called on the loop at each scrape and
   returns whole families. Nothing is kept for it, so the series of a deleted object end with the object, and no limit
   of the SDK folds them together.

OpenTelemetry is imported when the first ``Metrics`` is made: a process that exposes none does not pay for it.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

import structlog
from msgspec import Struct

from magos.errors import InvariantViolation

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Observation
    from opentelemetry.sdk.metrics import Histogram as OtelHistogram
    from prometheus_client import Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_log = structlog.get_logger(__name__)
_LABEL_SETS = 1_000_000


class FamilyType(StrEnum):
    """What a family of samples is."""

    COUNTER = "counter"
    GAUGE = "gauge"


class Sample(Struct, frozen=True, gc=False):
    """One series at one moment; ``values`` in the order of the family's labels."""

    values: tuple[str, ...]
    value: float


class Family(Struct, frozen=True, kw_only=True):
    """All series of one name at one moment."""

    name: str
    help: str
    type: FamilyType = FamilyType.GAUGE
    labels: tuple[str, ...] = ()
    samples: Sequence[Sample] = ()


Collector = Callable[[], Iterable[Family]]
"""Called on the loop at each scrape; must not block."""


class Counter:
    """Counts by label values, which are few and known in kind: never names of objects."""

    def __init__(self, labels: tuple[str, ...], known: Iterable[tuple[str, ...]] = ()) -> None:
        self._labels = labels
        self._counts: dict[tuple[str, ...], float] = dict.fromkeys(known, 0.0)
        self._snapshot: list[tuple[tuple[str, ...], float]] = []

    def declare(self, *values: str) -> None:
        """Let the series exist with 0."""
        self._counts.setdefault(values, 0.0)

    def add(self, *values: str, by: float = 1) -> None:
        """Count; ``values`` in the order of the labels."""
        self._counts[values] = self._counts.get(values, 0.0) + by

    def snapshot(self) -> None:
        """Keep what is to be exposed by the scrape that follows; on the loop."""
        self._snapshot = list(self._counts.items())

    def observe(self, options: "CallbackOptions") -> Iterator["Observation"]:
        """Return the snapshot to the SDK; in any thread."""
        from opentelemetry.metrics import Observation

        del options
        for values, count in self._snapshot:
            yield Observation(count, dict(zip(self._labels, values, strict=True)))


class Histogram:
    """Distributes values into buckets, by label values that are few and known in kind."""

    def __init__(self, instrument: "OtelHistogram", name: str, labels: tuple[str, ...], buckets: list[float]) -> None:
        self.name = name
        self.labels = labels
        self.buckets = buckets
        self.known: set[tuple[str, ...]] = set()
        self._instrument = instrument

    def declare(self, *values: str) -> None:
        """Let the series exist with 0."""
        self.known.add(values)

    def record(self, value: float, *values: str) -> None:
        """Record ``value``; ``values`` in the order of the labels."""
        self._instrument.record(value, dict(zip(self.labels, values, strict=True)))


class Metrics:
    """Everything one process exposes. Declared once, at start."""

    def __init__(self) -> None:
        from opentelemetry.exporter.prometheus import PrometheusMetricReader
        from opentelemetry.sdk.metrics import (
            AlwaysOffExemplarFilter,
            MeterProvider,
            ObservableCounter,
        )
        from opentelemetry.sdk.resources import Resource
        from prometheus_client import CollectorRegistry

        self._inner = CollectorRegistry()
        reader = PrometheusMetricReader(
            disable_target_info=True,
            scope_info_enabled=False,
            registry=self._inner,
            cardinality_limits={ObservableCounter: _LABEL_SETS},
        )
        provider = MeterProvider(
            metric_readers=[reader],
            resource=Resource({}),
            exemplar_filter=AlwaysOffExemplarFilter(),
            shutdown_on_exit=False,
        )
        self._meter = provider.get_meter("magos")
        self._helps: dict[str, str] = {}
        self._counters: list[Counter] = []
        self._histograms: dict[str, Histogram] = {}
        self._collectors: list[Collector] = []
        self._scraping = asyncio.Lock()

    def counter(
        self, name: str, description: str, labels: tuple[str, ...], known: Iterable[tuple[str, ...]] = ()
    ) -> Counter:
        """Declare a counter; ``known`` are the label values that exist from the start."""
        self._claim(name, description)
        if not name.endswith("_total"):
            raise InvariantViolation(f"the counter {name} must end in _total")
        counter = Counter(labels, known)
        self._counters.append(counter)
        self._meter.create_observable_counter(name, callbacks=[counter.observe], description=description)
        return counter

    def histogram(self, name: str, description: str, labels: tuple[str, ...], buckets: Sequence[float]) -> Histogram:
        """Declare a histogram with the upper bounds of its buckets, without +Inf."""
        self._claim(name, description)
        instrument = self._meter.create_histogram(
            name, description=description, explicit_bucket_boundaries_advisory=list(buckets)
        )
        histogram = Histogram(instrument, name, labels, list(buckets))  # type: ignore[arg-type]
        self._histograms[name] = histogram
        return histogram

    def collect(self, collector: Collector) -> None:
        """Add a collector; families of one name from several collectors are exposed as one."""
        self._collectors.append(collector)

    async def render(self) -> bytes:
        """Return the exposition in the Prometheus text format; one scrape at a time."""
        async with self._scraping:
            for counter in self._counters:
                counter.snapshot()
            collected: dict[str, list[Family]] = {}
            for collector in self._collectors:
                for family in self._collected(collector):
                    collected.setdefault(family.name, []).append(family)
            return await asyncio.to_thread(self._exposition, collected)

    def _claim(self, name: str, description: str) -> None:
        if name in self._helps:
            raise InvariantViolation(f"the metric {name} is declared twice")
        self._helps[name] = description

    @staticmethod
    def _collected(collector: Collector) -> list[Family]:
        try:
            return list(collector())
        except Exception:  # noqa: BLE001 - one broken collector must not hide all other metrics
            _log.exception("metrics collector failed", collector=getattr(collector, "__qualname__", repr(collector)))
            return []

    def _exposition(self, collected: dict[str, list[Family]]) -> bytes:
        from prometheus_client import generate_latest

        families = {family.name: family for family in self._inner.collect()}
        for histogram in self._histograms.values():
            families[histogram.name] = self._with_zeros(histogram, families.get(histogram.name))
        for name, parts in collected.items():
            families[name] = _merged(parts)
        return generate_latest(_Fixed([families[name] for name in sorted(families)]))

    def _with_zeros(self, histogram: Histogram, family: "Metric | None") -> "Metric":
        """Add the declared series that no value was recorded for: the SDK exposes only what was recorded."""
        from prometheus_client.core import HistogramMetricFamily

        labels = sorted(histogram.labels)
        zeros = HistogramMetricFamily(histogram.name, self._helps[histogram.name], labels=labels)
        present = set()
        for sample in family.samples if family is not None else ():
            zeros.samples.append(sample)
            present.add(tuple(sample.labels[label] for label in histogram.labels))
        buckets = [(str(bound), 0.0) for bound in (*histogram.buckets, "+Inf")]
        for values in sorted(histogram.known - present):
            by_label = dict(zip(histogram.labels, values, strict=True))
            zeros.add_metric([by_label[label] for label in labels], buckets, 0.0)
        return zeros


def _merged(parts: Sequence[Family]) -> "Metric":
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    first = parts[0]
    make = CounterMetricFamily if first.type is FamilyType.COUNTER else GaugeMetricFamily
    family = make(first.name, first.help, labels=first.labels)
    for part in parts:
        for sample in part.samples:
            family.add_metric(sample.values, sample.value)
    return family


class _Fixed:
    """Families that were collected already, as a registry."""

    def __init__(self, families: "Sequence[Metric]") -> None:
        self._families = families

    def collect(self) -> "Iterable[Metric]":
        return self._families
