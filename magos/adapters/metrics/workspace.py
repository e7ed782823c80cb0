"""What the workspace controller exposes about its Workspaces and their Jobs (spec §12.1).

Gauges are read off the cache at each scrape. Transitions are counted as the cache sees them, in a plain dictionary, for
as long as the Workspace exists: one that is gone has no series, however its end became known.
"""

from collections.abc import Iterable

from magos.api.kube import Job
from magos.api.labels import JOB_TYPE
from magos.api.names import JobType
from magos.api.phases import RUNNING, Phase
from magos.api.reasons import WORKSPACE_REASONS
from magos.api.timestamps import parse_time
from magos.api.workspace import Workspace
from magos.runtime.cache.cache import Cache, Change
from magos.runtime.controller.workqueue import Key
from magos.runtime.manager.metrics import Family, FamilyType, Metrics, Sample

_BUCKETS = (5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0, 21600.0, 43200.0, 86400.0)
SUCCESS, _ERROR = "success", "error"


class WorkspaceMetrics:
    """Gets every change of a Workspace and of a Job from their informers; ``workspaces`` is the cache behind it."""

    def __init__(self, metrics: Metrics, workspaces: Cache[Workspace], *, per_object: bool) -> None:
        self._workspaces = workspaces
        self._per_object = per_object
        self._moves: dict[Key, dict[Phase, int]] = {}
        self._seconds = metrics.histogram(
            "workspace_job_duration_seconds", "Time from a Job's creation to its end.", ("phase", "result"), _BUCKETS
        )
        for job_type in JobType:
            for result in (SUCCESS, _ERROR):
                self._seconds.declare(str(job_type), result)
        metrics.collect(self.collect)

    def workspace_changed(self, change: Change[Workspace]) -> None:
        """Count a transition, and let go of who is gone."""
        old, new = change.old, change.new
        if new is None or (old is not None and old.metadata.uid != new.metadata.uid):
            if old is not None:
                self._moves.pop(Key(old.metadata.namespace, old.metadata.name), None)
            return
        phase = new.status.phase
        if not self._per_object or old is None or phase is None or phase is old.status.phase:
            return
        moves = self._moves.setdefault(Key(new.metadata.namespace, new.metadata.name), {})
        moves[phase] = moves.get(phase, 0) + 1

    def job_changed(self, change: Change[Job]) -> None:
        """Record the duration of a Job whose end was not known before."""
        old, new = change.old, change.new
        if new is None or not new.ended or change.initial or (old is not None and old.ended):
            return
        job_type, seconds = new.metadata.labels.get(JOB_TYPE, ""), job_seconds(new)
        if job_type in set(JobType) and seconds is not None:
            self._seconds.record(seconds, job_type, SUCCESS if new.complete else _ERROR)

    def collect(self) -> Iterable[Family]:
        """Return the families of this moment; on the loop."""
        workspaces = self._workspaces.list()
        active = sum(1 for each in workspaces if each.status.phase in RUNNING)
        yield Family(
            name="workspace_active_count",
            help="Workspaces in phase Planning or Applying.",
            samples=[Sample((), float(active))],
        )
        if self._per_object:
            yield self._transitions(workspaces)

    def _transitions(self, workspaces: Iterable[Workspace]) -> Family:
        keys = sorted(Key(each.metadata.namespace, each.metadata.name) for each in workspaces)
        return Family(
            name="workspace_phase_transitions_total",
            help="How often a Workspace entered a phase.",
            type=FamilyType.COUNTER,
            labels=("namespace", "name", "phase"),
            samples=[
                Sample((key.namespace, key.name, str(phase)), float(self._moves.get(key, {}).get(phase, 0)))
                for key in keys
                for phase in WORKSPACE_REASONS
            ],
        )


def job_seconds(job: Job) -> float | None:
    """Return how long an ended Job has existed until its end, None if it does not tell."""
    ends = [each.last_transition_time for each in job.status.conditions if each.type in ("Complete", "Failed")]
    try:
        end = parse_time(job.status.completion_time or next(filter(None, ends), "") or "")
        return max((end - parse_time(job.metadata.creation_timestamp or "")).total_seconds(), 0.0)
    except ValueError:
        return None
