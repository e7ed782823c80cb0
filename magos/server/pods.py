"""The pod of one phase of a run."""

from typing import NamedTuple

from magos.api import labels
from magos.api.kube import PODS, Pod
from magos.api.meta import controller_of
from magos.api.names import JobType, job_name
from magos.ids import RunID
from magos.runtime.client.client import ApiClient


class RunKey(NamedTuple):
    """One run of a Workspace."""

    namespace: str
    name: str
    run_id: RunID


async def newest_pod(client: ApiClient, key: RunKey, phase: JobType) -> Pod | None:
    """Return the newest pod of this phase, None if there is none. Raises ``ApiError``.

    Labels are anybody's to write, so a pod counts only if the very Job of this phase controls it.
    """
    job = job_name(key.namespace, key.name, key.run_id, phase)
    selector = (
        f"{labels.WORKSPACE}={labels.workspace_label(key.name)},{labels.RUN_ID}={key.run_id},{labels.JOB_TYPE}={phase}"
    )
    # Version 0 is answered out of the API server's memory: several streams may look every few seconds.
    page = await client.list(PODS, key.namespace, selector=selector, resource_version="0")
    found = [pod for pod in page.items if _controlled_by(pod, job)]
    return max(found, key=lambda pod: pod.metadata.creation_timestamp or "", default=None)


def _controlled_by(pod: Pod, job: str) -> bool:
    owner = controller_of(pod.metadata)
    return owner is not None and (owner.kind, owner.name) == ("Job", job)
