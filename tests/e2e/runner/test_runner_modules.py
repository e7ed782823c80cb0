"""Module sources: downloaded with the repository's credentials, before any variable of a VariableSet is known."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from magos.api.result import Outcome
from magos.api.runnerpod import Stage
from tests.e2e.git.servers import HTTPServer, Repository, git, http_server
from tests.e2e.hostile.origins import Origin, http_origin, ssh_origin
from tests.e2e.runner.pod import PLAN, RUN, Workspace, apply, plan

_LOGIN = ("robot", "hunter2/hunter2")
_ADVICE = ("VariableSet", "default", "tfvarsPath")


@pytest.fixture
def server(workspace: Workspace) -> Iterator[HTTPServer]:
    """Serves the repository and a private one with modules, both by the same login."""
    with http_server(workspace.folder) as running:
        running.login = _LOGIN
        workspace.settings |= {
            "REPO_URL": f"{running.url}/repository/.git",
            "MAGOS_ALLOWED_GIT_SCHEMES": "http",
        }
        modules = Repository(workspace.folder, "modules.git", "main")
        for version in ("v1", "v2"):
            modules.commit({"m/main.tf": f'output "version" {{\n  value = "{version}"\n}}\n'})
            git(modules.work, "tag", version)
        modules.push()
        yield running


def sourced(workspace: Workspace, server: HTTPServer, default: str = "") -> str:
    """A configuration with a private module whose version is the variable ``ref``."""
    return workspace.backend + (
        f'variable "ref" {{{default}}}\n'
        f'module "m" {{\n  source = "git::{server.url}/modules.git//m?ref=${{var.ref}}"\n}}\n'
        'resource "terraform_data" "a" {\n  input = module.m.version\n}\n'
    )


def planned_with(workspace: Workspace, **variables: str) -> tuple[str, str, str]:
    """Run a plan with the login where a pod has it; return reason, message and the log of fetch."""
    pod = workspace.pod(PLAN, RUN)
    for stage in Stage.JOB.before(PLAN):
        login = {"GIT_USERNAME": _LOGIN[0], "GIT_PASSWORD": _LOGIN[1]} if stage is Stage.FETCH else {}
        before = dict(pod.env)
        pod.env |= login | (variables if stage is Stage.TERRAFORM else {})
        assert pod.stage(stage) == 0, pod.log
        pod.env = before
    pod.stage(Stage.JOB)
    assert _LOGIN[1] not in pod.log
    return pod.result.reason, pod.result.message, pod.output[Stage.FETCH]


def test_a_source_that_needs_a_variable_of_a_set_fails_with_cause_and_way_out(
    workspace: Workspace, server: HTTPServer
) -> None:
    workspace.commit({"main.tf": sourced(workspace, server)})
    reason, message, _ = planned_with(workspace, TF_VAR_ref="v2")
    assert reason == "PlanFailed"
    assert message.startswith("get failed: ")
    assert "module.m.source depends on var.ref which is not available" in message
    assert not [word for word in _ADVICE if word not in message]
    assert len(message) <= 512


def test_a_source_that_a_set_changes_after_the_download_fails_with_the_way_out(
    workspace: Workspace, server: HTTPServer
) -> None:
    workspace.commit({"main.tf": sourced(workspace, server, '\n  default = "v1"\n')})
    reason, message, fetched = planned_with(workspace, TF_VAR_ref="v2")
    assert "?ref=v1 for m" in fetched
    assert reason == "PlanFailed"
    assert message.startswith("init failed: ")
    assert not [word for word in _ADVICE if word not in message]
    assert len(message) <= 512


@pytest.mark.parametrize("by", ["default", "tfvars"])
def test_a_source_that_the_repository_itself_decides_is_downloaded(
    workspace: Workspace, server: HTTPServer, by: str
) -> None:
    files = {"main.tf": sourced(workspace, server, '\n  default = "v1"\n' if by == "default" else "")}
    if by == "tfvars":
        workspace.settings["MAGOS_TFVARS_FILE"] = "prod.tfvars"
        files["prod.tfvars"] = 'ref = "v1"\n'
    workspace.commit(files)
    reason, message, fetched = planned_with(workspace)
    assert (reason, message) == ("", "")
    assert "?ref=v1 for m" in fetched


def test_a_local_source_may_depend_on_a_variable_with_a_default(workspace: Workspace) -> None:
    text = 'variable "size" {\n  default = "small"\n}\nmodule "m" {\n  source = "./${var.size}"\n}\n'
    files = {f"{size}/main.tf": f'resource "terraform_data" "{size}" {{}}\n' for size in ("small", "large")}
    workspace.commit({"main.tf": workspace.backend + text, **files})
    pod, planned = plan(workspace, TF_VAR_size="large")
    assert planned.result is Outcome.SUCCEEDED, pod.log
    _, applied = apply(workspace, planned, TF_VAR_size="rotated")
    assert applied.result is Outcome.SUCCEEDED, applied.message
    assert '"large"' in workspace.state.read_text()


@pytest.mark.parametrize("opened", [http_origin, ssh_origin])
def test_private_modules_and_submodules_of_the_origin_are_there_in_plan_and_apply(
    workspace: Workspace, opened: Callable[[Path], AbstractContextManager[Origin]], tmp_path: Path
) -> None:
    with opened(tmp_path / "origin") as origin:
        part = origin.repository("part.git", {"part/main.tf": 'output "version" {\n  value = "from-submodule"\n}\n'})
        origin.repository("m.git", {"main.tf": 'output "version" {\n  value = "from-module"\n}\n'})
        text = workspace.backend + (
            'module "p" {\n  source = "./sub/part"\n}\n'
            f'module "m" {{\n  source = "git::{origin.url("m.git")}?ref=main"\n}}\n'
            'resource "terraform_data" "a" {\n  input = "${module.p.version} ${module.m.version}"\n}\n'
        )
        top = origin.repository("top.git", {"main.tf": text})
        (top.work / ".gitmodules").write_text('[submodule "sub"]\n\tpath = sub\n\turl = ../part.git\n')
        commit = git(part.work, "rev-parse", "HEAD")
        git(top.work, "update-index", "--add", "--cacheinfo", f"160000,{commit},sub")
        (top.work / "sub").mkdir()
        top.commit({})
        workspace.settings |= {
            **origin.environment, "REPO_URL": origin.url("top.git"), "MAGOS_ALLOWED_GIT_SCHEMES": "http,ssh",
        }  # fmt: skip
        pod, planned = plan(workspace)
        assert planned.result is Outcome.SUCCEEDED, pod.log
        pod, applied = apply(workspace, planned)
        assert applied.result is Outcome.SUCCEEDED, pod.log
    assert "from-submodule from-module" in workspace.state.read_text()
