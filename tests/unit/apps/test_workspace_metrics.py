"""The metrics of Workspaces, their Jobs and Projects follow the caches (spec §12.1, F84)."""

import asyncio
from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from magos.adapters.metrics.project import project_gauges
from magos.adapters.metrics.workspace import WorkspaceMetrics, job_seconds
from magos.api.kube import Job, JobCondition, JobStatus
from magos.api.labels import JOB_TYPE
from magos.api.meta import ObjectMeta
from magos.api.phases import Phase
from magos.api.project import PROJECTS, Project, ProjectStatus
from magos.api.reasons import Reason
from magos.api.status import NameReference
from magos.api.workspace import WORKSPACES, Source, Terraform, Workspace, WorkspaceSpec, WorkspaceStatus
from magos.runtime.cache.cache import Cache, Change
from magos.runtime.manager.metrics import Metrics

SPEC = WorkspaceSpec(
    project_ref=NameReference(name="p"),
    source=Source(repo_url="https://git.example.com/r.git", target_revision="main"),
    terraform=Terraform(version="1.9.8"),
)


def workspace(name: str, phase: Phase | None, uid: str = "") -> Workspace:
    meta = ObjectMeta(namespace="n", name=name, uid=uid or name)
    return Workspace(metadata=meta, spec=SPEC, status=WorkspaceStatus(phase=phase))


class Watched:
    """A cache whose changes the metrics are told of, as an informer does."""

    def __init__(self, *, per_object: bool = True) -> None:
        self.cache: Cache[Workspace] = Cache(WORKSPACES)
        self.metrics = Metrics()
        self.subject = WorkspaceMetrics(self.metrics, self.cache, per_object=per_object)
        self.version = 0

    def relist(self, items: Iterable[Workspace]) -> None:
        """All that there is, as after a list."""
        self.version += 1
        fresh = [replace(each, metadata=replace(each.metadata, resource_version=str(self.version))) for each in items]
        for change in self.cache.replace(fresh, (), str(self.version)):
            self.subject.workspace_changed(change)

    def lines(self, name: str) -> list[str]:
        text = asyncio.run(self.metrics.render()).decode()
        return [line for line in text.splitlines() if line.startswith(name)]

    def transitions(self) -> dict[str, str]:
        """The transitions that happened, by name and phase."""
        found = (line.rpartition(" ") for line in self.lines("workspace_phase_transitions_total"))
        return {series: value for series, _, value in found if value != "0.0"}


def test_transitions_are_counted_by_phase_from_zero_on() -> None:
    watched = Watched()
    watched.relist([workspace("a", None), workspace("b", Phase.APPLIED)])
    assert watched.transitions() == {}
    zero = 'workspace_phase_transitions_total{name="b",namespace="n",phase="Failed"} 0.0'
    assert zero in watched.lines("workspace_phase_transitions_total")
    for phase in (Phase.PENDING, Phase.PLANNING, Phase.FAILED, Phase.PENDING):
        watched.relist([workspace("a", phase), workspace("b", Phase.APPLIED)])
    series = 'workspace_phase_transitions_total{name="a",namespace="n",phase="%s"}'
    assert watched.transitions() == {series % "Pending": "2.0", series % "Planning": "1.0", series % "Failed": "1.0"}


def test_whoever_is_gone_has_no_series_also_if_only_a_list_tells_so() -> None:
    watched = Watched()
    names = [f"w{number:02}" for number in range(50)]
    for phase in (Phase.PENDING, Phase.PLANNING, Phase.FAILED):
        watched.relist([workspace(name, phase) for name in names])
    watched.relist([workspace("w00", Phase.FAILED)])
    lines = watched.lines("workspace_phase_transitions_total")
    assert lines
    assert all('name="w00"' in line for line in lines)
    watched.relist([workspace("w00", Phase.FAILED, uid="another")])  # deleted and made anew
    assert watched.transitions() == {}


