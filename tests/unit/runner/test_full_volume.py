"""A volume that is full: what earlier runs left makes room for the next one. A real file system without space."""

import io
import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from magos.api.reasons import Reason
from magos.api.runnerpod import Stage
from magos.folder import Folder
from magos.runner.config import load_render
from magos.runner.journal import Journal
from magos.runner.markers import create_start_marker
from magos.runner.outcome import StageFailed
from magos.runner.paths import Paths
from magos.runner.room import Room
from magos.runner.space import explained
from tests.unit.runner.test_runner_config import ENV

RUN = load_render(ENV).run


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "workspace-data"
    place.mkdir()
    (tmp_path / "work").mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m,nr_inodes=64", "tmpfs", str(place)], capture_output=True, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {done.stderr.decode().strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def fill(place: Path, folder: str) -> None:
    """Take all space and all names that are left, below ``folder``."""
    (place / folder).mkdir(parents=True)
    (place / "runs").mkdir(exist_ok=True)
    with suppress(OSError), (place / folder / "plan").open("wb", buffering=0) as stream:
        while True:
            stream.write(bytes(65536))
    with suppress(OSError):
        for number in range(1000):
            (place / folder / str(number)).touch()
    with pytest.raises(OSError, match="No space left"):
        (place / folder / "more").touch()


def room(place: Path, volume: Folder) -> Room:
    return Room(volume, Paths(place.parent), RUN, Journal(stream=os.open(os.devnull, os.O_WRONLY)))


def begin(place: Path) -> None:
    """What ``fetch`` and ``terraform`` do before anything else."""
    with Folder.at(place) as volume:
        made = room(place, volume)
        made.clean()
        made.insisted(lambda: create_start_marker(volume, RUN))


def test_what_earlier_runs_left_on_a_full_volume_makes_room_for_the_next(volume: Path) -> None:
    fill(volume, "runs/earlier")
    begin(volume)
    with pytest.raises(StageFailed, match="was started before"):
        begin(volume)
    assert [each.name for each in (volume / "runs").iterdir()] == [RUN.run_id]


def test_a_second_start_on_a_full_volume_removes_nothing(volume: Path) -> None:
    begin(volume)
    fill(volume, "runs/other")
    with pytest.raises(StageFailed, match="was started before"):
        begin(volume)
    assert (volume / "runs" / "other").is_dir()


def test_caches_make_room_before_anything_is_created_and_what_was_used_last_goes_last(volume: Path) -> None:
    for number, used in ((1, 100), (2, 300), (3, 200)):
        place = volume / "tools" / "opentofu" / f"1.9.{number}"
        place.mkdir(parents=True)
        (place / "archive.zip").write_bytes(bytes(320 * 1024))
        os.utime(place, (used, used))
    with Folder.at(volume) as held:
        room(volume, held).clean()
    assert sorted(each.name for each in (volume / "tools/opentofu").iterdir()) == ["1.9.2", "1.9.3"]


def test_a_volume_that_the_configuration_filled_is_told_and_nothing_runs(volume: Path) -> None:
    fill(volume, "mine")
    with pytest.raises(OSError, match="No space") as caught:
        begin(volume)
    failure = explained(Paths(volume.parent), Stage.TERRAFORM, "net", caught.value)
    assert isinstance(failure, StageFailed)
    assert failure.reason is Reason.VOLUME_FULL
    assert "0 KiB of 1.0 MiB free; most is taken by mine 1.0 MiB" in failure.message
    assert (volume / "mine" / "plan").exists()


def test_a_volume_without_names_is_told_as_one(volume: Path) -> None:
    (volume / "mine").mkdir()
    with suppress(OSError):
        for number in range(1000):
            (volume / "mine" / str(number)).touch()
    with pytest.raises(OSError, match="No space") as caught:
        begin(volume)
    assert "0 of 64 names (inodes) free" in str(explained(Paths(volume.parent), Stage.TERRAFORM, "net", caught.value))


def test_a_state_that_must_be_kept_takes_the_room_of_every_cache_even_of_this_runs_own(volume: Path) -> None:
    own = volume / "tools" / RUN.distribution / RUN.version
    fill(volume, str(own.relative_to(volume)))
    content = b"state" * 1000
    with Folder.at(volume) as held:
        room(volume, held).insisted(lambda: held.replace("kept", io.BytesIO(content)))
    assert (volume / "kept").read_bytes() == content
    assert not own.exists()


def test_a_step_that_may_be_done_later_does_not_cost_what_this_run_needs(volume: Path) -> None:
    own = volume / "tools" / RUN.distribution / RUN.version
    fill(volume, str(own.relative_to(volume)))
    with Folder.at(volume) as held, pytest.raises(OSError, match="No space"):
        room(volume, held).retried(lambda: held.replace("plan", io.BytesIO(b"plan" * 1000)))
    assert own.is_dir()
