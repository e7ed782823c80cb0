"""The life of one pod on this machine: volumes, init containers in order, containers, end, deletion.

What it promises, as a kubelet does:

1. Init containers run one after the other; the first that fails ends the pod. Then all containers run together.
2. Deletion and the pod's own deadline send SIGTERM, then SIGKILL after the grace, and no further container starts.
3. Every change of a container's state is reported, and the pod's end only after the last process has ended.
4. A reference that cannot be resolved keeps the pod waiting, with the reason in its status, and is tried again.
"""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime

import anyio
import msgspec
import structlog

from magos.api import kube
from magos.api.timestamps import parse_time
from magos.local.node.containers import ContainerRun, PodFolder, image_environment, now_text
from magos.local.node.sources import PodConfigError, PodSources, environment
from magos.local.node.status import Progress, pod_status
from magos.local.node.volumes import PodVolumes
from magos.local.processes import ProcessFailed
from magos.runtime.client.client import ApiClient
from magos.runtime.client.errors import ApiError

_RETRY_SECONDS = 1.0
_GRACE_SECONDS = 30
"""Kubernetes' default of ``terminationGracePeriodSeconds``."""

_log = structlog.get_logger("magos.local.pods")


class PodLife:
    """One pod, from its binding to this node to its end. ``volumes`` and ``folder`` belong to this pod alone."""

    def __init__(
        self, pod: kube.PodManifest, *, client: ApiClient, sources: PodSources, volumes: PodVolumes, folder: PodFolder
    ) -> None:
        self.pod = pod
        self.folder = folder
        self._client = client
        self._sources = sources
        self._volumes = volumes
        self._states: dict[str, kube.ContainerState] = {}
        self._runs: list[ContainerRun] = []
        self._progress = Progress(started_at=now_text(), states={})
        self._noted = pod.status.conditions
        self._stopping = anyio.Event()
        self._stop_grace = 0
        self._stop_reason = ""

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.pod.metadata.namespace, self.pod.metadata.name

    @property
    def started_at(self) -> datetime:
        """When this node took the pod up."""
        return parse_time(self._progress.started_at)

    def has_ended(self, container: str) -> bool:
        """Tell whether a container was started and has ended."""
        state = self._states.get(container)
        return state is not None and state.terminated is not None

    def note(self, pod: kube.PodManifest) -> None:
        """Keep the conditions that others have written to the pod's status."""
        self._noted = pod.status.conditions

    def stop(self, grace_seconds: int | None) -> None:
        """Begin to end the pod because it is being deleted; only the first call counts."""
        if not self._stopping.is_set():
            self._stop_grace = _GRACE_SECONDS if grace_seconds is None else grace_seconds
            self._stopping.set()

    async def run(self, environment_of_node: Mapping[str, str]) -> None:
        """Run the pod until no process of it runs or will run."""
        try:
            sidecars = (entry.restart_policy for entry in self.pod.spec.init_containers)
            if {self.pod.spec.restart_policy, *sidecars} - {"", "Never"}:
                text = "the pod runner runs only pods with restartPolicy Never and without sidecar containers"
                await self._report(ended=True, reason="UnsupportedRestartPolicy", message=text)
                return
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._stop_when_asked)
                if self.pod.spec.active_deadline_seconds is not None:
                    tasks.start_soon(self._deadline, self.pod.spec.active_deadline_seconds)
                await self._live(environment_of_node)
                tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                for run in self._runs:
                    await run.close()
                await anyio.to_thread.run_sync(self.folder.discard_volumes)

    @property
    def _containers(self) -> list[kube.Container]:
        return [*self.pod.spec.init_containers, *self.pod.spec.containers]

    async def abandon(self) -> None:
        """Report a pod as failed whose processes ended with an earlier pod runner."""
        text = "the pod runner was restarted, which ended the containers' processes"
        gone = kube.ContainerState(
            terminated=kube.ContainerStateTerminated(exit_code=137, reason="ContainerStatusUnknown", message=text)
        )
        self._states = dict.fromkeys((entry.name for entry in self._containers), gone)
        await self._report(ended=True, reason="NodeLost", message=text)

    async def _live(self, given: Mapping[str, str]) -> None:
        await self._report()
        if not await self._until_ready(self._volumes.prepare, None):
            await self._report(
                ended=True, reason=self._stop_reason or "Terminated", message="the pod was deleted before it started"
            )
            return
        for container in self.pod.spec.init_containers:
            run = await self._begin(container, given)
            if run is None or not await self._finish(run):
                await self._report(ended=True, reason=self._stop_reason)
                return
        runs = [await self._begin(container, given) for container in self.pod.spec.containers]
        async with anyio.create_task_group() as tasks:
            for run in runs:
                if run is not None:
                    tasks.start_soon(self._finish, run)
        await self._report(ended=True, reason=self._stop_reason)

    async def _begin(self, container: kube.Container, given: Mapping[str, str]) -> ContainerRun | None:
        """Start a container; returns None if the pod has to stop before the container could start."""
        run = ContainerRun(self.pod, container, self.folder)

        async def attempt() -> None:
            values = await environment(self.pod, container, self._sources, {**image_environment(), **given})
            self._states[container.name] = await run.start(values, self._volumes)

        if not await self._until_ready(attempt, container):
            return None
        self._runs.append(run)
        if self._stopping.is_set():
            run.terminate()
        await self._report()
        return run

    async def _finish(self, run: ContainerRun) -> bool:
        state = await run.wait()
        self._states[run.container.name] = state
        await self._report()
        return state.terminated is not None and state.terminated.exit_code == 0

    async def _until_ready(self, attempt: Callable[[], Awaitable[None]], container: kube.Container | None) -> bool:
        """Repeat ``attempt`` until its references resolve; returns False once the pod has to stop."""
        while not self._stopping.is_set():
            try:
                await attempt()
            except (PodConfigError, ProcessFailed) as error:
                self._wait_reason(container, str(error))
                await self._report()
            else:
                return True
            with anyio.move_on_after(_RETRY_SECONDS):
                await self._stopping.wait()
        return False

    def _wait_reason(self, container: kube.Container | None, text: str) -> None:
        reason = "ContainerCreating" if container is None else "CreateContainerConfigError"
        waiting = kube.ContainerState(waiting=kube.ContainerStateWaiting(reason=reason, message=text))
        for entry in self._containers if container is None else [container]:
            self._states[entry.name] = waiting

    async def _stop_when_asked(self) -> None:
        await self._stopping.wait()
        for run in self._runs:
            run.terminate()
        await anyio.sleep(self._stop_grace)
        for run in self._runs:
            run.kill()

    async def _deadline(self, seconds: int) -> None:
        await anyio.sleep(seconds)
        self._stop_reason = "DeadlineExceeded"
        grace = self.pod.spec.termination_grace_period_seconds
        self._stop_grace = _GRACE_SECONDS if grace is None else grace
        self._stopping.set()

    async def _report(self, *, ended: bool = False, reason: str = "", message: str = "") -> None:
        self._progress = Progress(
            started_at=self._progress.started_at,
            states=dict(self._states),
            ended=ended or self._progress.ended,
            reason=reason or self._progress.reason,
            message=message or self._progress.message,
            noted=self._noted,
        )
        status = msgspec.to_builtins(pod_status(self.pod, self._progress))
        namespace, name = self.key
        body = {"metadata": {"uid": self.pod.metadata.uid}, "status": status}
        while True:
            try:
                await self._client.patch(kube.PODS, namespace, name, body, subresource="status")
            except ApiError as error:
                if error.not_found or error.conflict:
                    return
                _log.warning(
                    "cannot write the pod's status, trying again", namespace=namespace, pod=name, error=str(error)
                )
                await anyio.sleep(_RETRY_SECONDS)
            else:
                return
