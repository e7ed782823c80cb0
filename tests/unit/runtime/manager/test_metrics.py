"""The exposition is a contract: exact names, zeros from the start, nothing folded or left behind."""

import asyncio
import random
from collections.abc import Iterable
from pathlib import Path

import pytest
import structlog.testing
from prometheus_client.parser import text_string_to_metric_families

from magos.errors import InvariantViolation
from magos.runtime.controller.passes import PassReport, Result
from magos.runtime.controller.workqueue import Key, WorkQueue
from magos.runtime.manager.instruments import RuntimeMetrics
from magos.runtime.manager.metrics import Family, FamilyType, Metrics, Sample
from tests.sim.virtualtime import VirtualClock, run_virtual

GOLDEN = Path(__file__).parent / "golden"


def rendered(metrics: Metrics) -> str:
    return asyncio.run(metrics.render()).decode()


def runtime(metrics: Metrics) -> RuntimeMetrics:
    instruments = RuntimeMetrics(metrics)
    instruments.declare_host("api:443")
    return instruments


def test_a_fresh_process_exposes_exactly_this() -> None:
    async def main() -> str:
        metrics = Metrics()
        instruments = runtime(metrics)
        observer = instruments.observe_queue("workspace")
        instruments.watch_queue(WorkQueue(VirtualClock(), random.Random(1), "workspace", [observer]))
        instruments.watch_leadership("workspace-controller", lambda: False)
        return (await metrics.render()).decode()

    assert run_virtual(main) == (GOLDEN / "runtime_metrics_fresh.txt").read_text()


def test_what_happened_is_counted() -> None:
    async def main() -> str:
        clock = VirtualClock()
        metrics = Metrics()
        instruments = runtime(metrics)
        queue = WorkQueue(clock, random.Random(1), "workspace", [instruments.observe_queue("workspace")])
        instruments.watch_queue(queue)
        instruments.watch_leadership("workspace-controller", lambda: True)
        for name in "abc":
            queue.add(Key("ns", name))
        await asyncio.sleep(0.5)
        key = (await queue.get()).key
        await asyncio.sleep(0.25)
        queue.retry(key)
        queue.done(key)
        await queue.get()
        await asyncio.sleep(3)
        report = PassReport(controller="workspace", key=key, result=Result.ERROR, seconds=0.25)
        instruments.passed(report)
        for code in ("200", "200", "<error>"):
            instruments.request(code, "GET", "api:443")
        queue.forget(key)
        return (await metrics.render()).decode()

    samples = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(run_virtual(main))
        for sample in family.samples
    }
    queue = ("workspace", "workspace")
    assert samples["workqueue_depth", *queue] == 2
    assert samples["workqueue_adds_total", *queue] == 4
    assert samples["workqueue_retries_total", *queue] == 1
    assert samples["workqueue_unfinished_work_seconds", *queue] == pytest.approx(3)
    assert samples["workqueue_longest_running_processor_seconds", *queue] == pytest.approx(3)
    assert samples["workqueue_queue_duration_seconds_count", *queue] == 2
    assert samples["workqueue_queue_duration_seconds_sum", *queue] == pytest.approx(1.25)
    assert samples["workqueue_work_duration_seconds_bucket", "1.0", *queue] == 1
    assert samples["controller_runtime_reconcile_total", "error", "workspace"] == 1
    assert samples["controller_runtime_reconcile_total", "success", "workspace"] == 0
    assert samples["controller_runtime_reconcile_errors_total", "workspace"] == 1
    assert samples["controller_runtime_reconcile_time_seconds_count", "workspace"] == 1
    assert samples["rest_client_requests_total", "200", "GET", "api:443"] == 2
    assert samples["rest_client_requests_total", "<error>", "GET", "api:443"] == 1
    assert samples["leader_election_master_status", "workspace-controller"] == 1


class Fleet:
    """A collector over objects that come and go."""

    def __init__(self, *names: str) -> None:
        self.names = list(names)

    def collect(self) -> Iterable[Family]:
        labels = ("namespace", "name")
        samples = [Sample(("a", name), 1.0) for name in self.names]
        yield Family(
            name="workspace_reconcile_total", help="h", type=FamilyType.COUNTER, labels=labels, samples=samples
        )
        yield Family(name="workspace_active_count", help="h", samples=[Sample((), float(len(self.names)))])


def test_series_of_deleted_objects_end_and_large_fleets_are_not_folded() -> None:
    fleet = Fleet(*(f"w{number}" for number in range(5000)))
    metrics = Metrics()
    metrics.collect(fleet.collect)
    text = rendered(metrics)
    assert text.count('\nworkspace_reconcile_total{name="w') == 5000
    assert "overflow" not in text
    fleet.names = ["w7"]
    text = rendered(metrics)
    assert 'workspace_reconcile_total{name="w7",namespace="a"} 1.0\n' in text
    assert text.count("workspace_reconcile_total{") == 1
    assert "\nworkspace_active_count 1.0\n" in text


def test_families_of_several_collectors_are_one() -> None:
    metrics = Metrics()
    for name in ("one", "two"):
        metrics.collect(Fleet(name).collect)
    assert rendered(metrics).count("# TYPE workspace_reconcile_total counter") == 1


def test_a_broken_collector_is_reported_and_hides_nothing() -> None:
    def broken() -> Iterable[Family]:
        raise KeyError("gone")

    metrics = Metrics()
    metrics.collect(broken)
    metrics.collect(Fleet("w").collect)
    with structlog.testing.capture_logs() as logs:
        assert 'name="w"' in rendered(metrics)
    assert logs[0]["event"] == "metrics collector failed"


def test_a_histogram_keeps_declared_series_beside_recorded_ones() -> None:
    metrics = Metrics()
    histogram = metrics.histogram("workspace_job_duration_seconds", "h", ("phase", "result"), [5.0, 60.0])
    histogram.declare("plan", "success")
    histogram.declare("apply", "success")
    histogram.record(7.0, "plan", "success")
    lines = rendered(metrics).splitlines()
    assert 'workspace_job_duration_seconds_bucket{le="60.0",phase="plan",result="success"} 1.0' in lines
    assert 'workspace_job_duration_seconds_bucket{le="+Inf",phase="apply",result="success"} 0.0' in lines
    assert 'workspace_job_duration_seconds_count{phase="apply",result="success"} 0.0' in lines
    assert len([line for line in lines if "_sum" in line]) == 2


def test_names_are_declared_once_and_counters_end_in_total() -> None:
    metrics = Metrics()
    metrics.counter("a_total", "h", ())
    with pytest.raises(InvariantViolation, match="twice"):
        metrics.histogram("a_total", "h", (), [1.0])
    with pytest.raises(InvariantViolation, match="_total"):
        metrics.counter("b", "h", ())


def test_parallel_scrapes_see_whole_snapshots() -> None:
    metrics = Metrics()
    counter = metrics.counter("a_total", "h", ("x",), [("y",)])

    async def main() -> set[bytes]:
        scrapes = [asyncio.create_task(metrics.render()) for _ in range(5)]
        for _ in range(100):
            counter.add("y")
            await asyncio.sleep(0)
        return set(await asyncio.gather(*scrapes))

    assert all(b'a_total{x="y"}' in text for text in asyncio.run(main()))