def test_active_ones_are_counted_whoever_they_are_and_names_can_be_left_out() -> None:
    watched = Watched(per_object=False)
    phases = (Phase.PLANNING, Phase.APPLYING, Phase.PLANNED, None)
    watched.relist([workspace(f"w{number}", phase) for number, phase in enumerate(phases)])
    assert watched.lines("workspace_active_count") == ["workspace_active_count 2.0"]
    assert watched.lines("workspace_phase_transitions_total") == []


def job(phase: str, condition: str = "", *, ended: str = "2026-01-01T00:01:30Z") -> Job:
    conditions = (JobCondition(type=condition, status="True", last_transition_time=ended),) if condition else ()
    meta = ObjectMeta(namespace="n", name="j", creation_timestamp="2026-01-01T00:00:00Z", labels={JOB_TYPE: phase})
    return Job(metadata=meta, status=JobStatus(conditions=conditions))


def test_the_duration_of_a_job_is_recorded_once_when_its_end_becomes_known() -> None:
    watched = Watched()
    told = watched.subject.job_changed
    assert len(watched.lines("workspace_job_duration_seconds_count")) == 4
    told(Change(old=None, new=job("plan", "Complete"), initial=True))  # ended before this process began
    told(Change(old=None, new=job("plan")))
    told(Change(old=job("plan"), new=job("plan", "Complete")))
    told(Change(old=job("plan", "Complete"), new=job("plan", "Complete")))
    told(Change(old=job("plan", "Complete"), new=None))
    told(Change(old=None, new=job("apply", "Failed")))  # all of it while the watch was cut
    told(Change(old=None, new=job("other", "Failed")))
    counts = {line for line in watched.lines("workspace_job_duration_seconds_count") if not line.endswith(" 0.0")}
    assert counts == {
        'workspace_job_duration_seconds_count{phase="plan",result="success"} 1.0',
        'workspace_job_duration_seconds_count{phase="apply",result="error"} 1.0',
    }
    assert 'workspace_job_duration_seconds_sum{phase="plan",result="success"} 90.0' in watched.lines(
        "workspace_job_duration_seconds_sum"
    )


@pytest.mark.parametrize(("ended", "seconds"), [("2026-01-01T00:01:30Z", 90.0), ("2025-12-31T23:59:59Z", 0.0)])
def test_the_duration_is_never_negative(ended: str, seconds: float) -> None:
    assert job_seconds(job("plan", "Failed", ended=ended)) == seconds


def test_a_job_that_does_not_tell_has_no_duration() -> None:
    assert job_seconds(job("plan")) is None
    assert job_seconds(job("plan", "Failed", ended="soon")) is None


def test_projects_show_members_and_who_manages_them_for_as_long_as_they_exist() -> None:
    cache: Cache[Project] = Cache(PROJECTS)
    metrics = Metrics()
    metrics.collect(project_gauges(cache))

    def project(name: str, **status: object) -> Project:
        return Project(metadata=ObjectMeta(namespace="n", name=name, uid=name), status=ProjectStatus(**status))  # type: ignore[arg-type]

    managed = project("a", phase=Phase.READY, reason=str(Reason.MANAGED_BY_ROLLOUT), members=3)
    parallel = project("b", phase=Phase.READY, reason=str(Reason.DEFAULT_PARALLEL), members=2)
    cache.replace([managed, parallel, project("new")], (), "1")

    def lines() -> set[str]:
        return {line for line in asyncio.run(metrics.render()).decode().splitlines() if line.startswith("project_")}

    assert lines() == {
        'project_workspace_count{name="a",namespace="n"} 3.0',
        'project_workspace_count{name="b",namespace="n"} 2.0',
        'project_managed_by_rollout{name="a",namespace="n"} 1.0',
        'project_managed_by_rollout{name="b",namespace="n"} 0.0',
    }
    cache.replace([parallel], (), "2")
    assert all('name="b"' in line for line in lines())
