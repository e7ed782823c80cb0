"""The demo: a commit is promoted from dev to prod, a broken one stops in staging, its correction reaches prod."""

import logging
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from pathlib import Path
from typing import Any

import anyio
import structlog
import yaml
from msgspec import Struct

from magos.api.project import PROJECTS
from magos.api.rollout import ROLLOUTS, Rollout
from magos.api.workspace import WORKSPACES, Workspace
from magos.cli.progressview import ProgressView
from magos.cli.tree import project_tree
from magos.local.controlplane.installation import manifest_folder
from magos.local.machine import Machine, machine
from magos.local.programs.assets import AssetSettings, machine_assets
from magos.local.programs.progress import LineProgress, Progress
from magos.local.programs.recipes import TOFU_VERSION
from magos.runtime.cache.informer import Informer
from magos.runtime.clock import SystemClock
from magos.terminal import echo, one_line

DEMO_NAMESPACE = "demo"
_CHAPTER_TIMEOUT_SECONDS = 300.0
"""For one chapter, which takes about 20 s on two idle cores: a busy machine may be much slower."""

_KINDS = ("Project", "Workspace", "Rollout")
_NEXT_STEPS = f"""
Everything keeps running until you press Ctrl-C. To look around, run in another terminal:
  export KUBECONFIG={{kubeconfig}}
  kubectl get ws,mro -n {DEMO_NAMESPACE}
  kubectl logs -n {DEMO_NAMESPACE} -l magosproject.io/workspace={{project}}-dev -c terraform
  magos tree {{project}} -n {DEMO_NAMESPACE}
The programs of Magos write their logs to {{folder}}/logs."""
_WEB_UI = """
The web UI: {url}
  log in as admin with the password {password}"""
_UI_SECONDS = 30.0
"""The API server was started before the walk; the rest of its start on a busy machine."""


class DemoSettings(Struct, frozen=True, kw_only=True):
    """What the command line decided; with ``stay`` everything keeps running until a signal arrives."""

    assets: AssetSettings
    environ: Mapping[str, str]
    stay: bool


