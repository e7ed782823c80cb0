"""The sample repository is real Terraform: OpenTofu plans and applies it, and refuses what is meant to be broken."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from magos.git.checkout import CheckoutRequest, checkout
from magos.local.programs.assets import tofu_program
from magos.local.programs.progress import LineProgress
from magos.local.servers.gitserver import git_server
from magos.local.servers.samplerepo import SampleRepository
from tests.envtest.cluster import asset_settings


@pytest.fixture(scope="session")
def tofu() -> Path:
    return tofu_program(asset_settings(), LineProgress(sys.__stderr__ or sys.stderr))


@pytest.fixture
def sample(tmp_path: Path) -> SampleRepository:
    return SampleRepository.create(tmp_path / "repositories" / "demo.git", tmp_path / 'state "${odd}"')


def _run(tofu: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "TF_IN_AUTOMATION": "1"}
    return subprocess.run(
        [tofu, *arguments, "-no-color"], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def _clone(sample: SampleRepository, folder: Path) -> Path:
    with git_server(sample.path.parent) as server:
        workdir = folder / "work"
        workdir.mkdir(parents=True)
        request = CheckoutRequest(
            url=server.clone_url(sample.path.name),
            target_revision="main",
            destination=folder / "clone",
            workdir=workdir,
        )
        checkout(request)
        return request.destination


def _applied(tofu: Path, folder: Path) -> str:
    initialised = _run(tofu, folder, "init", "-input=false")
    assert initialised.returncode == 0, initialised.stderr
    applied = _run(tofu, folder, "apply", "-input=false", "-auto-approve")
    assert applied.returncode == 0, applied.stderr
    return applied.stdout


def test_every_environment_applies_and_its_state_is_written_outside_the_clone(
    tofu: Path, sample: SampleRepository, tmp_path: Path
) -> None:
    clone = _clone(sample, tmp_path)
    for environment in sample.environments:
        folder = clone / sample.folder(environment)
        assert f"https://service.{environment}.example" in _applied(tofu, folder)
        state = json.loads(sample.state_file(environment).read_text())
        assert state["outputs"]["release"]["value"] == "1.0.0"
        again = _run(tofu, folder, "plan", "-input=false", "-detailed-exitcode")
        assert again.returncode == 0, again.stdout


def test_a_release_plans_a_change_in_the_environments_it_names_only(
    tofu: Path, sample: SampleRepository, tmp_path: Path
) -> None:
    before = _clone(sample, tmp_path / "before")
    for environment in ("dev", "prod"):
        _applied(tofu, before / sample.folder(environment))
    sample.release("1.1.0", ["dev"])
    after = _clone(sample, tmp_path / "after")
    codes = {}
    for environment in ("dev", "prod"):
        folder = after / sample.folder(environment)
        assert _run(tofu, folder, "init", "-input=false").returncode == 0
        codes[environment] = _run(tofu, folder, "plan", "-input=false", "-detailed-exitcode").returncode
    assert codes == {"dev": 2, "prod": 0}


def test_a_broken_module_initialises_and_fails_to_plan_with_a_diagnostic_until_it_is_repaired(
    tofu: Path, sample: SampleRepository, tmp_path: Path
) -> None:
    sample.break_module("dev")
    folder = _clone(sample, tmp_path / "broken") / sample.folder("dev")
    assert _run(tofu, folder, "init", "-input=false").returncode == 0
    planned = _run(tofu, folder, "plan", "-input=false")
    assert planned.returncode == 1
    assert "Reference to undeclared input variable" in planned.stderr
    sample.repair_module("dev")
    _applied(tofu, _clone(sample, tmp_path / "repaired") / sample.folder("dev"))


def test_the_built_tofu_reports_itself_as_the_pinned_release(tofu: Path, tmp_path: Path) -> None:
    from magos.local.programs.recipes import TOFU_VERSION

    reported = json.loads(_run(tofu, tmp_path, "version", "-json").stdout)
    assert reported["terraform_version"] == TOFU_VERSION
