"""The one-machine mode: a cluster, a Git host and a release server on loopback.

``machine(...)`` runs all of it for the length of a block: control plane, CRDs and RBAC, Git server with the sample
repository, release mirror, pod runner, and every controller as a supervised process with its own ServiceAccount; if
asked for, also the API server with PostgreSQL and an S3 server. When the block is left, all of it has ended.
"""

import compileall
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import yaml
from msgspec import Struct

import magos
from magos.api.kube import PERSISTENT_VOLUME_CLAIMS
from magos.api.labels import JOB_SERVICE_ACCOUNT, RUNNER
from magos.local.controlplane.installation import APPLY, install, installation
from magos.local.controlplane.kubectl import Kubectl, KubectlFailed, find_kubectl
from magos.local.controlplane.plane import ControlPlane
from magos.local.deployment import CONTROLLERS, ApiServer, api_server, controller
from magos.local.node.podrunner import PodRunner
from magos.local.node.volumes import claim_folder
from magos.local.programs.assets import MachineAssets
from magos.local.programs.progress import Progress
from magos.local.programs.recipes import TOFU_VERSION
from magos.local.servers.gitserver import GitServer, git_server
from magos.local.servers.mirror import ReleaseMirror, release_mirror
from magos.local.servers.samplerepo import SampleRepository
from magos.local.stores import Stores
from magos.local.supervisor import Supervised
from magos.runtime.client.client import ApiClient
from magos.runtime.client.config import load_config
from magos.runtime.client.http import connect

POLL_INTERVAL = "1s"
"""Polling a repository on loopback costs next to nothing, and users see a commit noticed at once."""

STATE_FOLDER = Path("/workspace-data/state")
"""Where the sample modules keep their Terraform state: on the Workspace's own volume, outside every clone."""

_KEYS = "release-keys"
_KEYS_FOLDER = "/etc/magos/keys"
_POD_CONFIG = {
    "volumes": [{"name": _KEYS, "configMap": {"name": _KEYS}}],
    "volumeMounts": [{"name": _KEYS, "mountPath": _KEYS_FOLDER, "readOnly": True}],
}


class Extras(Struct, frozen=True, kw_only=True):
    """What people look at and what it reads: the API server with its web UI, a database and a bucket."""

    api: ApiServer
    stores: Stores


class Machine(Struct, frozen=True, kw_only=True):
    """A running one-machine mode, made by :func:`machine`."""

    folder: Path
    plane: ControlPlane
    client: ApiClient
    kubectl: Kubectl
    git: GitServer
    repository: SampleRepository
    mirror: ReleaseMirror
    pods: PodRunner
    controllers: Mapping[str, Supervised]
    extras: Extras | None

    @property
    def repo_url(self) -> str:
        """The clone URL of the sample repository."""
        return self.git.clone_url(self.repository.path.name)

    async def prepare_namespace(self, name: str, *objects: Mapping[str, Any]) -> None:
        """Make a namespace for Workspaces, with the runner's ServiceAccount and the mirror's keys; then ``objects``."""
        manifests = yaml.safe_dump_all([*self._namespace(name), *objects])
        await anyio.to_thread.run_sync(lambda: self.kubectl.run(*APPLY, stdin=manifests))

    async def find_state(self, namespace: str, workspace: str) -> Path | None:
        """Return the Terraform state file that a Workspace of the sample repository wrote to its volume, if any."""
        claim = await self.client.get(PERSISTENT_VOLUME_CLAIMS, namespace, f"{workspace}-data")
        folder = claim_folder(self.pods.folder, claim.metadata.uid) / STATE_FOLDER.name
        return next(iter(sorted(folder.rglob("terraform.tfstate"))), None)

    def _namespace(self, name: str) -> list[dict[str, Any]]:
        keys = {path.name: path.read_text() for path in sorted(self.mirror.keys.iterdir())}
        return [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": JOB_SERVICE_ACCOUNT, "namespace": name, "labels": {RUNNER: "true"}},
            },
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": _KEYS, "namespace": name}, "data": keys},
        ]


class _Prepared(Struct, frozen=True):
    repository: SampleRepository
    manifests: str


def _prepare(folder: Path, mirror: ReleaseMirror, tofu: Path, kubectl: Kubectl) -> _Prepared:
    """Do what needs no API server; blocks for about two seconds, less than a control plane takes to start."""
    # The user of the pods cannot write compiled files, so each stage would compile the runner again.
    compileall.compile_dir(Path(magos.__file__).parent, quiet=2)
    mirror.publish(tofu, TOFU_VERSION)
    repository = SampleRepository.create(folder / "git" / "demo.git", STATE_FOLDER)
    return _Prepared(repository, installation(kubectl))


