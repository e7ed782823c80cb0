"""The one-machine mode: everything that a cluster, a Git host and a release server would be, on loopback.

``machine(...)`` is the whole of it for the length of a block: control plane, CRDs and RBAC, Git server with the sample
repository, release mirror, pod runner, and every controller as a supervised process under its own ServiceAccount. When
the block is left nothing runs any more.
"""

import compileall
import contextlib
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import yaml
from msgspec import Struct

import magos
from magos.api.kube import PERSISTENT_VOLUME_CLAIMS
from magos.api.labels import JOB_SERVICE_ACCOUNT, RUNNER
from magos.local.assets import AssetSettings, ControlPlaneAssets, control_plane_assets, kyverno_program, tofu_program
from magos.local.controlplane import ControlPlane, free_ports
from magos.local.gitserver import GitServer, git_server
from magos.local.installation import APPLY, install, installation
from magos.local.kubectl import Kubectl, KubectlFailed, find_kubectl
from magos.local.mirror import ReleaseMirror, release_mirror
from magos.local.podrunner import PodRunner
from magos.local.podvolumes import claim_folder
from magos.local.processes import ProcessSpec
from magos.local.progress import Progress
from magos.local.recipes import KYVERNO, TOFU, TOFU_VERSION
from magos.local.samplerepo import SampleRepository
from magos.local.supervisor import Supervised
from magos.runtime.client import ApiClient
from magos.runtime.config import load_config
from magos.runtime.http import connect

__all__ = ["CONTROLLERS", "STATE_FOLDER", "SYSTEM_NAMESPACE", "Machine", "MachineAssets", "machine", "machine_assets"]

SYSTEM_NAMESPACE = "magos-system"
CONTROLLERS = ("workspace", "project", "rollout", "variableset", "refwatcher")
"""The controllers that exist; each is a program ``magos-<name>-controller``."""

POLL_INTERVAL = "1s"
"""The repositories are on loopback: a commit may be noticed at once."""

STATE_FOLDER = Path("/workspace-data/state")
"""Where the sample modules keep their Terraform state: on the Workspace's own volume, outside every clone."""

_POD_CONFIG = {
    "volumes": [{"name": "release-keys", "configMap": {"name": "release-keys"}}],
    "volumeMounts": [{"name": "release-keys", "mountPath": "/etc/magos/keys", "readOnly": True}],
}


class MachineAssets(Struct, frozen=True, kw_only=True):
    """The programs that have to be obtained before anything can start; ``kyverno`` only where policies are wanted."""

    control_plane: ControlPlaneAssets
    tofu: Path
    kyverno: Path | None = None


def machine_assets(settings: AssetSettings, progress: Progress, *, policies: bool = False) -> MachineAssets:
    """Obtain everything; blocks, for minutes where it must be built.

    Without ``policies`` the longest build is saved, and a plan for which policies are selected fails for want of it.
    """
    last = (KYVERNO,) if policies else ()
    return MachineAssets(
        control_plane=control_plane_assets(settings, progress, ahead=(TOFU, *last)),
        tofu=tofu_program(settings, progress, ahead=last),
        kyverno=kyverno_program(settings, progress) if policies else None,
    )


class Machine(Struct, frozen=True, kw_only=True):
    """A running one-machine mode."""

    folder: Path
    plane: ControlPlane
    client: ApiClient
    kubectl: Kubectl
    git: GitServer
    repository: SampleRepository
    mirror: ReleaseMirror
    pods: PodRunner
    controllers: Mapping[str, Supervised]

    @property
    def repo_url(self) -> str:
        """The clone URL of the sample repository."""
        return self.git.clone_url(self.repository.path.name)

    async def prepare_namespace(self, name: str, *objects: Mapping[str, Any]) -> None:
        """Make a namespace in which Workspaces can run, with the runner's ServiceAccount and the mirror's keys.

        ``objects`` are applied after these.
        """
        manifests = yaml.safe_dump_all([*self._namespace(name), *objects])
        await anyio.to_thread.run_sync(lambda: self.kubectl.run(*APPLY, stdin=manifests))

    async def find_state(self, namespace: str, workspace: str) -> Path | None:
        """Return the Terraform state that a Workspace of the sample repository wrote on its volume, if there is one."""
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
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "release-keys", "namespace": name},
                "data": keys,
            },
        ]


class _Prepared(Struct, frozen=True):
    repository: SampleRepository
    manifests: str


def _prepare(folder: Path, mirror: ReleaseMirror, tofu: Path, kubectl: Kubectl) -> _Prepared:
    """Do what needs no API server; blocks for about two seconds, which is less than a control plane takes to start."""
    # The pods' user may not keep what Python compiles, and would compile the runner anew in every stage.
    compileall.compile_dir(Path(magos.__file__).parent, quiet=2)
    mirror.publish(tofu, TOFU_VERSION)
    repository = SampleRepository.create(folder / "git" / "demo.git", STATE_FOLDER)
    return _Prepared(repository, installation(kubectl))


