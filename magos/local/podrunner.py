"""Plays the node of the one-machine mode: binds pods to itself and runs them as local processes.

It registers a Node whose log endpoint is ours, takes every pod that nobody else took, gives each a ``PodLife`` and
removes the objects of deleted pods once nothing of them runs. It does not isolate (see ``sandbox``), knows no resource
limits and never restarts a container.
"""

import random
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import anyio.abc
import structlog
from msgspec import Struct, field

from magos.api.kube import (
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    PODS_IN_FULL,
    Node,
    NodeAddress,
    NodeCondition,
    NodeStatus,
    PersistentVolumeClaim,
    PodManifest,
)
from magos.api.meta import Kind, ObjectMeta
from magos.local.containers import PodFolder, now_text
from magos.local.credentials import Authority
from magos.local.podlife import PodLife
from magos.local.podlogs import ContainerLog, log_server
from magos.local.podsources import PodSources, Request
from magos.local.podvolumes import PodVolumes, remove_claim
from magos.runtime.cache.informer import Change, Informer
from magos.runtime.client.client import ApiClient, ApiError
from magos.runtime.clock import SystemClock

__all__ = ["NODE_NAME", "PodRunner"]

NODE_NAME = "magos-local"

_HEARTBEAT_SECONDS = 60.0

_log = structlog.get_logger("magos.local.pods")


class _Binding(Struct, frozen=True, rename="camel"):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)


_BINDINGS = Kind(group="", version="v1", plural="pods", name="Binding", type=_Binding)


class _Log(Struct, frozen=True):
    """The log of one container."""

    path: Path
    life: PodLife
    container: str

    @property
    def finished(self) -> bool:
        state = self.life.state_of(self.container)
        return state is not None and state.terminated is not None


