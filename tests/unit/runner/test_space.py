"""What counts as a full volume, and what is said about it."""

import errno
import os
from pathlib import Path

import pytest

from magos.api.reasons import Reason
from magos.api.runnerpod import Stage
from magos.runner.outcome import StageFailed
from magos.runner.paths import Paths
from magos.runner.space import explained, no_space, tool_met_full


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    for name in ("workspace-data", "work", "scratch", "tmp"):
        (tmp_path / name).mkdir()
    return Paths(tmp_path)


def raised(number: int, *, wrapped: bool) -> Exception:
    error = OSError(number, os.strerror(number), "state.bin")
    if not wrapped:
        return error
    failure = StageFailed(Reason.TOOL_DOWNLOAD_FAILED, "the archive cannot be unpacked; check the mirror")
    failure.__cause__ = error
    return failure


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_write_that_was_refused_for_space_is_a_full_volume_whatever_wraps_it(
    paths: Paths, number: int, wrapped: bool
) -> None:
    failure = explained(paths, Stage.TERRAFORM, "net", raised(number, wrapped=wrapped))
    assert isinstance(failure, StageFailed)
    assert failure.reason is Reason.VOLUME_FULL
    assert " free" in failure.message


def test_an_error_that_was_raised_from_itself_is_looked_at_once(paths: Paths) -> None:
    error = StageFailed(Reason.APPLY_FAILED, "apply failed")
    error.__cause__ = error
    assert explained(paths, Stage.TERRAFORM, "net", error) is error


@pytest.mark.parametrize("wrapped", [False, True])
def test_another_error_stays_what_it_is(paths: Paths, wrapped: bool) -> None:
    error = raised(errno.EACCES, wrapped=wrapped)
    assert not no_space(error)
    assert explained(paths, Stage.TERRAFORM, "net", error) is error


def test_the_volume_that_is_named_is_told_with_sizes_consumers_and_the_field_to_change(paths: Paths) -> None:
    (paths.workspace_data / "plugin-cache").mkdir()
    (paths.workspace_data / "plugin-cache" / "program").write_bytes(bytes(3 << 20))
    (paths.workspace_data / "my\nstate").write_bytes(bytes(1 << 20))
    cause = f"init failed: write {paths.workspace_data}/plugin-cache/x: no space left on device"
    failure = explained(paths, Stage.TERRAFORM, "net", StageFailed(Reason.VOLUME_FULL, cause))
    text = str(failure)
    assert text.startswith("the Workspace's volume (/workspace-data) is full: ")
    assert "most is taken by plugin-cache 3.0 MiB, 'my\\nstate' 1.0 MiB" in text
    assert "init failed: write" in text
    assert "spec.resources.requests.storage of PersistentVolumeClaim net-data" in text


@pytest.mark.parametrize("name", ["work", "scratch", "tmp"])
def test_a_volume_of_the_pod_is_not_taken_for_the_claim(paths: Paths, name: str) -> None:
    cause = f"init failed: write {paths.root}/{name}/x: no space left on device"
    text = str(explained(paths, Stage.TERRAFORM, "net", StageFailed(Reason.VOLUME_FULL, cause)))
    assert f"(/{name}) is full" in text
    assert "disk of the node" in text
    assert "PersistentVolumeClaim" not in text


@pytest.mark.parametrize("stage", [Stage.FETCH, Stage.RENDER, Stage.JOB])
def test_a_stage_that_writes_nothing_to_the_claim_blames_a_volume_of_the_pod(paths: Paths, stage: Stage) -> None:
    text = str(explained(paths, stage, "net", raised(errno.ENOSPC, wrapped=True)))
    assert "disk of the node" in text


@pytest.mark.parametrize("said", ["no space left on device", "No space\n  left on\ndevice", "disk quota exceeded"])
def test_a_tool_is_believed_where_it_names_a_place_of_the_pod(paths: Paths, said: str) -> None:
    ours = f"Error: Failed to write\n\nwrite {paths.work}/data/x: {said}\n"
    assert tool_met_full(paths, ours.encode())
    assert not tool_met_full(paths, f"Error: remote-exec\n\nwrite /srv/app: {said}\n".encode())


def test_a_tool_that_names_a_place_and_says_something_else_met_no_full_volume(paths: Paths) -> None:
    assert not tool_met_full(paths, f"Error: open {paths.work}/x: permission denied".encode())
