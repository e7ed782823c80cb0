"""State that would be lost with the pod is refused before anything is planned, whatever leads the tool there."""
# ruff: noqa: S108 - places in a pod

from collections.abc import Mapping

import pytest

from magos.api.result import Outcome
from tests.e2e.runner.pod import NEXT, Workspace, apply, plan, resources

_RESOURCE = 'resource "terraform_data" "a" {}\n'


def local(*settings: str) -> str:
    """A local backend with ``settings``; VOLUME stands for the Workspace's volume."""
    body = "".join(f"    {line}\n" for line in settings)
    return f'terraform {{\n  backend "local" {{\n{body}  }}\n}}\n'


KEPT = local('path = "VOLUME/state/x.tfstate"')
LOST: Mapping[str, tuple[str, Mapping[str, str], str]] = {
    "no backend": ("", {}, "no backend block"),
    "no path": (local(), {}, "'terraform.tfstate'"),
    "in the checkout": (local('path = "./x.tfstate"'), {}, "'./x.tfstate'"),
    "in the pod's temporary folder": (local('path = "/tmp/terraform.tfstate"'), {}, "'/tmp/terraform.tfstate'"),
    "in memory": ('terraform {\n  backend "inmem" {}\n}\n', {}, "inmem"),
    "through a link of the volume": (local('path = "VOLUME/link/x.tfstate"'), {}, "really /tmp/x.tfstate"),
    "through a dangling link of the volume": (local('path = "VOLUME/dangling"'), {}, "really /tmp/gone"),
    "where each process sees another place": (local('path = "/proc/self/cwd/VOLUME/x"'), {}, "/proc"),
    "where descriptors lead": (local('path = "/dev/fd/9/x"'), {}, "/proc"),
    "back out of the volume": (local('path = "VOLUME/state/../../x.tfstate"'), {}, "lost with this pod"),
    "in the runner's folder of runs": (local('path = "VOLUME/runs/x.tfstate"'), {}, "runner's own"),
    "in the cache of tools": (local('path = "VOLUME/tools/x.tfstate"'), {}, "runner's own"),
    "in the cache of plugins": (local('path = "VOLUME/plugin-cache/x.tfstate"'), {}, "runner's own"),
    "among the unsaved states": (local('path = "VOLUME/unsaved-state/x.tfstate"'), {}, "runner's own"),
    "in a CLI workspace": (KEPT, {"TF_WORKSPACE": "blue"}, "terraform.tfstate.d/blue"),
    "in a folder of CLI workspaces": (
        local('path = "VOLUME/state/x.tfstate"', 'workspace_dir = "/tmp/w"'),
        {"TF_WORKSPACE": "blue"},
        "/tmp/w/blue",
    ),
    "by an option of plan": (KEPT, {"TF_CLI_ARGS_plan": "-state=/tmp/x"}, "-state in TF_CLI_ARGS_plan"),
    "by an option of apply": (KEPT, {"TF_CLI_ARGS_apply": "-lock=true -state-out /tmp/x"}, "TF_CLI_ARGS_apply"),
    "by an option of init": (KEPT, {"TF_CLI_ARGS_init": "-backend-config=path=/tmp/x"}, "/tmp/x"),
    "by an override file": (KEPT, {"OVERRIDE": local('path = "/tmp/o.tfstate"')}, "/tmp/o.tfstate"),
}
KEEPING: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "on the volume": (KEPT, {}),
    "through a link to the volume": (local('path = "VOLUME/again/state/x.tfstate"'), {}),
    "in a CLI workspace on the volume": (
        local('path = "/tmp/unused"', 'workspace_dir = "VOLUME/workspaces"'),
        {"TF_WORKSPACE": "blue"},
    ),
    "with a data directory of one's own, which is not used": (KEPT, {"TF_DATA_DIR": "/tmp/data"}),
    "with other options": (KEPT, {"TF_CLI_ARGS_plan": "-parallelism=3 -compact-warnings"}),
}


def prepared(workspace: Workspace, module: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Commit ``module``, with links that lead elsewhere beside it; return the environment."""
    volume = str(workspace.volume)
    workspace.volume.joinpath("link").symlink_to("/tmp")
    workspace.volume.joinpath("dangling").symlink_to("/tmp/gone")
    workspace.volume.joinpath("again").symlink_to(volume)
    files = {"main.tf": module.replace("VOLUME", volume) + _RESOURCE}
    if "OVERRIDE" in settings:
        files["x_override.tf"] = settings["OVERRIDE"]
    workspace.commit(files)
    return {name: value for name, value in settings.items() if name != "OVERRIDE"}


@pytest.mark.parametrize("where", LOST)
def test_state_that_would_be_lost_is_refused_before_anything_is_planned(workspace: Workspace, where: str) -> None:
    module, settings, told = LOST[where]
    environment = prepared(workspace, module, settings)
    pod, result = plan(workspace, **environment)
    assert (result.exit_code, result.reason) == (2, "InvalidConfiguration"), result.message
    assert told in result.message
    assert "MAGOS_ALLOW_EPHEMERAL_STATE" in result.message
    assert not pod.plan_file.exists()


@pytest.mark.parametrize("where", KEEPING)
def test_state_on_the_volume_is_accepted(workspace: Workspace, where: str) -> None:
    module, settings = KEEPING[where]
    environment = prepared(workspace, module, settings)
    _, result = plan(workspace, **environment)
    assert result.result is Outcome.SUCCEEDED, result.message


def test_an_apply_decides_anew(workspace: Workspace) -> None:
    workspace.commit({"main.tf": workspace.backend + _RESOURCE})
    _, planned = plan(workspace)
    _, refused = apply(workspace, planned, TF_CLI_ARGS_apply="-state-out=/tmp/elsewhere")
    assert (refused.exit_code, refused.reason) == (2, "InvalidConfiguration")
    assert not workspace.state.exists()


def test_an_administrator_may_allow_state_that_is_lost(workspace: Workspace) -> None:
    workspace.commit({"main.tf": _RESOURCE})
    _, planned = plan(workspace, NEXT, MAGOS_ALLOW_EPHEMERAL_STATE="true")
    assert planned.result is Outcome.SUCCEEDED


def test_what_was_accepted_is_where_the_state_is(workspace: Workspace) -> None:
    module, settings = KEEPING["in a CLI workspace on the volume"]
    environment = prepared(workspace, module, settings)
    _, planned = plan(workspace, **environment)
    _, applied = apply(workspace, planned, **environment)
    assert applied.result is Outcome.SUCCEEDED, applied.message
    workspace.state = workspace.volume / "workspaces/blue/terraform.tfstate"
    assert resources(workspace) == ["a"]
