"""A provider of the repository that means harm does not change what is shown of the plan (I6, I18).

Real containers with the mounts, the user and the environment of real pods; the provider tries one way after the other.
"""

import os
import shutil
import sys
from pathlib import Path

import pytest

from magos.api.kube import EnvVar
from magos.api.meta import ObjectMeta
from magos.api.result import Outcome
from magos.api.runnerpod import Stage
from magos.api.validatingpolicy import ValidatingPolicy, policy_file, policy_text
from magos.ids import digest_of
from magos.local.programs.assets import AssetSettings
from magos.local.programs.progress import LineProgress
from magos.local.servers.mirror import ReleaseMirror
from magos.runner.planjson import read_plan_json
from tests.e2e.runner.hostile import assailant_files, push, requires_time
from tests.e2e.runner.nodepod import NodePod
from tests.e2e.runner.provider import time_provider_program

_BACKEND = 'terraform {\n  backend "local" {\n    path = "/workspace-data/state/net.tfstate"\n  }\n}\n'
_ENCRYPTED = """terraform {
  encryption {
    key_provider "pbkdf2" "m" {
      passphrase = "correct-horse-battery-staple"
    }
    method "aes_gcm" "m" {
      keys = key_provider.pbkdf2.m
    }
    plan {
      method = method.aes_gcm.m
    }
  }
}
"""
_SECRET = "hunter-two"
_VARIABLE = 'variable "key" {\n  type = string\n  default = ""\n}\n'
_DENY_ALL = {
    policy_file("p"): policy_text(
        ValidatingPolicy(
            metadata=ObjectMeta(name="p"),
            spec={
                "evaluation": {"mode": "JSON"},
                "validationActions": ["Deny"],
                "validations": [{"expression": "false", "message": "no"}],
            },
        )
    )
}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bare repository whose provider is the assailant."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "magos"
    program = time_provider_program(AssetSettings(cache=cache, environ=dict(os.environ)), LineProgress(sys.stderr))
    folder = tmp_path_factory.mktemp("assailant")
    work = folder / "work"
    work.mkdir()
    (work / "main.tf").write_text(_BACKEND + _VARIABLE + requires_time())
    assailant_files(work, program)
    push(work, folder / "repository")
    return folder / "repository"


def node_pod(folder: Path, repository: Path, mirror: ReleaseMirror) -> NodePod:
    """A pod with the repository on its volume that has run nothing yet."""
    settings = {
        "MAGOS_OPENTOFU_MIRROR": mirror.url,
        "MAGOS_RELEASE_KEYS": "/workspace-data/keys",
        "MAGOS_ALLOWED_GIT_SCHEMES": "file",
    }
    pod = NodePod(folder, settings, variables=(EnvVar(name="TF_VAR_key", value=_SECRET),))
    shutil.copytree(repository, pod.volume / "repository")
    shutil.copytree(mirror.keys, pod.volume / "keys")
    return pod


def deeds(pod: NodePod, stage: Stage = Stage.RENDER) -> list[str]:
    """What the provider told of its attempts."""
    path = pod.scratch / stage / "deeds"
    return path.read_text().splitlines() if path.exists() else []


def render(pod: NodePod, deed: str) -> int:
    """Run ``render`` again with a provider that tries ``deed``."""
    for entry in (pod.scratch / "render").glob("*"):
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    (pod.volume / "deed").write_text(deed)
    return pod.stage(Stage.RENDER)


@pytest.fixture(scope="module")
def pod(tmp_path_factory: pytest.TempPathFactory, repository: Path, mirror: ReleaseMirror) -> NodePod:
    """A pod that has planned."""
    made = node_pod(tmp_path_factory.mktemp("pod"), repository, mirror)
    for stage in (Stage.FETCH, Stage.TERRAFORM):
        assert made.stage(stage) == 0, made.log(stage)
        assert made.status(stage).reason is None, made.status(stage)
    return made


@pytest.fixture(scope="module")
def honest(pod: NodePod) -> bytes:
    """The plan as the tool shows it while nobody interferes."""
    assert render(pod, "") == 0
    assert pod.status(Stage.RENDER).exposure == "", pod.log(Stage.RENDER)
    content = pod.plan_json.read_bytes()
    assert read_plan_json(content).changes.add == 1
    return content


@pytest.mark.parametrize("deed", ["descriptors", "getfd", "memory", "trace"])
def test_neither_the_tool_nor_the_runner_is_within_reach(pod: NodePod, honest: bytes, deed: str) -> None:
    assert render(pod, deed) == 0
    found = deeds(pod)
    assert [line for line in found if not line.startswith("refused ")] == []
    assert {line.rpartition(": ")[2] for line in found} <= {"EPERM", "EACCES"}
    assert {name for name in ("tool", "runner") if any(f" {name}:" in line for line in found)} == {"tool", "runner"}
    assert pod.plan_json.read_bytes() == honest


