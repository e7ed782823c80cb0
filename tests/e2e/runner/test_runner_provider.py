"""A real provider process: from a folder that plays the registry, through the plugin cache, on read-only mounts."""

import os
import stat
import sys
import zipfile
from pathlib import Path

import pytest

from magos.api.result import Outcome
from magos.api.runnerpod import Stage
from magos.local.programs.assets import AssetSettings
from magos.local.programs.progress import LineProgress
from magos.toolchain.releases import architecture
from tests.e2e.runner.pod import NEXT, PLAN, Workspace, apply, plan, resources
from tests.e2e.runner.provider import TIME_PROVIDER, time_provider_program

_MODULE = """
terraform {
  required_providers {
    time = { source = "hashicorp/time" }
  }
}
resource "time_static" "here" {}
"""
_REGISTRIES = ("registry.opentofu.org", "registry.terraform.io")


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CLI configuration file that names a provider mirror and nothing else."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "magos"
    program = time_provider_program(AssetSettings(cache=cache, environ=dict(os.environ)), LineProgress(sys.stderr))
    folder = tmp_path_factory.mktemp("registry")
    version = TIME_PROVIDER.version
    for host in _REGISTRIES:
        place = folder / "mirror" / host / "hashicorp" / "time"
        place.mkdir(parents=True)
        # Packed, as registries serve it: only then does the tool unpack it into its cache.
        packed = place / f"{program.name}_{version}_linux_{architecture()}.zip"
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
            archive.write(program, f"{program.name}_v{version}")
    settings = folder / "cli.tfrc"
    settings.write_text(
        f'provider_installation {{\n  filesystem_mirror {{\n    path = "{folder / "mirror"}"\n  }}\n}}\n'
    )
    for entry in folder.rglob("*"):
        entry.chmod(entry.stat().st_mode & ~(stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH))
    return settings


def cached(workspace: Workspace) -> list[Path]:
    """The provider's programs in the plugin cache."""
    return [path for path in (workspace.volume / "plugin-cache").rglob(f"{TIME_PROVIDER.name}_*") if path.is_file()]


def test_a_provider_is_installed_offline_planned_rendered_and_applied(workspace: Workspace, registry: Path) -> None:
    workspace.commit({"main.tf": workspace.backend + _MODULE})
    workspace.settings["TF_CLI_CONFIG_FILE"] = str(registry)
    planning, planned = plan(workspace)
    assert planned.result is Outcome.SUCCEEDED, planned.message
    assert planned.changes.add == 1
    assert cached(workspace) != []
    assert "hashicorp/time" in (planning.plan_file.parent / ".terraform.lock.hcl").read_text()
    _, applied = apply(workspace, planned)
    assert applied.result is Outcome.SUCCEEDED, applied.message
    assert resources(workspace) == ["here"]
    _, unchanged = plan(workspace, NEXT)
    assert (unchanged.result, unchanged.has_changes) == (Outcome.SUCCEEDED, False)


def test_a_plugin_cache_in_trouble_is_done_without(workspace: Workspace, registry: Path) -> None:
    """Field case F17: the cached provider is no longer what the lock file of the repository knows."""
    workspace.settings["TF_CLI_CONFIG_FILE"] = str(registry)
    workspace.commit({"main.tf": workspace.backend + _MODULE})
    planning, _ = plan(workspace)
    lock = (planning.root / "work/source/.terraform.lock.hcl").read_text()
    workspace.commit({"main.tf": workspace.backend + _MODULE, ".terraform.lock.hcl": lock})
    [program] = cached(workspace)
    program.write_bytes(program.read_bytes() + b"rotten")
    pod, result = plan(workspace, NEXT)
    assert result.result is Outcome.SUCCEEDED, result.message
    assert pod.log.count("Initializing the backend") == 2, pod.log
    assert (pod.root / "work/source/.terraform.lock.hcl").read_text() == lock


def test_a_lock_file_for_another_platform_fails_with_the_checksums_named(workspace: Workspace, registry: Path) -> None:
    workspace.settings["TF_CLI_CONFIG_FILE"] = str(registry)
    other = (
        f'provider "registry.opentofu.org/hashicorp/time" {{\n  version = "{TIME_PROVIDER.version}"\n'
        f'  hashes = [\n    "h1:{"A" * 43}=",\n  ]\n}}\n'
    )
    workspace.commit({"main.tf": workspace.backend + _MODULE, ".terraform.lock.hcl": other})
    _, result = plan(workspace)
    assert result.reason == "PlanFailed"
    assert "checksums" in result.message
    assert "providers lock" in result.message, "the message must say how to add the missing checksums"


def test_render_needs_no_writable_volume(workspace: Workspace, registry: Path) -> None:
    workspace.settings["TF_CLI_CONFIG_FILE"] = str(registry)
    workspace.commit({"main.tf": workspace.backend + _MODULE})
    pod = workspace.pod(PLAN, NEXT)
    assert pod.stage(Stage.FETCH) == 0
    assert pod.stage(Stage.TERRAFORM) == 0, pod.log
    before = {path: path.lstat().st_mtime_ns for path in workspace.volume.rglob("*")}
    assert pod.stage(Stage.RENDER) == 0
    assert (pod.root / "scratch/render/plan.json").stat().st_size > 0
    assert {path: path.lstat().st_mtime_ns for path in workspace.volume.rglob("*")} == before
