"""What the project controller exposes about its Projects (spec §12.1), read off the cache at each scrape."""

from collections.abc import Iterable

from magos.api.project import Project
from magos.api.reasons import Reason
from magos.runtime.cache.cache import Cache
from magos.runtime.manager.metrics import Collector, Family, Sample

_LABELS = ("namespace", "name")


def project_gauges(projects: Cache[Project]) -> Collector:
    """Return the collector; a Project that is gone has no series, one that was not judged yet has none either."""

    def collect() -> Iterable[Family]:
        judged = [each for each in projects.list() if each.status.phase is not None]
        names = [(each.metadata.namespace, each.metadata.name) for each in judged]
        yield Family(
            name="project_workspace_count",
            help="Members of a Project.",
            labels=_LABELS,
            samples=[Sample(name, float(each.status.members or 0)) for name, each in zip(names, judged, strict=True)],
        )
        yield Family(
            name="project_managed_by_rollout",
            help="1 if a Rollout gives permission to the members of the Project, else 0.",
            labels=_LABELS,
            samples=[
                Sample(name, float(each.status.reason == Reason.MANAGED_BY_ROLLOUT))
                for name, each in zip(names, judged, strict=True)
            ],
        )

    return collect
