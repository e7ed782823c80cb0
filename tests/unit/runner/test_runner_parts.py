"""The small parts of the runner: plan files, plan JSON, diagnostics, state, statuses, markers."""

import io
import os
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from magos.api.names import JobType
from magos.api.reasons import Reason
from magos.api.result import PlannedChanges
from magos.api.runnerpod import Stage
from magos.folder import Folder, NotRegular
from magos.privatefile import write_private
from magos.runner.config import load_render
from magos.runner.diagnostics import LONGEST_DIAGNOSTIC, last_error
from magos.runner.files import open_regular, read_limited
from magos.runner.markers import create_start_marker, remove_other_runs
from magos.runner.outcome import StageFailed
from magos.runner.paths import Paths
from magos.runner.planfile import carried_variables, is_plain_plan
from magos.runner.planjson import read_plan_json
from magos.runner.status import StageStatus, read_status, write_status
from magos.runner.tool import inside_tree
from tests.unit.runner.test_runner_config import ENV, RUN


def varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def plan_file(path: Path, message: bytes) -> Path:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("tfplan", message)
    path.write_bytes(content.getvalue())
    return path


@given(st.sets(st.text(min_size=1), max_size=5), st.binary(max_size=300))
def test_the_variables_of_a_plan_are_read_whatever_their_values(
    tmp_path_factory: pytest.TempPathFactory, names: set[str], value: bytes
) -> None:
    message = varint(1 << 3) + varint(3)
    for name in names:
        message += field(3, value) + field(2, field(1, name.encode()) + field(2, field(1, value)))
    path = plan_file(tmp_path_factory.getbasetemp() / "v.tfplan", message + varint(20 << 3) + b"\x01")
    with path.open("rb") as plan:
        assert set(carried_variables(plan) or {}) == names


@given(st.binary(max_size=60))
def test_an_unreadable_plan_carries_nothing_known(tmp_path_factory: pytest.TempPathFactory, message: bytes) -> None:
    with plan_file(tmp_path_factory.getbasetemp() / "m.tfplan", b"\x0f" + message).open("rb") as plan:
        assert carried_variables(plan) is None
    assert carried_variables(io.BytesIO(message)) is None


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [("string", "a b", "a b"), ("number", 5, "5"), ("bool", True, "true"), ("any", ["p", {"k": 1}], '["p",{"k":1}]')],
)
def test_values_are_read_as_an_environment_variable_would_hold_them(
    tmp_path: Path, kind: str, value: object, text: str
) -> None:
    packed = msgspec.msgpack.encode((msgspec.json.encode(kind), value))
    message = field(2, field(1, b"name") + field(2, field(1, packed)))
    with plan_file(tmp_path / "p", message).open("rb") as plan:
        assert carried_variables(plan) == {"name": text}


def plan_json(*changes: dict[str, object], outputs: dict[str, object] | None = None) -> bytes:
    document = {"format_version": "1.2", "resource_changes": list(changes), "output_changes": outputs or {}}
    return msgspec.json.encode(document)


@pytest.mark.parametrize(
    ("actions", "counts", "has_changes"),
    [
        (["no-op"], (0, 0, 0), False),
        (["create"], (1, 0, 0), True),
        (["update"], (0, 1, 0), True),
        (["delete"], (0, 0, 1), True),
        (["delete", "create"], (1, 0, 1), True),
        (["create", "delete"], (1, 0, 1), True),
        (["read"], (0, 0, 0), True),
        (["forget"], (0, 0, 0), True),
    ],
)
def test_actions_are_counted(actions: list[str], counts: tuple[int, int, int], has_changes: bool) -> None:
    content = read_plan_json(plan_json({"change": {"actions": actions, "before": {"secret": "x"}}}))
    assert (content.changes, content.has_changes) == (PlannedChanges(*counts), has_changes)


def test_moves_imports_and_outputs_are_changes_too() -> None:
    nothing = {"actions": ["no-op"]}
    assert read_plan_json(plan_json({"change": nothing, "previous_address": "a.b"})).has_changes
    assert read_plan_json(plan_json({"change": nothing | {"importing": {"id": "i"}}})).has_changes
    assert read_plan_json(plan_json(outputs={"o": {"actions": ["update"]}})).has_changes
    assert not read_plan_json(plan_json({"change": nothing}, outputs={"o": nothing})).has_changes


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"format_version": "2.0"}'])
def test_what_is_no_plan_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_plan_json(content)


NOW = datetime(2026, 1, 1, 1, 0, 5, tzinfo=UTC)
LOCKED = b"""
Error: Error acquiring the state lock

Error message: resource temporarily unavailable
Lock Info:
  ID:        d3b6
  Path:      /s
  Operation: OperationTypeApply
  Who:       root@pod
  Version:   1.12.6
  Created:   2026-01-01 00:00:00 UTC
  Info:

Acquires a state lock to protect the state.
"""


def test_the_last_diagnostic_is_taken_with_its_place_and_without_source_lines() -> None:
    output = b"Planning...\n\nError: first\n\nx\n\nError: second\n\n  on main.tf line 7:\n   7:   a = b\n\nNot there.\n"
    assert last_error(output, NOW) == "second: on main.tf line 7: Not there."
    assert last_error(output + b"\nWarning: deprecated\n\nmore\n", NOW) == "second: on main.tf line 7: Not there."
    assert last_error(b"all fine\nterraform_data.a (local-exec): Error: no\nError: no\n", NOW) is None


