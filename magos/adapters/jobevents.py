"""Answers ``JobEvents``: the Warning Events that say why a Job's pod does not start."""

from magos.api.kube import EVENTS, KubeEvent
from magos.bounds import JOB_EVENTS
from magos.reconcilers.effects import JobEvents, JobWarning
from magos.runtime.client.client import ApiClient


async def read_job_events(probe: JobEvents, client: ApiClient) -> tuple[JobWarning, ...]:
    """Return the latest Warning Events about the Job and its pod, oldest first."""
    found: list[KubeEvent] = []
    for uid in filter(None, (probe.job_uid, probe.pod_uid)):
        page = await client.list(EVENTS, probe.namespace, field_selector=f"regarding.uid={uid},type=Warning", limit=500)
        found += [event for event in page.items if event.regarding.uid == uid and event.type == "Warning"]
    latest = sorted(found, key=_when)[-JOB_EVENTS.limit :]
    return tuple(JobWarning(reason=event.reason, note=event.note) for event in latest)


def _when(event: KubeEvent) -> str:
    """RFC 3339 in UTC sorts as text; an Event of an older component has only a deprecated time."""
    if event.series is not None:
        return event.series.last_observed_time
    return event.event_time or event.deprecated_last_timestamp or event.metadata.creation_timestamp or ""
