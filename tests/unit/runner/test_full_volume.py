"""A volume that is full: what earlier runs left makes room for the next one. A real file system without space."""

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from magos.folder import Folder
from magos.runner.config import load_render
from magos.runner.markers import create_start_marker
from magos.runner.outcome import StageFailed
from tests.unit.runner.test_runner_config import ENV


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "volume"
    place.mkdir()
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


def test_what_earlier_runs_left_on_a_full_volume_makes_room_for_the_next(volume: Path) -> None:
    fill(volume, "runs/earlier")
    with Folder.at(volume) as held:
        create_start_marker(held, load_render(ENV).run)
        with pytest.raises(StageFailed, match="was started before"):
            create_start_marker(held, load_render(ENV).run)
    assert [each.name for each in (volume / "runs").iterdir()] == [load_render(ENV).run.run_id]


def test_a_second_start_on_a_full_volume_removes_nothing(volume: Path) -> None:
    with Folder.at(volume) as held:
        create_start_marker(held, load_render(ENV).run)
        fill(volume, "runs/other")
        with pytest.raises(StageFailed, match="was started before"):
            create_start_marker(held, load_render(ENV).run)
    assert (volume / "runs" / "other").is_dir()


def test_a_volume_that_the_configuration_filled_is_told_and_nothing_runs(volume: Path) -> None:
    fill(volume, "data")
    with Folder.at(volume) as held, pytest.raises(StageFailed, match="whether it is full"):
        create_start_marker(held, load_render(ENV).run)
    assert (volume / "data" / "plan").exists()
