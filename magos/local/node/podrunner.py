"""The node of the one-machine mode: it binds pods to itself and runs them as local processes.

It registers a Node with the log endpoint of :mod:`.logs`, binds every pod that has no node, gives each pod a
``PodLife`` and removes the object of a deleted pod once no process of the pod runs. It does not isolate (see
:mod:`.sandbox`), enforces no resource limits and never restarts a container.
"""

import random
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import anyio.abc
import structlog
from msgspec import Struct, field

from magos.api import kube
from magos.api.meta import Kind, ObjectMeta
from magos.local.node.containers import PodFolder, now_text
from magos.local.node.logs import ContainerLog, log_server
from magos.local.node.podlife import PodLife
from magos.local.node.sources import PodSources, Request
from magos.local.node.volumes import PodVolumes, remove_claim
from magos.runtime.cache.cache import Change
from magos.runtime.cache.informer import Informer
from magos.runtime.client.client import ApiClient
from magos.runtime.client.errors import ApiError
from magos.runtime.clock import SystemClock
from magos.toolchain.releases import architecture

NODE_NAME = "magos-local"

_HEARTBEAT_SECONDS = 60.0
"""No node controller runs that would judge the heartbeat: it only shows in ``kubectl describe node``."""

_CAPACITY = {"cpu": "2", "memory": "8Gi", "pods": "110"}
"""What the Node reports; no scheduler reads it and the pod runner enforces no limits."""

_SYSTEM_INFO = {
    "architecture": architecture(),
    "bootID": "",
    "containerRuntimeVersion": "processes://1",
    "kernelVersion": "",
    "kubeProxyVersion": "",
    "kubeletVersion": "magos-pod-runner",
    "machineID": "",
    "operatingSystem": sys.platform,
    "osImage": "this machine",
    "systemUUID": "",
}

_log = structlog.get_logger("magos.local.pods")


class _Binding(Struct, frozen=True, rename="camel"):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)


_BINDINGS = Kind(group="", version="v1", plural="pods", name="Binding", type=_Binding)


