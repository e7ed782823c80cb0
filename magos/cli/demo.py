"""The walk of the one-machine mode: from a commit to three applied Workspaces, told while it happens."""

import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import yaml
from msgspec import Struct

from magos.api.phases import Phase
from magos.api.project import PROJECTS
from magos.api.workspace import WORKSPACES, Workspace
from magos.cli.tree import project_tree
from magos.errors import MagosError
from magos.local.assets import AssetSettings
from magos.local.machine import Machine, machine, machine_assets
from magos.local.manifests import manifest_folder
from magos.local.progress import LineProgress, Progress
from magos.local.recipes import TOFU_VERSION
from magos.runtime.clock import SystemClock
from magos.runtime.informer import Change, Informer

__all__ = ["DEMO_NAMESPACE", "DemoSettings", "run_demo", "sample_manifests"]

DEMO_NAMESPACE = "demo"
_PATIENCE_SECONDS = 300.0


class DemoSettings(Struct, frozen=True, kw_only=True):
    """What the command line decided. ``stay`` keeps everything up until interrupted."""

    assets: AssetSettings
    environ: Mapping[str, str]
    stay: bool


def sample_manifests(repo_url: str, namespace: str) -> list[dict[str, Any]]:
    """Return the shipped samples, pointed at ``repo_url`` and at the tool version that the local mirror has."""
    documents: list[dict[str, Any]] = []
    for path in sorted(manifest_folder("samples").glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            if document["kind"] not in ("Project", "Workspace"):
                continue
            document["metadata"]["namespace"] = namespace
            if document["kind"] == "Workspace":
                document["spec"]["source"]["repoURL"] = repo_url
                document["spec"]["terraform"] = {"version": TOFU_VERSION, "distribution": "opentofu"}
            documents.append(document)
    return documents


class _Story:
    """Tells every change of a Workspace's phase, and knows when all are settled."""

    def __init__(self, names: frozenset[str], progress: Progress, began: float) -> None:
        self._names = names
        self._progress = progress
        self._began = began
        self._told: dict[str, str] = {}
        self.phases: dict[str, Phase | None] = {}
        self.settled = anyio.Event()

    def changed(self, change: Change[Workspace]) -> None:
        workspace = change.new
        if workspace is None or workspace.metadata.name not in self._names:
            return
        name, status = workspace.metadata.name, workspace.status
        self.phases[name] = status.phase
        text = f"{status.phase or 'new'}{'/' + status.reason if status.reason else ''}"
        if self._told.get(name) != text:
            self._told[name] = text
            seconds = time.monotonic() - self._began
            detail = f"  {status.message}" if status.message and status.phase is Phase.FAILED else ""
            self._progress.say(f"{seconds:6.1f} s  {name:<12} {text}{detail}")
        if self.phases.keys() == self._names and all(
            phase in (Phase.APPLIED, Phase.FAILED, Phase.VALIDATION_FAILED) for phase in self.phases.values()
        ):
            self.settled.set()

    @property
    def applied(self) -> bool:
        """Whether every Workspace ended Applied."""
        return self.phases.keys() == self._names and set(self.phases.values()) == {Phase.APPLIED}


def run_demo(settings: DemoSettings) -> int:
    """Run the demo; returns 0 if every Workspace was applied, else 1."""
    progress = LineProgress(sys.stderr)
    began = time.monotonic()
    assets = machine_assets(settings.assets, progress)
    folder = Path(tempfile.mkdtemp(prefix="magos-demo-"))

    async def walk() -> int:
        async with machine(assets, folder, environ=settings.environ, progress=progress) as here:
            return await _walk(here, progress, began, stay=settings.stay)

    try:
        return anyio.run(_until_signalled, walk)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _until_signalled(walk: Any) -> int:
    """Run ``walk``; Ctrl-C and SIGTERM end it in order, so that nothing is left running."""
    result = 1

    async def body(scope: anyio.CancelScope) -> None:
        nonlocal result
        result = await walk()
        scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(body, tasks.cancel_scope)
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for _ in signals:
                tasks.cancel_scope.cancel()
                return result
    return result


async def _walk(here: Machine, progress: Progress, began: float, *, stay: bool) -> int:
    await here.prepare_namespace(DEMO_NAMESPACE)
    documents = sample_manifests(here.repo_url, DEMO_NAMESPACE)
    names = frozenset(d["metadata"]["name"] for d in documents if d["kind"] == "Workspace")
    project = next(d["metadata"]["name"] for d in documents if d["kind"] == "Project")
    revision = await anyio.to_thread.run_sync(here.repository.head)
    progress.say(f"applying Project {project} with {len(names)} Workspaces; the repository is at commit {revision}")
    story = _Story(names, progress, began)
    informer: Informer[Workspace] = Informer(
        here.client, WORKSPACES, namespace=DEMO_NAMESPACE, clock=SystemClock(), rng=random.SystemRandom()
    )
    informer.add_handler(story.changed)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(informer.run)
        await anyio.to_thread.run_sync(
            lambda: here.kubectl.run("apply", "-f", "-", stdin=yaml.safe_dump_all(documents))
        )
        with anyio.move_on_after(_PATIENCE_SECONDS):
            await story.settled.wait()
        members = [workspace for workspace in informer.cache.list() if workspace.metadata.name in names]
        await _tell_end(here, project, members)
        if stay:
            print("\nUp until Ctrl-C.", flush=True)
            await anyio.sleep_forever()
        tasks.cancel_scope.cancel()
    return 0 if story.applied and all(w.status.observed_revision == revision for w in members) else 1


async def _tell_end(here: Machine, project: str, members: list[Workspace]) -> None:
    found = await here.client.get(PROJECTS, DEMO_NAMESPACE, project)
    print()
    print(project_tree(project, found, members))
    for workspace in members:
        print(f"   {workspace.metadata.name}: state in {await _state_file(here, workspace)}")
    kubeconfig = here.plane.admin_kubeconfig
    print(
        f"\nKubeconfig: {kubeconfig}\n\nTry next:\n"
        f"  export KUBECONFIG={kubeconfig}\n"
        f"  kubectl get ws -n {DEMO_NAMESPACE}\n"
        f"  kubectl logs -n {DEMO_NAMESPACE} -l magosproject.io/workspace={members[0].metadata.name} -c terraform\n"
        f"  magos tree {project} -n {DEMO_NAMESPACE}",
        flush=True,
    )


async def _state_file(here: Machine, workspace: Workspace) -> str:
    """Return where the Terraform state of a Workspace lies on this machine; ``MagosError`` if it was not written."""
    path = await here.find_state(DEMO_NAMESPACE, workspace.metadata.name)
    if path is None:
        raise MagosError(f"Workspace {workspace.metadata.name} left no Terraform state on its volume")
    return str(path)