@pytest.mark.parametrize("deed", ["file", "folder", "link", "pipe", "daemon", "swarm", "inherited"])
def test_nothing_that_a_provider_leaves_becomes_the_plan(pod: NodePod, honest: bytes, deed: str) -> None:
    assert render(pod, deed) == 0
    assert deeds(pod) != []
    assert pod.status(Stage.RENDER).reason is None, pod.status(Stage.RENDER)
    assert pod.plan_json.read_bytes() == honest


@pytest.mark.parametrize("deed", ["getfd_at_the_end", "limits"])
def test_what_no_permission_forbids_spoils_the_plan_at_most(pod: NodePod, honest: bytes, deed: str) -> None:
    code = render(pod, deed)
    assert deeds(pod) != []
    if code == 0:
        result = pod.result()
        if result.result is Outcome.SUCCEEDED:
            assert pod.plan_json.read_bytes() == honest


@pytest.mark.usefixtures("honest")
def test_a_provider_inherits_no_descriptor_and_no_secret(pod: NodePod) -> None:
    assert render(pod, "inherited") == 0
    links = [line.removeprefix("has ") for line in deeds(pod)]
    assert [link for link in links if "scratch" in link or "workspace-data" in link or link.endswith("tofu")] == []
    assert render(pod, "environment") == 0
    variables = [line.removeprefix("env ") for line in deeds(pod)]
    assert [each for each in variables if each.startswith(("TF_VAR_", "GIT_", "MAGOS_")) or _SECRET in each] == []


def test_configuration_code_cannot_exchange_the_tool(
    tmp_path: Path, repository: Path, mirror: ReleaseMirror, honest: bytes
) -> None:
    pod = node_pod(tmp_path, repository, mirror)
    (pod.volume / "deed").write_text("exchange")
    for stage in (Stage.FETCH, Stage.TERRAFORM, Stage.RENDER):
        assert pod.stage(stage) == 0
        assert pod.status(stage).reason is None, pod.status(stage)
    found = deeds(pod, Stage.TERRAFORM)
    assert found != []
    assert [line for line in found if not line.startswith("refused ")] == []
    assert read_plan_json(pod.plan_json.read_bytes()).changes == read_plan_json(honest).changes


@pytest.mark.usefixtures("honest")
def test_a_tool_within_reach_judges_no_plan_and_is_told_of(pod: NodePod) -> None:
    """As where a file system does not keep modes."""
    tool = pod.folder / "volumes/work/tool/tofu"
    assert tool.stat().st_mode & 0o777 == 0o111
    tool.chmod(0o755)
    try:
        assert render(pod, "") == 0
    finally:
        tool.chmod(0o111)
    result = pod.result()
    assert (result.result, result.changes.add) == (Outcome.SUCCEEDED, 1)
    assert [warning for warning in result.warnings if "a provider could have changed the plan" in warning]
    pod.policies = _DENY_ALL
    try:
        result = pod.result()
    finally:
        pod.policies = None
    assert result.reason == "PolicyEvaluationFailed"
    assert "suid_dumpable" in result.message
    assert result.violations == ()


def test_a_plan_that_is_not_in_its_file_is_not_judged(tmp_path: Path, mirror: ReleaseMirror) -> None:
    """Whoever holds the key, the configuration's author, could have it decrypted differently the next time."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "main.tf").write_text(_BACKEND + _ENCRYPTED + 'resource "terraform_data" "a" {}\n')
    push(work, tmp_path / "repository")
    pod = node_pod(tmp_path / "pod", tmp_path / "repository", mirror)
    for stage in (Stage.FETCH, Stage.TERRAFORM, Stage.RENDER):
        assert pod.stage(stage) == 0
        assert pod.status(stage).reason is None, pod.status(stage)
    result = pod.result()
    assert (result.result, result.changes.add) == (Outcome.SUCCEEDED, 1)
    pod.policies = _DENY_ALL
    result = pod.result()
    assert result.reason == "PolicyEvaluationFailed"
    assert "leave the plan unencrypted" in result.message


@pytest.mark.usefixtures("honest")
def test_the_digest_that_is_reported_is_that_of_the_bytes_that_were_shown(pod: NodePod) -> None:
    """The file on the volume may become another one before ``job`` looks; it does not look."""
    plan_file = next(pod.volume.glob("runs/*/run.tfplan"))
    content = plan_file.read_bytes()
    assert render(pod, "") == 0
    plan_file.write_bytes(content + b"x")
    try:
        assert pod.result().plan_digest == digest_of(content)
    finally:
        plan_file.write_bytes(content)