def sample_manifests(repo_url: str, namespace: str, *folders: str) -> list[dict[str, Any]]:
    """Return the shipped samples with ``repo_url`` and the tool version of the local mirror in their Workspaces.

    They come from the top folder of the samples and from ``folders`` below it.
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
    """Run the demo; returns 0 if every chapter ended as it should, 1 if not or if a signal ended the demo."""
    *processors, renderer = structlog.get_config()["processors"]
    structlog.configure(  # the runtime's log lines would stand between those of the view
        processors=[*processors, _through_the_door, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    progress = LineProgress(sys.stderr)
    view_began = time.monotonic()
    assets = machine_assets(settings.assets, progress)
    folder = Path(tempfile.mkdtemp(prefix="magos-demo-"))

    async def walk() -> int:
        async with machine(assets, folder, environ=settings.environ, progress=progress, extras=True) as here:
            return await _watched(here, ProgressView(progress, view_began), stay=settings.stay)

    try:
        return anyio.run(_until_signalled, walk, progress)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _through_the_door(_: object, __: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """Escape the texts of a log line before it gets the colours of a terminal."""
    return {name: one_line(value) if isinstance(value, str) else value for name, value in event.items()}


async def _until_signalled(walk: Callable[[], Awaitable[int]], progress: Progress) -> int:
    """Run ``walk`` and return its result; Ctrl-C and SIGTERM cancel it, so that it ends all that it started."""
    result = 1

    async def body(scope: anyio.CancelScope) -> None:
        nonlocal result
        result = await walk()
        scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(body, tasks.cancel_scope)
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for _ in signals:
                progress.say("stopping everything that the demo has started")
                tasks.cancel_scope.cancel()
                return result
    return result


async def _watched(here: Machine, view: ProgressView, *, stay: bool) -> int:
    """Play the chapters, with informers that feed the view, and show the result."""
    clock, rng = SystemClock(), random.SystemRandom()
    workspaces: Informer[Workspace] = Informer(here.client, WORKSPACES, namespace=DEMO_NAMESPACE, clock=clock, rng=rng)
    rollouts: Informer[Rollout] = Informer(here.client, ROLLOUTS, namespace=DEMO_NAMESPACE, clock=clock, rng=rng)
    workspaces.add_handler(view.workspace_changed)
    rollouts.add_handler(view.rollout_changed)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(workspaces.run)
        tasks.start_soon(rollouts.run)
        project, well = await _walk(here, view)
        await _show_result(here, project, view)
        if stay:
            await _show_web_ui(here)
            echo(_NEXT_STEPS.format(kubeconfig=here.plane.admin_kubeconfig, project=project, folder=here.folder))
            await anyio.sleep_forever()
        echo("\nThe demo ends here and removes everything it made; without --exit it keeps running.")
        tasks.cancel_scope.cancel()
    return 0 if well else 1


async def _walk(here: Machine, view: ProgressView) -> tuple[str, bool]:
    """Return the Project's name and whether every chapter ended as it should."""
    documents = sample_manifests(here.repo_url, DEMO_NAMESPACE, "promotion")
    project = next(d["metadata"]["name"] for d in documents if d["kind"] == "Project")
    first = await anyio.to_thread.run_sync(here.repository.head)
    view.say(f"1. Applying Project {project}, its Rollout and three Workspaces; main is at commit {first[:7]}.")
    view.say("   The Rollout lets dev apply it first, then staging, then prod.")
    await here.prepare_namespace(DEMO_NAMESPACE, *documents)
    if not await _reached(view, lambda: view.promoted(first), f"all Workspaces have applied {first[:7]}"):
        return project, False

    broken = await anyio.to_thread.run_sync(here.repository.release_broken, "1.1.0", "staging")
    view.say(f"2. Committed {broken[:7]}: release 1.1.0, with a mistake in staging. RefWatcher finds it by polling.")
    if not await _reached(view, lambda: _halted(view, first, broken), f"{broken[:7]} has failed in staging"):
        return project, False
    prod = view.workspaces[f"{project}-prod"].status
    view.say(f"   prod stays at {prod.observed_revision[:7]}; its message: {prod.message}")

    fixed = await anyio.to_thread.run_sync(here.repository.repair_module, "staging")
    view.say(f"3. Committed {fixed[:7]}, which corrects the mistake.")
    return project, await _reached(view, lambda: view.promoted(fixed), f"all Workspaces have applied {fixed[:7]}")


async def _reached(view: ProgressView, holds: Callable[[], bool], goal: str) -> bool:
    reached = await view.until(holds, _CHAPTER_TIMEOUT_SECONDS)
    if not reached:
        view.say(
            f"Gave up: {_CHAPTER_TIMEOUT_SECONDS:.0f} s were not enough until {goal}. The lines above and the tree "
            "below show how far each Workspace came; to read the controllers' logs, run the demo without --exit."
        )
    return reached


def _halted(view: ProgressView, before: str, broken: str) -> bool:
    """Tell whether the broken commit was applied in dev, failed in staging and waits in prod."""
    stages = {name.rsplit("-", 1)[-1]: workspace.status for name, workspace in view.workspaces.items()}
    return (
        view.rollout is not None
        and view.rollout.status.reason == "StepFailed"
        and stages["dev"].observed_revision == broken
        and stages["staging"].reason == "PlanFailed"
        and stages["prod"].observed_revision == before
        and stages["prod"].reason == "AwaitingRollout"
    )


async def _show_result(here: Machine, project: str, view: ProgressView) -> None:
    found = await here.client.get(PROJECTS, DEMO_NAMESPACE, project)
    members = sorted(view.workspaces.values(), key=lambda workspace: workspace.metadata.name)
    echo("")
    echo(project_tree(project, found, members))
    for workspace in members:
        state = await here.find_state(DEMO_NAMESPACE, workspace.metadata.name)
        echo(f"   Terraform state of {workspace.metadata.name}: {state or 'none was written'}")


async def _show_web_ui(here: Machine) -> None:
    if here.extras is None:
        return
    api = here.extras.api
    if await api.wait_until_ready(_UI_SECONDS):
        echo(_WEB_UI.format(url=api.url, password=api.password))
    else:
        echo(f"\nThe web UI does not answer at {api.url}; the cause stands in {api.process.spec.log_file}")
