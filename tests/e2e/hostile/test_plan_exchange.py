"""The plan that is judged, shown, approved, verified and applied is one plan, whatever is exchanged on the way."""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from magos.api.result import Outcome, Result
from magos.api.runnerpod import Stage
from magos.local.programs.assets import AssetSettings
from magos.local.programs.progress import LineProgress
from magos.local.servers.mirror import ReleaseMirror
from tests.e2e.hostile.exchange import WAYS, Attempt, playground, tally
from tests.e2e.runner.hostile import provider_files, push, requires_time
from tests.e2e.runner.nodepod import NodePod
from tests.e2e.runner.pod import APPLY, PLAN, RUN
from tests.e2e.runner.provider import time_provider_program

_BACKEND = 'terraform {\n  backend "local" {\n    path = "/workspace-data/state/net.tfstate"\n  }\n}\n'
_KEYS = """terraform {
  encryption {
    key_provider "external" "x" {
      command = ["python3", "./keyprovider.py"]
    }
    method "aes_gcm" "m" {
      keys = key_provider.external.x
    }
    state {
      method = method.aes_gcm.m
    }
  }
}
"""


def test_no_exchange_at_any_moment_makes_two_plans_of_one(tmp_path: Path) -> None:
    tried, exchanged = tally(tmp_path, seed=1, number=200)
    assert tried >= 300
    assert exchanged == []


@pytest.mark.parametrize("way", WAYS)
def test_the_adversary_of_the_test_does_what_it_says(tmp_path: Path, way: str) -> None:
    """Before ``render`` looks, the exchange decides which plan is the run's, or there is none."""
    with playground(tmp_path) as ground:
        honest = ground.play(None)
        outcomes = ground.play(Attempt(way, PLAN, Stage.RENDER, 1))
    assert outcomes.acted
    assert (outcomes.reported == honest.reported) is (way == "put another there and back")


def node_pod(folder: Path, mirror: ReleaseMirror) -> NodePod:
    settings = {
        "MAGOS_OPENTOFU_MIRROR": mirror.url,
        "MAGOS_RELEASE_KEYS": "/workspace-data/keys",
        "MAGOS_ALLOWED_GIT_SCHEMES": "file",
    }
    pod = NodePod(folder, settings)
    shutil.copytree(mirror.keys, pod.volume / "keys")
    return pod


def commit(pod: NodePod, folder: Path, files: Mapping[str, str]) -> None:
    """Put a repository with ``files``, and what lies in ``folder`` already, on the volume."""
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    shutil.rmtree(pod.volume / "repository", ignore_errors=True)
    push(folder, pod.volume / "repository")


def run(pod: NodePod, planned: Result | None = None) -> Result:
    """Run a whole pod; an apply if something is ``planned``."""
    if (pod.folder / "volumes").exists():
        pod.fresh(planned)
    for stage in Stage.JOB.before(PLAN if planned is None else APPLY):
        assert pod.stage(stage) == 0, pod.log(stage)
    return pod.result()


def test_what_init_starts_cannot_exchange_the_plan_of_an_apply(tmp_path: Path, mirror: ReleaseMirror) -> None:
    """Real tool, user, mounts and memory of a pod; the program of a key provider runs in ``init`` and in ``apply``."""
    pod = node_pod(tmp_path / "pod", mirror)
    program = {"keyprovider.py": Path(__file__).with_name("keyprovider.py").read_text()}
    planned: dict[str, Result] = {}
    for name in ("evil", "honest"):
        resource = f'resource "terraform_data" "{name}" {{}}\n'
        commit(pod, tmp_path / name, {"main.tf": _BACKEND + _KEYS + resource, **program})
        planned[name] = run(pod)
        assert planned[name].result is Outcome.SUCCEEDED, planned[name].message
        if name == "evil":
            shutil.copy(pod.volume / "runs" / RUN / "run.tfplan", pod.volume / "evil.tfplan")
            (pod.volume / "evil.tfplan").chmod(0o644)
            shutil.rmtree(pod.volume / "runs")
    applied = run(pod, planned["honest"])
    assert applied.result is Outcome.SUCCEEDED, applied.message
    log = pod.log(Stage.TERRAFORM)
    assert "terraform_data.honest: Creation complete" in log
    assert "terraform_data.evil: Creati" not in log
    deeds = (pod.volume / "deeds").read_text().splitlines()
    assert f"done /workspace-data/runs/{RUN}" in deeds
    assert [deed for deed in deeds if deed.startswith("done /proc")] == []
    assert [deed for deed in deeds if deed.startswith("refused /proc/self/fd/")] != [], "it inherits the sealed plan"
    assert [deed for deed in deeds if deed.startswith("refused /proc/1/fd:")] != []


def test_a_folder_that_two_processes_find_in_two_places_is_not_planned_into(
    tmp_path: Path, mirror: ReleaseMirror
) -> None:
    """The tool's working directory is the module, the runner's is the root: ``/proc/self/cwd`` leads to two plans."""
    pod = node_pod(tmp_path / "pod", mirror)
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "magos"
    provider = time_provider_program(AssetSettings(cache=cache, environ=dict(os.environ)), LineProgress(sys.stderr))
    runs = f"/workspace-data/runs/{RUN}"
    deed = (
        f"test -L {runs} || {{ mv {runs} /workspace-data/moved; mkdir -p /workspace-data/b;"
        f" ln -s /proc/self/cwd/workspace-data/b {runs}; : >/workspace-data/b/run.tfplan; }}"
    )
    work = tmp_path / "work"
    work.mkdir()
    provider_files(work, provider, deed)
    commit(pod, work, {"main.tf": _BACKEND + requires_time(), "workspace-data/b/here": "x"})
    result = run(pod)
    assert (pod.volume / "runs" / RUN).is_symlink(), pod.log(Stage.TERRAFORM)
    assert (result.result, result.reason) == (Outcome.FAILED, "PlanFailed")
    assert "cannot be read back" in result.message