async def _controller(name: str, here: "_Here", environ: Mapping[str, str]) -> Supervised:
    account = f"magos-{name}"
    kubeconfig = await here.plane.service_account_kubeconfig(
        SYSTEM_NAMESPACE, account, here.folder / f"{account}.kubeconfig"
    )
    [health_port] = free_ports(1)
    spec = ProcessSpec(
        name=f"magos-{name}-controller",
        argv=[
            str(Path(sys.executable).parent / f"magos-{name}-controller"),
            "--leader-elect",
            f"--health-probe-bind-address=127.0.0.1:{health_port}",
            *([f"--default-poll-interval={here.poll_interval}"] if name == "refwatcher" else []),
        ],
        log_file=here.folder / "logs" / f"magos-{name}-controller.log",
        env={
            **environ,
            "KUBECONFIG": str(kubeconfig),
            "POD_NAMESPACE": SYSTEM_NAMESPACE,
            "MAGOS_JOB_IMAGE": "magos-job:local",
            "MAGOS_JOB_POD_CONFIG": str(here.pod_config),
            "MAGOS_OPENTOFU_MIRROR": here.mirror.url,
            "MAGOS_RELEASE_KEYS": "/etc/magos/keys",
        },
    )
    return Supervised(spec)


class _Here(Struct, frozen=True, kw_only=True):
    folder: Path
    plane: ControlPlane
    mirror: ReleaseMirror
    pod_config: Path
    poll_interval: str


@asynccontextmanager
async def machine(
    assets: MachineAssets,
    folder: Path,
    *,
    environ: Mapping[str, str],
    progress: Progress,
    poll_interval: str = POLL_INTERVAL,
) -> AsyncIterator[Machine]:
    """Start everything below ``folder``; ``environ`` is what the controllers' processes get besides their settings.

    ``poll_interval`` is RefWatcher's default for Workspaces that do not say how often their repository is asked.
    """
    async with AsyncExitStack() as stack:
        progress.say("starting etcd, kube-apiserver and kube-controller-manager")
        plane = ControlPlane(assets.control_plane, folder / "control-plane")
        kubectl = Kubectl(program=find_kubectl(), kubeconfig=plane.admin_kubeconfig)
        git = stack.enter_context(git_server(folder / "git"))
        mirror = stack.enter_context(release_mirror(folder / "mirror", folder / "release-keys"))
        prepared: list[_Prepared] = []
        installed = anyio.Event()

        async def prepare() -> None:
            prepared.append(await anyio.to_thread.run_sync(_prepare, folder, mirror, assets.tofu, kubectl))
            await plane.serving.wait()
            progress.say("installing the custom resources and the controllers' rights")
            with contextlib.suppress(KubectlFailed):  # said below, if it was not because the control plane began anew
                await anyio.to_thread.run_sync(install, kubectl, prepared[0].manifests)
                installed.set()

        async with anyio.create_task_group() as beside:
            beside.start_soon(prepare)
            await stack.enter_async_context(plane)
        [ready] = prepared
        if not installed.is_set():
            await anyio.to_thread.run_sync(install, kubectl, ready.manifests)
        pod_config = folder / "pod-config.yaml"
        pod_config.write_text(yaml.safe_dump(_POD_CONFIG))

        client = ApiClient(
            connect(load_config(str(plane.admin_kubeconfig), environ={}), user_agent="magos (one-machine mode)")
        )
        stack.push_async_callback(client.aclose)
        pods = PodRunner(
            client=client,
            request=plane.request,
            authority=plane.authority,
            url=plane.url,
            folder=folder / "pods",
            programs=() if assets.kyverno is None else (assets.kyverno,),
        )
        tasks = await stack.enter_async_context(_tasks())
        await tasks.start(pods.run)
        progress.say("starting the controllers, each as its own process and ServiceAccount")
        here = _Here(folder=folder, plane=plane, mirror=mirror, pod_config=pod_config, poll_interval=poll_interval)
        controllers = {name: await _controller(name, here, environ) for name in CONTROLLERS}
        for controller in controllers.values():
            await tasks.start(controller.run)
        tasks.start_soon(plane.watch_processes)
        yield Machine(
            folder=folder,
            plane=plane,
            client=client,
            kubectl=kubectl,
            git=git,
            repository=ready.repository,
            mirror=mirror,
            pods=pods,
            controllers=controllers,
        )


@asynccontextmanager
async def _tasks() -> AsyncIterator[anyio.abc.TaskGroup]:
    """A task group that is cancelled when the block is left."""
    async with anyio.create_task_group() as tasks:
        yield tasks
        tasks.cancel_scope.cancel()