async def _start_control_plane(
    stack: AsyncExitStack, plane: ControlPlane, kubectl: Kubectl, prepare: Callable[[], _Prepared], progress: Progress
) -> SampleRepository:
    """Enter ``plane`` with Magos installed; ``prepare`` runs in a thread while the processes start."""
    prepared: list[_Prepared] = []
    installed = anyio.Event()

    async def install_early() -> None:
        prepared.append(await anyio.to_thread.run_sync(prepare))
        await plane.serving.wait()
        progress.say("installing the custom resources and the controllers' permissions")
        # Fails if the control plane has to start again on other ports; the second call below reports other causes.
        with suppress(KubectlFailed):
            await anyio.to_thread.run_sync(install, kubectl, prepared[0].manifests)
            installed.set()

    progress.say("starting etcd, kube-apiserver and kube-controller-manager")
    async with anyio.create_task_group() as beside:
        beside.start_soon(install_early)
        await stack.enter_async_context(plane)
    [ready] = prepared
    if not installed.is_set():
        await anyio.to_thread.run_sync(install, kubectl, ready.manifests)
    return ready.repository


def _controller_settings(folder: Path, mirror: ReleaseMirror) -> dict[str, str]:
    """Write the pods' configuration and return the environment variables that all controllers share."""
    pod_config = folder / "pod-config.yaml"
    pod_config.write_text(yaml.safe_dump(_POD_CONFIG))
    return {
        "MAGOS_JOB_IMAGE": "magos-job:local",
        "MAGOS_JOB_POD_CONFIG": str(pod_config),
        "MAGOS_OPENTOFU_MIRROR": mirror.url,
        "MAGOS_RELEASE_KEYS": _KEYS_FOLDER,
    }


@asynccontextmanager
async def _api_client(kubeconfig: Path) -> AsyncIterator[ApiClient]:
    config = load_config(str(kubeconfig), environ={})
    client = ApiClient(connect(config, user_agent="magos (one-machine mode)"))
    try:
        yield client
    finally:
        with anyio.CancelScope(shield=True):  # Ctrl-C cancels the block; the connections must still be closed
            await client.aclose()


@asynccontextmanager
async def machine(
    assets: MachineAssets,
    folder: Path,
    *,
    environ: Mapping[str, str],
    progress: Progress,
    poll_interval: str = POLL_INTERVAL,
    extras: bool = False,
) -> AsyncIterator[Machine]:
    """Run everything below ``folder`` for the length of the block.

    The controllers' processes get ``environ`` besides their settings. RefWatcher polls every ``poll_interval`` for
    Workspaces that set no interval. With ``extras`` API server, database and bucket run too; the block does not wait
    until they are ready.
    """
    async with AsyncExitStack() as stack:
        plane = ControlPlane(assets.control_plane, folder / "control-plane")
        kubectl = Kubectl(program=find_kubectl(), kubeconfig=plane.admin_kubeconfig)
        git = stack.enter_context(git_server(folder / "git"))
        mirror = stack.enter_context(release_mirror(folder / "mirror", folder / "release-keys"))
        prepare = partial(_prepare, folder, mirror, assets.tofu, kubectl)
        repository = await _start_control_plane(stack, plane, kubectl, prepare, progress)
        client = await stack.enter_async_context(_api_client(plane.admin_kubeconfig))
        pods = PodRunner(
            client=client,
            request=plane.request,
            tls=await anyio.to_thread.run_sync(plane.authority.server_context, "pod-runner", "127.0.0.1", "localhost"),
            url=plane.url,
            folder=folder / "pods",
            programs=() if assets.kyverno is None else (assets.kyverno,),
        )
        tasks = await stack.enter_async_context(_tasks())
        await tasks.start(pods.run)
        progress.say("starting the controllers, each in a process of its own with its own ServiceAccount")
        shared = {**environ, **_controller_settings(folder, mirror)}
        stores = Stores(folder / "stores") if extras else None
        if stores is not None:
            shared |= stores.environment()
        controllers = {name: await controller(name, plane, folder, shared, poll_interval) for name in CONTROLLERS}
        for each in controllers.values():
            await tasks.start(each.run)
        beside = None
        if stores is not None:
            tasks.start_soon(stores.run, progress)
            beside = Extras(api=await api_server(plane, folder, shared), stores=stores)
            await tasks.start(beside.api.process.run)
        tasks.start_soon(plane.watch_processes)
        yield Machine(
            folder=folder,
            plane=plane,
            client=client,
            kubectl=kubectl,
            git=git,
            repository=repository,
            mirror=mirror,
            pods=pods,
            controllers=controllers,
            extras=beside,
        )


@asynccontextmanager
async def _tasks() -> AsyncIterator[anyio.abc.TaskGroup]:
    """A task group that is cancelled when the block is left."""
    async with anyio.create_task_group() as tasks:
        yield tasks
        tasks.cancel_scope.cancel()