class PodRunner:
    """Runs the pods of the control plane at ``url``; ``folder`` holds claims, logs and the pods' files.

    ``request`` sends an administrator's request, ``tls`` serves the log endpoint. Every container finds ``programs`` on
    its PATH, as if its image had them.
    """

    def __init__(
        self,
        *,
        client: ApiClient,
        request: Request,
        tls: ssl.SSLContext,
        url: str,
        folder: Path,
        programs: tuple[Path, ...] = (),
    ) -> None:
        self._client = client
        self._request = request
        self._tls = tls
        self.folder = folder
        self._programs = programs
        address = urlsplit(url)
        self._given = {
            "KUBERNETES_SERVICE_HOST": str(address.hostname),
            "KUBERNETES_SERVICE_PORT": str(address.port),
            "HOSTNAME": NODE_NAME,
        }
        self._lives: dict[str, PodLife] = {}
        self._names: dict[tuple[str, str], str] = {}
        self._running: set[str] = set()

    def find_log(self, namespace: str, pod: str, container: str) -> ContainerLog | None:
        """Return the log of a container that was started here."""
        life = self._lives.get(self._names.get((namespace, pod), ""))
        if life is None:
            return None
        path = life.folder.log(container)
        return ContainerLog(path, lambda: life.has_ended(container), life.started_at) if path.exists() else None

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Be the node until cancelled; started once the Node is registered. Running containers end with it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        clock, rng = SystemClock(), random.SystemRandom()
        pods = Informer(self._client, kube.PODS_IN_FULL, clock=clock, rng=rng)
        claims = Informer(self._client, kube.PERSISTENT_VOLUME_CLAIMS, clock=clock, rng=rng)
        async with log_server(self.find_log, self._tls) as port, anyio.create_task_group() as tasks:
            await self._register(port)
            pods.add_handler(lambda change: self._pod_changed(change, tasks))
            claims.add_handler(lambda change: self._claim_changed(change, tasks))
            tasks.start_soon(pods.run)
            tasks.start_soon(claims.run)
            task_status.started()
            while True:
                await anyio.sleep(_HEARTBEAT_SECONDS)
                await self._ready_condition()

    def _claim_changed(self, change: Change[kube.PersistentVolumeClaim], tasks: anyio.abc.TaskGroup) -> None:
        """Remove the content of a removed claim; admission keeps a claim in existence while a pod uses it."""
        if change.old is not None and (change.new is None or change.new.metadata.uid != change.old.metadata.uid):
            tasks.start_soon(anyio.to_thread.run_sync, remove_claim, self.folder, change.old.metadata.uid)

    def _pod_changed(self, change: Change[kube.PodManifest], tasks: anyio.abc.TaskGroup) -> None:
        pod = change.new
        if pod is None:
            if change.old is not None:
                self._forget(change.old)
            return
        uid, deleting = pod.metadata.uid, pod.metadata.deletion_timestamp is not None
        if not pod.spec.node_name:
            if not deleting:
                tasks.start_soon(self._bind, pod)
        elif pod.spec.node_name != NODE_NAME:
            return
        elif uid in self._running:
            self._lives[uid].note(pod)
            if deleting:
                self._lives[uid].stop(pod.metadata.deletion_grace_period_seconds)
        elif deleting:
            tasks.start_soon(self._remove, pod)
        elif uid not in self._lives and pod.status.phase not in ("Succeeded", "Failed"):
            self._running.add(uid)
            self._lives[uid] = life = self._life(pod)
            self._names[life.key] = uid
            tasks.start_soon(self._live, life)

    def _life(self, pod: kube.PodManifest) -> PodLife:
        folder = PodFolder(self.folder / "pods" / pod.metadata.uid, self._programs)
        sources = PodSources(self._client, self._request, pod.metadata.namespace)
        volumes = PodVolumes(pod, self.folder, folder.path, sources)
        return PodLife(pod, client=self._client, sources=sources, volumes=volumes, folder=folder)

    async def _live(self, life: PodLife) -> None:
        pod = life.pod
        try:
            if pod.status.start_time is not None:
                await life.abandon()
            else:
                await life.run(self._given)
        finally:
            self._running.discard(pod.metadata.uid)
        if await self._being_deleted(pod):
            await self._remove(pod)

    async def _being_deleted(self, pod: kube.PodManifest) -> bool:
        try:
            live = await self._client.get(kube.PODS, pod.metadata.namespace, pod.metadata.name)
        except ApiError as error:
            if error.not_found:
                return False
            raise
        return live.metadata.uid == pod.metadata.uid and live.metadata.deletion_timestamp is not None

    async def _bind(self, pod: kube.PodManifest) -> None:
        namespace, name = pod.metadata.namespace, pod.metadata.name
        binding = {
            "metadata": {"namespace": namespace, "name": name, "uid": pod.metadata.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": NODE_NAME},
        }
        with _unless_settled():
            await self._client.create(_BINDINGS, binding, subresource="binding")

    async def _remove(self, pod: kube.PodManifest) -> None:
        namespace, name, uid = pod.metadata.namespace, pod.metadata.name, pod.metadata.uid
        with _unless_settled():
            await self._client.delete(kube.PODS, namespace, name, uid=uid, grace_seconds=0)

    def _forget(self, pod: kube.PodManifest) -> None:
        """Note that the object no longer exists; kill the processes of a pod whose object was removed by force."""
        uid = pod.metadata.uid
        if uid in self._running:
            self._lives[uid].stop(0)
        elif uid in self._lives:
            del self._lives[uid]
            if self._names.get((pod.metadata.namespace, pod.metadata.name)) == uid:
                del self._names[pod.metadata.namespace, pod.metadata.name]

    async def _register(self, port: int) -> None:
        status = kube.NodeStatus(
            addresses=(
                kube.NodeAddress(type="InternalIP", address="127.0.0.1"),
                kube.NodeAddress(type="Hostname", address=NODE_NAME),
            ),
            capacity=_CAPACITY,
            allocatable=_CAPACITY,
            daemon_endpoints={"kubeletEndpoint": {"Port": port}},
            node_info=_SYSTEM_INFO,
        )
        with _unless_settled():
            await self._client.create(kube.NODES, kube.Node(metadata=ObjectMeta(name=NODE_NAME)))
        await self._client.patch(kube.NODES, "", NODE_NAME, {"status": status}, subresource="status")
        # Admission taints every new node as not ready, and no node controller runs that would remove the taint.
        await self._client.patch(kube.NODES, "", NODE_NAME, {"spec": {"taints": None}})
        await self._ready_condition()

    async def _ready_condition(self) -> None:
        now = now_text()
        ready = kube.NodeCondition(
            type="Ready", status="True", reason="PodRunnerReady", last_heartbeat_time=now, last_transition_time=now
        )
        body = {"status": {"conditions": [ready]}}
        try:
            await self._client.patch(kube.NODES, "", NODE_NAME, body, subresource="status")
        except ApiError as error:
            _log.warning("cannot write the node's heartbeat, the next one follows", error=str(error))


@contextmanager
def _unless_settled() -> Iterator[None]:
    """Do a write; an object that exists already, changed or is gone shows that there is nothing left to write."""
    try:
        yield
    except ApiError as error:
        if not (error.not_found or error.already_exists or error.conflict):
            raise
