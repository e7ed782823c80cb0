"""The life of one pod on this machine: volumes, init containers in order, containers, end, deletion.

What it promises, as a kubelet does:

1. Init containers run one after the other; the first that fails ends the pod. Then all containers run together.
2. Deletion and the pod's own deadline send SIGTERM, SIGKILL after the grace, and start nothing more.
3. Every change of a container's state is reported, the end only after the last process has ended.
4. A reference that cannot be resolved keeps the pod waiting with the reason, and is tried again.
"""

from collections.abc import Mapping
from typing import Any

import anyio
import msgspec
import structlog

from magos.api.kube import PODS, Container, ContainerState, ContainerStateTerminated, ContainerStateWaiting, PodManifest
from magos.local.containers import ContainerRun, PodFolder, image_environment, now_text
from magos.local.podsources import PodConfigError, PodSources, environment
from magos.local.podstatus import Progress, pod_status
from magos.local.podvolumes import PodVolumes
from magos.local.processes import ProcessFailed
from magos.runtime.client.client import ApiClient, ApiError

__all__ = ["PodLife"]

_RETRY_SECONDS = 1.0
_GRACE_SECONDS = 30

_log = structlog.get_logger("magos.local.pods")


class PodLife:
    """One pod, from the moment it was bound to this node. ``volumes`` and ``folder`` are its own."""

    def __init__(
        self, pod: PodManifest, *, client: ApiClient, sources: PodSources, volumes: PodVolumes, folder: PodFolder
    ) -> None:
        self.pod = pod
        self.folder = folder
        self._client = client
        self._sources = sources
        self._volumes = volumes
        self._states: dict[str, ContainerState] = {}
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

    def state_of(self, container: str) -> ContainerState | None:
        """Return what is known of a container, None before it was started."""
        return self._states.get(container)

    def note(self, pod: PodManifest) -> None:
        """Take over what others have written to the pod's status."""
        self._noted = pod.status.conditions

    def stop(self, grace_seconds: int | None) -> None:
        """Begin to end the pod because it is being deleted; the first grace counts."""
        if not self._stopping.is_set():
            self._stop_grace = _GRACE_SECONDS if grace_seconds is None else grace_seconds
            self._stopping.set()

    async def run(self, environment_of_node: Mapping[str, str]) -> None:
        """Live until nothing of the pod runs or will run."""
        try:
            if any(policy not in ("", "Never") for policy in self._restart_policies()):
                text = "the pod runner only runs pods with restartPolicy Never, without sidecar containers"
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

    def _restart_policies(self) -> list[str]:
        return [self.pod.spec.restart_policy, *(entry.restart_policy for entry in self.pod.spec.init_containers)]

    async def abandon(self) -> None:
        """Report a pod as failed whose processes belonged to an earlier pod runner."""
        text = "the pod runner was restarted and the containers' processes are gone"
        gone = ContainerState(
            terminated=ContainerStateTerminated(exit_code=137, reason="ContainerStatusUnknown", message=text)
        )
        names = [entry.name for entry in (*self.pod.spec.init_containers, *self.pod.spec.containers)]
        self._states = dict.fromkeys(names, gone)
        await self._report(ended=True, reason="NodeLost", message=text)

    async def _live(self, given: Mapping[str, str]) -> None:
        await self._report()
        if not await self._until_ready(self._volumes.prepare, None):
            await self._report(ended=True, reason=self._stop_reason or "Terminated", message="ended before it started")
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

    async def _begin(self, container: Container, given: Mapping[str, str]) -> ContainerRun | None:
        """Start a container; None if the pod was asked to stop before it could start."""
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

    async def _until_ready(self, attempt: Any, container: Container | None) -> bool:
        """Repeat ``attempt`` until its references resolve; False once the pod is asked to stop."""
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

    def _wait_reason(self, container: Container | None, text: str) -> None:
        reason = "ContainerCreating" if container is None else "CreateContainerConfigError"
        waiting = ContainerState(waiting=ContainerStateWaiting(reason=reason, message=text))
        concerned = (
            (container,) if container is not None else (*self.pod.spec.init_containers, *self.pod.spec.containers)
        )
        for entry in concerned:
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
        self._stop_grace = _grace(self.pod)
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
                await self._client.patch(PODS, namespace, name, body, subresource="status")
            except ApiError as error:
                if error.not_found or error.conflict:
                    return
                _log.warning("pod status not written, trying again", namespace=namespace, pod=name, error=str(error))
                await anyio.sleep(_RETRY_SECONDS)
            else:
                return


def _grace(pod: PodManifest) -> int:
    seconds = pod.spec.termination_grace_period_seconds
    return _GRACE_SECONDS if seconds is None else seconds