def test_a_locked_state_names_lock_holder_and_time() -> None:
    message = last_error(LOCKED, NOW)
    assert message is not None
    assert message.startswith(
        "the state is locked: lock d3b6, held by root@pod for Apply since 2026-01-01 00:00:00 UTC (1h0m5s ago)"
    )


@given(st.binary(max_size=2000))
def test_diagnostics_are_bounded_and_printable(noise: bytes) -> None:
    message = last_error(b"\nError: " + noise, NOW)
    assert message is not None
    assert len(message) <= LONGEST_DIAGNOSTIC
    assert "\x1b" not in message
    assert "\0" not in message


def test_a_status_comes_back_as_it_was_left(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    status = StageStatus(stage=Stage.FETCH, reason=Reason.GIT_FAILED, message="m", revision="r", warnings=("w",))
    write_status(paths, status)
    assert read_status(paths, Stage.FETCH, JobType.PLAN) == status
    assert paths.status("fetch").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b'{"stage":"terraform","v":9}',
        b'{"stage":"fetch"}',
        b'{"stage":"terraform","reason":"Deleting"}',
        b'{"stage":"terraform","message":"' + b"x" * 70000 + b'"}',
    ],
)
def test_a_status_that_is_none_fails_the_phase(tmp_path: Path, content: bytes) -> None:
    paths = Paths(tmp_path)
    paths.scratch("terraform").mkdir(parents=True)
    paths.status("terraform").write_bytes(content)
    assert read_status(paths, Stage.TERRAFORM, JobType.APPLY).reason is Reason.APPLY_FAILED


def test_links_and_pipes_are_neither_followed_nor_waited_for(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    status = paths.status("terraform")
    status.parent.mkdir(parents=True)
    assert read_status(paths, Stage.TERRAFORM, JobType.PLAN).reason is Reason.PLAN_FAILED
    os.mkfifo(status)
    with pytest.raises(NotRegular), open_regular(status):
        pass
    assert read_status(paths, Stage.TERRAFORM, JobType.PLAN).reason is Reason.PLAN_FAILED
    (tmp_path / "real").write_bytes(b'{"stage":"terraform"}')
    status.unlink()
    status.symlink_to(tmp_path / "real")
    assert read_status(paths, Stage.TERRAFORM, JobType.PLAN).reason is Reason.PLAN_FAILED
    write_private(status, b"mine")
    assert (tmp_path / "real").read_bytes() == b'{"stage":"terraform"}'
    status.unlink()
    (status / "folder").mkdir(parents=True)
    write_private(status, b"mine")
    assert read_limited(status, 4) == b"mine"
    with pytest.raises(ValueError, match="more than 3 bytes"):
        read_limited(status, 3)


def test_a_phase_is_claimed_once(tmp_path: Path) -> None:
    run = load_render(ENV).run
    with Folder.at(tmp_path) as volume:
        create_start_marker(volume, run)
        with pytest.raises(StageFailed, match="second time"):
            create_start_marker(volume, run)
    assert (tmp_path / "runs" / RUN / "plan.started").stat().st_mode & 0o777 == 0o600


def test_a_marker_is_no_link_to_elsewhere(tmp_path: Path) -> None:
    run, volume = load_render(ENV).run, tmp_path / "volume"
    (volume / "runs" / RUN).mkdir(parents=True)
    (volume / "runs" / RUN / "plan.started").symlink_to(tmp_path / "elsewhere")
    with Folder.at(volume) as held, pytest.raises(StageFailed):
        create_start_marker(held, run)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("name", ["runs", f"runs/{RUN}"])
def test_a_marker_is_not_created_through_a_link(tmp_path: Path, name: str) -> None:
    run, volume, elsewhere = load_render(ENV).run, tmp_path / "volume", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (volume / name).parent.mkdir(parents=True)
    (volume / name).symlink_to(elsewhere)
    with Folder.at(volume) as held, pytest.raises(StageFailed, match="cannot be used"):
        create_start_marker(held, run)
    assert list(elsewhere.iterdir()) == []


def test_only_other_runs_are_removed_and_links_are_not_followed(tmp_path: Path) -> None:
    run, volume, kept = load_render(ENV).run, tmp_path / "volume", tmp_path / "kept"
    for folder in (volume, kept):
        folder.mkdir()
    with Folder.at(volume) as held:
        create_start_marker(held, run)
        (volume / "runs" / "link").symlink_to(kept)
        (volume / "runs" / "old").mkdir()
        (volume / "runs" / "old" / "run.tfplan").write_text("secret")
        assert remove_other_runs(held, run) == 2
    assert [entry.name for entry in (volume / "runs").iterdir()] == [RUN]
    assert kept.is_dir()


def test_a_path_is_judged_by_where_its_links_lead(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "a").mkdir(parents=True)
    (tree / "in").symlink_to("a")
    (tree / "out").symlink_to(tmp_path)
    assert inside_tree(tree, "in/../a", "TF_PATH") == tree / "a"
    for path in ("out", "..", "out/tree2", "absent"):
        with pytest.raises(StageFailed, match="TF_PATH"):
            inside_tree(tree, path, "TF_PATH")


def test_only_an_archive_that_holds_a_plan_is_a_plain_plan() -> None:
    for entry, expected in (("tfplan", True), ("other", False)):
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w") as archive:
            archive.writestr(entry, b"x")
        assert is_plain_plan(content) is expected
    encrypted = b'{"meta":{},"encrypted_data":"eA==","encryption_version":"v0"}'
    for text in (b"", b"{}", encrypted, b'{"remote_plan_format":1,"run_id":"run-x","hostname":"h"}'):
        assert not is_plain_plan(io.BytesIO(text))