class PodRunner:
    """Runs the pods of one control plane; ``folder`` holds claims, logs and the pods' files.

    ``programs`` are found by every container on its PATH, as if its image had them.
    """

    def __init__(
        self,
        *,
        client: ApiClient,
        request: Request,
        authority: Authority,
        url: str,
        folder: Path,
        programs: tuple[Path, ...] = (),
    ) -> None:
        self._client = client
        self._request = request
        self._authority = authority
        self._folder = folder
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

    @property
    def folder(self) -> Path:
        """Where everything of the pods lies; claims are in ``claims/<uid>``."""
        return self._folder

    def find_log(self, namespace: str, pod: str, container: str) -> ContainerLog | None:
        """Return the log of a container that was started here."""
        life = self._lives.get(self._names.get((namespace, pod), ""))
        if life is None:
            return None
        path = life.folder.log(container)
        return _Log(path=path, life=life, container=container) if path.exists() else None

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Be the node until cancelled; ready once registered. Running containers end with it."""
        self._folder.mkdir(parents=True, exist_ok=True)
        informer: Informer[PodManifest] = Informer(
            self._client, PODS_IN_FULL, clock=SystemClock(), rng=random.SystemRandom()
        )
        claims: Informer[PersistentVolumeClaim] = Informer(
            self._client, PERSISTENT_VOLUME_CLAIMS, clock=SystemClock(), rng=random.SystemRandom()
        )
        async with log_server(self, self._authority) as port, anyio.create_task_group() as tasks:
            await self._register(port)
            informer.add_handler(lambda change: self._changed(change, tasks))
            claims.add_handler(lambda change: self._claim_changed(change, tasks))
            tasks.start_soon(informer.run)
            tasks.start_soon(claims.run)
            task_status.started()
            while True:
                await anyio.sleep(_HEARTBEAT_SECONDS)
                await self._ready_condition()

    def _claim_changed(self, change: Change[PersistentVolumeClaim], tasks: anyio.abc.TaskGroup) -> None:
        """A claim's content goes with the claim; admission keeps the claim while a pod uses it."""
        if change.old is not None and (change.new is None or change.new.metadata.uid != change.old.metadata.uid):
            tasks.start_soon(anyio.to_thread.run_sync, remove_claim, self._folder, change.old.metadata.uid)

    def _changed(self, change: Change[PodManifest], tasks: anyio.abc.TaskGroup) -> None:
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

    def _life(self, pod: PodManifest) -> PodLife:
        folder = PodFolder(self._folder / "pods" / pod.metadata.uid, self._programs)
        sources = PodSources(self._client, self._request, pod.metadata.namespace)
        volumes = PodVolumes(pod, self._folder, folder.path, sources)
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

    async def _being_deleted(self, pod: PodManifest) -> bool:
        try:
            live = await self._client.get(PODS, pod.metadata.namespace, pod.metadata.name)
        except ApiError as error:
            if error.not_found:
                return False
            raise
        return live.metadata.uid == pod.metadata.uid and live.metadata.deletion_timestamp is not None

    async def _bind(self, pod: PodManifest) -> None:
        namespace, name = pod.metadata.namespace, pod.metadata.name
        binding: Mapping[str, Any] = {
            "metadata": {"namespace": namespace, "name": name, "uid": pod.metadata.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": NODE_NAME},
        }
        try:
            await self._client.create(_BINDINGS, binding, subresource="binding")
        except ApiError as error:
            if not (error.not_found or error.status == 409):
                raise

    async def _remove(self, pod: PodManifest) -> None:
        namespace, name, uid = pod.metadata.namespace, pod.metadata.name, pod.metadata.uid
        try:
            await self._client.delete(PODS, namespace, name, uid=uid, grace_seconds=0)
        except ApiError as error:
            if not (error.not_found or error.conflict):
                raise

    def _forget(self, pod: PodManifest) -> None:
        """The object is gone. A pod that still runs was removed by force: its processes end at once."""
        uid = pod.metadata.uid
        if uid in self._running:
            self._lives[uid].stop(0)
        elif uid in self._lives:
            del self._lives[uid]
            if self._names.get((pod.metadata.namespace, pod.metadata.name)) == uid:
                del self._names[pod.metadata.namespace, pod.metadata.name]

    async def _register(self, port: int) -> None:
        status = NodeStatus(
            addresses=(
                NodeAddress(type="InternalIP", address="127.0.0.1"),
                NodeAddress(type="Hostname", address=NODE_NAME),
            ),
            capacity={"cpu": "2", "memory": "8Gi", "pods": "110"},
            allocatable={"cpu": "2", "memory": "8Gi", "pods": "110"},
            daemon_endpoints={"kubeletEndpoint": {"Port": port}},
            node_info={
                "architecture": "amd64",
                "bootID": "",
                "containerRuntimeVersion": "processes://1",
                "kernelVersion": "",
                "kubeProxyVersion": "",
                "kubeletVersion": "magos-pod-runner",
                "machineID": "",
                "operatingSystem": sys.platform,
                "osImage": "this machine",
                "systemUUID": "",
            },
        )
        node = Node(metadata=ObjectMeta(name=NODE_NAME))
        try:
            await self._client.create(NODES, node)
        except ApiError as error:
            if not error.already_exists:
                raise
        await self._client.patch(NODES, "", NODE_NAME, {"status": status}, subresource="status")
        # Admission marks every new node as not ready; no node controller runs here to lift that.
        await self._client.patch(NODES, "", NODE_NAME, {"spec": {"taints": None}})
        await self._ready_condition()

    async def _ready_condition(self) -> None:
        now = now_text()
        ready = NodeCondition(
            type="Ready", status="True", reason="PodRunnerReady", last_heartbeat_time=now, last_transition_time=now
        )
        try:
            await self._client.patch(NODES, "", NODE_NAME, {"status": {"conditions": [ready]}}, subresource="status")
        except ApiError as error:
            _log.warning("node heartbeat not written", error=str(error))
