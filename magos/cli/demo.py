"""The walk of the one-machine mode: a commit is promoted to prod, a bad one is stopped, its fix goes through."""

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

from magos.api.project import PROJECTS
from magos.api.rollout import ROLLOUTS, Rollout
from magos.api.workspace import WORKSPACES, Workspace
from magos.cli.story import Story
from magos.cli.tree import project_tree
from magos.errors import MagosError
from magos.local.assets import AssetSettings
from magos.local.machine import Machine, machine, machine_assets
from magos.local.manifests import manifest_folder
from magos.local.progress import LineProgress
from magos.local.recipes import TOFU_VERSION
from magos.runtime.cache.informer import Informer
from magos.runtime.clock import SystemClock

__all__ = ["DEMO_NAMESPACE", "DemoSettings", "run_demo", "sample_manifests"]

DEMO_NAMESPACE = "demo"
_PATIENCE_SECONDS = 300.0
_KINDS = ("Project", "Workspace", "Rollout")


class DemoSettings(Struct, frozen=True, kw_only=True):
    """What the command line decided. ``stay`` keeps everything up until interrupted."""

    assets: AssetSettings
    environ: Mapping[str, str]
    stay: bool


def sample_manifests(repo_url: str, namespace: str, *folders: str) -> list[dict[str, Any]]:
    """Return the shipped samples, pointed at ``repo_url`` and at the tool version that the local mirror has.

    ``folders`` are the folders of the samples to take besides the top one.
    """
    documents: list[dict[str, Any]] = []
    top = manifest_folder("samples")
    for path in sorted(file for folder in ("", *folders) for file in (top / folder).glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            if document["kind"] not in _KINDS:
                continue
            document["metadata"]["namespace"] = namespace
            if document["kind"] == "Workspace":
                document["spec"]["source"]["repoURL"] = repo_url
                document["spec"]["terraform"] = {"version": TOFU_VERSION, "distribution": "opentofu"}
            documents.append(document)
    return documents


def run_demo(settings: DemoSettings) -> int:
    """Run the demo; returns 0 if everything went as told, else 1."""
    progress = LineProgress(sys.stderr)
    story_began = time.monotonic()
    assets = machine_assets(settings.assets, progress)
    folder = Path(tempfile.mkdtemp(prefix="magos-demo-"))

    async def walk() -> int:
        async with machine(assets, folder, environ=settings.environ, progress=progress) as here:
            return await _watched(here, Story(progress, story_began), stay=settings.stay)

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


async def _watched(here: Machine, story: Story, *, stay: bool) -> int:
    """Run the walk with informers that feed the story."""
    clock, rng = SystemClock(), random.SystemRandom()
    workspaces: Informer[Workspace] = Informer(here.client, WORKSPACES, namespace=DEMO_NAMESPACE, clock=clock, rng=rng)
    rollouts: Informer[Rollout] = Informer(here.client, ROLLOUTS, namespace=DEMO_NAMESPACE, clock=clock, rng=rng)
    workspaces.add_handler(story.workspace_changed)
    rollouts.add_handler(story.rollout_changed)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(workspaces.run)
        tasks.start_soon(rollouts.run)
        project, well = await _walk(here, story)
        await _tell_end(here, project, story)
        if stay:
            print("\nUp until Ctrl-C.", flush=True)
            await anyio.sleep_forever()
        tasks.cancel_scope.cancel()
    return 0 if well else 1


async def _walk(here: Machine, story: Story) -> tuple[str, bool]:
    """Return the Project's name and whether every chapter ended as it should."""
    documents = sample_manifests(here.repo_url, DEMO_NAMESPACE, "promotion")
    project = next(d["metadata"]["name"] for d in documents if d["kind"] == "Project")
    first = await anyio.to_thread.run_sync(here.repository.head)
    story.say(f"applying Project {project}, its Rollout and three Workspaces; the repository is at {first}")
    await here.prepare_namespace(DEMO_NAMESPACE, *documents)
    if not await story.until(lambda: story.promoted(first), _PATIENCE_SECONDS):
        return project, False

    broken = await anyio.to_thread.run_sync(here.repository.release_broken, "1.1.0", "staging")
    story.say(f"committed {broken}: release 1.1.0, with a mistake in staging. Nobody tells Magos.")
    if not await story.until(lambda: _halted(story, first, broken), _PATIENCE_SECONDS):
        return project, False
    prod = story.workspaces[f"{project}-prod"].status
    story.say(f"prod stays at {prod.observed_revision} and says: {prod.message}")

    fixed = await anyio.to_thread.run_sync(here.repository.repair_module, "staging")
    story.say(f"committed {fixed}: the mistake is corrected.")
    return project, await story.until(lambda: story.promoted(fixed), _PATIENCE_SECONDS)


def _halted(story: Story, before: str, broken: str) -> bool:
    """Whether the bad commit reached dev, failed in staging and did not get to prod."""
    stages = {name.rsplit("-", 1)[-1]: workspace.status for name, workspace in story.workspaces.items()}
    return (
        story.rollout is not None
        and story.rollout.status.reason == "StepFailed"
        and stages["dev"].observed_revision == broken
        and stages["staging"].reason == "PlanFailed"
        and stages["prod"].observed_revision == before
        and stages["prod"].reason == "AwaitingRollout"
    )


async def _tell_end(here: Machine, project: str, story: Story) -> None:
    found = await here.client.get(PROJECTS, DEMO_NAMESPACE, project)
    members = sorted(story.workspaces.values(), key=lambda workspace: workspace.metadata.name)
    print()
    print(project_tree(project, found, members))
    for workspace in members:
        print(f"   {workspace.metadata.name}: state in {await _state_file(here, workspace)}")
    kubeconfig = here.plane.admin_kubeconfig
    print(
        f"\nKubeconfig: {kubeconfig}\n\nTry next:\n"
        f"  export KUBECONFIG={kubeconfig}\n"
        f"  kubectl get ws,mro -n {DEMO_NAMESPACE}\n"
        f"  kubectl logs -n {DEMO_NAMESPACE} -l magosproject.io/workspace={project}-dev -c terraform\n"
        f"  magos tree {project} -n {DEMO_NAMESPACE}",
        flush=True,
    )


async def _state_file(here: Machine, workspace: Workspace) -> str:
    """Return where the Terraform state of a Workspace lies on this machine; ``MagosError`` if it was not written."""
    path = await here.find_state(DEMO_NAMESPACE, workspace.metadata.name)
    if path is None:
        raise MagosError(f"Workspace {workspace.metadata.name} left no Terraform state on its volume")
    return str(path)
