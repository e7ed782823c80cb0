"""Which downloads have to go where the volume is short of space: the choice, and what it is made by."""

import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from magos.folder import Folder
from magos.runner.caches import Cached, cached, evict, last_used, linked_providers, mark_used, own_tool, victims
from magos.runner.config import RunConfig, load_render
from magos.runner.paths import Paths
from tests.unit.runner.test_runner_config import ENV

_NOW = 1_800_000_000.0
_AWS = "plugin-cache/registry.opentofu.org/hashicorp/aws/5.0.0"
_TIME = "plugin-cache/registry.opentofu.org/hashicorp/time/0.14.2"

entries = st.lists(
    st.builds(
        Cached,
        st.sampled_from([f"tools/t/{number}" for number in range(6)] + [f"plugin-cache/a/b/c/{n}" for n in range(6)]),
        st.integers(0, 1000),
        st.floats(0, 100),
    ),
    unique_by=lambda entry: entry.name,
)


@given(entries, st.sets(st.integers(0, 11)), st.integers(-100, 5000))
def test_the_longest_unused_go_first_no_more_than_wanted_and_nothing_that_is_needed(
    found: list[Cached], chosen: set[int], wanted: int
) -> None:
    needed = frozenset(entry.name for number, entry in enumerate(found) if number in chosen)
    gone = victims(found, needed, wanted)
    kept = [entry for entry in found if entry not in gone]
    assert not needed & {entry.name for entry in gone}
    assert sum(entry.size for entry in gone) >= wanted or all(entry.name in needed for entry in kept)
    assert sum(entry.size for entry in gone[:-1]) < max(wanted, 1)
    oldest_kept = min((entry.used for entry in kept if entry.name not in needed), default=float("inf"))
    assert all(entry.used <= oldest_kept for entry in gone)
    assert victims(list(reversed(found)), needed, wanted) == gone


@given(entries)
def test_what_the_run_before_used_is_what_has_the_newest_mark(found: list[Cached]) -> None:
    newest = last_used(found)
    for root in ("tools", "plugin-cache"):
        below = [entry for entry in found if entry.name.startswith(root)]
        marked = {entry.used for entry in below if entry.name in newest}
        assert marked == ({max(entry.used for entry in below)} if below else set())


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    for name in ("workspace-data", "work"):
        (tmp_path / name).mkdir()
    return Paths(tmp_path)


@pytest.fixture
def run() -> RunConfig:
    run = load_render(ENV).run
    return msgspec.structs.replace(run, environment={"TF_PLUGIN_CACHE_DIR": "/workspace-data/plugin-cache"})


def put(paths: Paths, name: str, used: float, size: int = 4096) -> None:
    folder = paths.workspace_data / name
    (folder / "linux_amd64").mkdir(parents=True)
    (folder / "linux_amd64" / "program").write_bytes(bytes(size))
    os.utime(folder, (used, used))


def test_each_provider_and_each_tool_is_an_entry_with_size_and_last_use(paths: Paths, run: RunConfig) -> None:
    put(paths, _AWS, 100.0, 1 << 20)
    put(paths, "tools/opentofu/1.9.0", 200.0)
    put(paths, "state/mine/and/not/cached", 1.0)
    with paths.volume() as volume:
        found = {entry.name: entry for entry in cached(volume, paths, run, _NOW)}
    assert {name: entry.used for name, entry in found.items()} == {_AWS: 100.0, "tools/opentofu/1.9.0": 200.0}
    assert 1 << 20 <= found[_AWS].size < 2 << 20


def test_junk_in_a_cache_and_times_that_are_to_come_count_as_unused(paths: Paths, run: RunConfig) -> None:
    put(paths, _AWS, _NOW + 100_000)
    (paths.workspace_data / "plugin-cache" / "junk").write_bytes(bytes(4096))
    (paths.workspace_data / "tools").symlink_to(paths.root)
    with paths.volume() as volume:
        found = {entry.name: entry.used for entry in cached(volume, paths, run, _NOW)}
        assert found[_AWS] == 0.0
        assert set(found) == {_AWS, "plugin-cache/junk", "tools"}
        assert evict(volume, cached(volume, paths, run, _NOW)) == 3
    assert [path.name for path in paths.workspace_data.iterdir()] == ["plugin-cache"]
    assert paths.work.is_dir()


def test_what_init_has_linked_is_what_the_run_needs_and_is_marked_at_one_moment(paths: Paths, run: RunConfig) -> None:
    put(paths, _AWS, 100.0)
    put(paths, _TIME, 200.0)
    place = paths.data / "providers" / _AWS.removeprefix("plugin-cache/")
    place.mkdir(parents=True)
    (place / "linux_amd64").symlink_to(paths.workspace_data / _AWS / "linux_amd64")
    needed = linked_providers(paths, run)
    assert needed == {_AWS}
    with paths.volume() as volume:
        mark_used(volume, needed | {own_tool(run)}, _NOW)
        assert volume.used_at(_AWS) == _NOW
        assert volume.used_at(_TIME) == 200.0
        assert last_used(cached(volume, paths, run, _NOW)) == {_AWS}


def test_a_plugin_cache_elsewhere_is_none_of_the_volume(paths: Paths, run: RunConfig) -> None:
    put(paths, _AWS, 100.0)
    for place in ("/tmp/cache", "/workspace-data", ""):  # noqa: S108 - a path in the container
        elsewhere = msgspec.structs.replace(run, environment={"TF_PLUGIN_CACHE_DIR": place})
        with paths.volume() as volume:
            assert cached(volume, paths, elsewhere, _NOW) == ()
        assert linked_providers(paths, elsewhere) == frozenset()


def test_sizes_and_marks_never_follow_a_link(tmp_path: Path) -> None:
    (tmp_path / "volume").mkdir()
    (tmp_path / "large").write_bytes(bytes(1 << 20))
    before = (tmp_path / "large").stat().st_mtime
    (tmp_path / "volume" / "link").symlink_to(tmp_path / "large")
    with Folder.at(tmp_path / "volume") as volume:
        assert volume.usage("link") < 1 << 16
        volume.mark_used("link", 5.0)
        assert volume.used_at("link") == 5.0
        assert volume.usage("absent") == 0
    assert (tmp_path / "large").stat().st_mtime == before
