"""Where the state is: decided from what the tool goes by, without a tool."""

from pathlib import Path

import msgspec
import pytest

from magos.api.reasons import Reason
from magos.runner.config import RunConfig, load_render
from magos.runner.outcome import StageFailed
from magos.runner.paths import Paths
from magos.runner.state import require_persistent_state, state_place
from tests.unit.runner.test_runner_config import ENV


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    for name in ("work/source", "work/data", "workspace-data"):
        (tmp_path / name).mkdir(parents=True)
    return Paths(tmp_path)


def run(**environment: str) -> RunConfig:
    return load_render({**ENV, **environment}).run


def backend(paths: Paths, kind: str, **config: str | None) -> None:
    content = {"version": 3, "backend": {"type": kind, "config": config, "hash": 1}}
    (paths.data / "terraform.tfstate").write_bytes(msgspec.json.encode(content))


def refusal(paths: Paths, **environment: str) -> str:
    with pytest.raises(StageFailed) as caught:
        require_persistent_state(paths, run(**environment), paths.source)
    assert caught.value.reason is Reason.INVALID_CONFIGURATION
    return caught.value.message


@pytest.mark.parametrize("path", [None, "x.tfstate", "../other/x", "link/x", "/elsewhere/x", "link/../../x"])
def test_local_state_off_the_volume_is_refused_links_resolved(paths: Paths, path: str | None) -> None:
    (paths.source / "link").symlink_to(paths.work)
    backend(paths, "local", path=path)
    assert "lost with this pod" in refusal(paths)


def test_state_on_the_volume_or_elsewhere_is_accepted(paths: Paths) -> None:
    (paths.source / "volume").symlink_to(paths.workspace_data)
    for kind, path in (("local", str(paths.workspace_data / "x")), ("local", "volume/x"), ("s3", None), ("cloud", "x")):
        backend(paths, kind, path=path)
        require_persistent_state(paths, run(TF_PLUGIN_CACHE_DIR="/workspace-data/plugin-cache"), paths.source)


@pytest.mark.parametrize(
    "value",
    [
        "-state=/x",
        "--state=/x",
        "-state /x",
        "-lock=true '-state=/x'",
        "-state-out=/x",
        '-compact-warnings -state "/x"',
    ],
)
@pytest.mark.parametrize("name", ["TF_CLI_ARGS", "TF_CLI_ARGS_plan", "TF_CLI_ARGS_apply", "TF_CLI_ARGS_state_push"])
def test_every_option_that_moves_the_state_is_seen(paths: Paths, name: str, value: str) -> None:
    backend(paths, "local", path=str(paths.workspace_data / "x"))
    assert f"in {name} keeps the state at '/x'" in refusal(paths, **{name: value})


def test_options_that_cannot_be_read_are_refused(paths: Paths) -> None:
    backend(paths, "local", path=str(paths.workspace_data / "x"))
    assert "TF_CLI_ARGS_plan cannot be read" in refusal(paths, TF_CLI_ARGS_plan="'-state=/x")


def test_links_in_a_circle_are_no_place(paths: Paths) -> None:
    (paths.workspace_data / "a").symlink_to("b")
    (paths.workspace_data / "b").symlink_to("a")
    backend(paths, "local", path=str(paths.workspace_data / "a" / "x"))
    assert "circles" in refusal(paths)


def test_the_cli_workspace_that_was_chosen_before_counts(paths: Paths) -> None:
    backend(paths, "local", path=str(paths.workspace_data / "x"), workspace_dir=None)
    (paths.data / "environment").write_text("blue\n")
    assert "terraform.tfstate.d/blue/terraform.tfstate" in refusal(paths)
    require_persistent_state(paths, run(TF_WORKSPACE="default"), paths.source)


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"backend":{"type":1}}', b" " * 2_000_000])
def test_backend_settings_that_cannot_be_read_are_refused(paths: Paths, content: bytes) -> None:
    (paths.data / "terraform.tfstate").write_bytes(content)
    assert "unreadable" in refusal(paths)


def test_one_state_has_one_place_and_others_have_others(paths: Paths) -> None:
    backend(paths, "http", address="a", lock="b")
    first = state_place(paths, {})
    backend(paths, "http", lock="b", address="a")
    assert state_place(paths, {}) == first
    assert state_place(paths, {"TF_WORKSPACE": "blue"}) != first
    backend(paths, "http", address="other", lock="b")
    assert state_place(paths, {}) != first
