"""What lies in the checkout is never taken for what the tool has just made."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from magos.api.result import Outcome
from tests.e2e.runner.pod import NEXT, RUN, Workspace, apply, plan, provisioned
from tests.e2e.runner.statebackend import StateServer, state_server

_OLD = (
    '{"version":4,"terraform_version":"1.5.0","serial":7,"lineage":"old","outputs":{},"resources":[],'
    '"check_results":null}'
)
_LATER = "20260101T000200-00000003"


@pytest.fixture
def server() -> Iterator[StateServer]:
    with state_server() as started:
        yield started


def put(workspace: Workspace, kind: str, module: Path) -> None:
    """Commit something named as a state that an apply could not save."""
    place = module / "errored.tfstate"
    if kind == "folder":
        place.mkdir()
        (place / "x").write_text("x")
    elif kind == "link":
        (module / "old.json").write_text(_OLD)
        place.symlink_to("old.json")
    else:
        place.write_text(_OLD)
    workspace.commit_more()


@pytest.mark.parametrize("kind", ["file", "link", "folder"])
@pytest.mark.parametrize("path", [".", "live/prod"])
def test_a_committed_errored_state_is_neither_kept_nor_pushed(
    workspace: Workspace, server: StateServer, kind: str, path: str
) -> None:
    workspace.commit({f"{path}/main.tf": server.backend + provisioned("exit 7")})
    put(workspace, kind, workspace.repository / path)
    _, planned = plan(workspace, TF_PATH=path)
    pod, failed = apply(workspace, planned, TF_PATH=path)
    assert failed.reason == "ApplyFailed"
    assert "is kept in" not in failed.message
    assert "errored.tfstate was there before the apply" in pod.log
    assert not (workspace.volume / "unsaved-state").exists()
    assert "old" not in (server.state or b"").decode()


@pytest.mark.parametrize("kind", ["file", "link", "folder"])
def test_an_errored_state_of_this_apply_is_kept_beside_a_committed_one(
    workspace: Workspace, server: StateServer, kind: str
) -> None:
    workspace.commit({"main.tf": server.backend + provisioned("true")})
    put(workspace, kind, workspace.repository)
    _, planned = plan(workspace)
    # Whatever has the name of the folder must not cost the state.
    (workspace.volume / "unsaved-state").symlink_to(workspace.folder)
    server.refuse_writes = True
    _, failed = apply(workspace, planned)
    kept = workspace.volume / "unsaved-state" / f"{RUN}.tfstate"
    assert f"/workspace-data/unsaved-state/{RUN}.tfstate" in failed.message
    assert [each["name"] for each in json.loads(kept.read_text())["resources"]] == ["a"]
    assert kept.stat().st_mode & 0o777 == 0o600
    assert not kept.is_symlink()


def test_a_kept_state_is_never_pushed_to_another_empty_backend(workspace: Workspace, server: StateServer) -> None:
    resource = provisioned("true")
    workspace.commit({"main.tf": server.backend + resource})
    _, planned = plan(workspace)
    server.refuse_writes = True
    _, failed = apply(workspace, planned)
    assert failed.reason == "ApplyFailed"
    server.refuse_writes = False
    with state_server() as other:
        workspace.commit({"main.tf": other.backend + resource})
        pod, refused = plan(workspace, NEXT)
        assert refused.reason == "PlanFailed"
        assert "another backend" in refused.message
        assert other.state is None
    for command in ("kubectl run -n team net-volume", "net-data", "cat /workspace-data/unsaved-state", "rm -f"):
        assert command in pod.log
    workspace.commit({"main.tf": server.backend + resource})
    _, following = plan(workspace, _LATER)
    assert (following.result, following.has_changes) == (Outcome.SUCCEEDED, False), following.message
    assert list((workspace.volume / "unsaved-state").iterdir()) == []


def test_a_kept_state_follows_its_state_to_other_settings(workspace: Workspace, server: StateServer) -> None:
    """The same state under a changed address: its lineage says so."""
    module = server.backend + 'resource "terraform_data" "b" {}\n'
    workspace.commit({"main.tf": module})
    _, first = plan(workspace)
    apply(workspace, first)
    workspace.commit({"main.tf": module + provisioned("true")})
    _, second = plan(workspace, NEXT)
    server.refuse_writes = True
    _, failed = apply(workspace, second)
    assert "is kept in" in failed.message
    server.refuse_writes = False
    workspace.commit({"main.tf": (module + provisioned("true")).replace("retry_max = 0", "retry_max = 1")})
    _, following = plan(workspace, _LATER)
    assert (following.result, following.has_changes) == (Outcome.SUCCEEDED, False), following.message
    assert server.resources == ["a", "b"]


def test_a_plan_that_lies_there_already_is_not_the_plan_of_this_run(workspace: Workspace) -> None:
    workspace.commit({"main.tf": workspace.backend + "output o {\n  value = local.nothing\n}\n"})
    planted = workspace.volume / "runs" / RUN / "run.tfplan"
    planted.parent.mkdir(parents=True)
    planted.write_text("x")
    _, failed = plan(workspace)
    assert failed.reason == "PlanFailed"
    assert not planted.exists()


def test_a_lock_file_that_is_a_link_is_followed_inside_the_repository_only(workspace: Workspace) -> None:
    lock = "# shared\n"
    workspace.commit({"live/main.tf": workspace.backend + 'resource "terraform_data" "a" {}\n', "shared.hcl": lock})
    (workspace.repository / "live/.terraform.lock.hcl").symlink_to("../shared.hcl")
    workspace.commit_more()
    _, planned = plan(workspace, TF_PATH="live")
    assert planned.result is Outcome.SUCCEEDED, planned.message
    saved = workspace.volume / "runs" / RUN / ".terraform.lock.hcl"
    assert saved.read_text() == lock
    assert not saved.is_symlink()
    _, applied = apply(workspace, planned, TF_PATH="live")
    assert applied.result is Outcome.SUCCEEDED, applied.message


def test_what_a_run_writes_to_the_volume_is_for_its_owner_alone(workspace: Workspace) -> None:
    workspace.commit({"main.tf": workspace.backend + 'resource "terraform_data" "a" {}\n'})
    _, planned = plan(workspace)
    run = workspace.volume / "runs" / RUN
    assert {entry.name for entry in run.iterdir()} >= {"run.tfplan", "plan.started"}
    assert [entry for entry in (run, *run.iterdir()) if entry.stat().st_mode & 0o077] == []
    _, applied = apply(workspace, planned)
    assert applied.result is Outcome.SUCCEEDED
    assert workspace.state.stat().st_mode & 0o077 == 0
