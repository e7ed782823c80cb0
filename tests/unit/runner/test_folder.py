"""Folders held open: nothing in them is reached through a link, and what they hold stays theirs."""

import io
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magos.folder import Folder, NotFolder, NotRegular


@pytest.fixture
def held(tmp_path: Path) -> Iterator[tuple[Path, Folder]]:
    place = tmp_path / "volume"
    (place / "a" / "b").mkdir(parents=True)
    (place / "a" / "b" / "file").write_text("inside")
    (tmp_path / "outside" / "b").mkdir(parents=True)
    (tmp_path / "outside" / "b" / "file").write_text("outside")
    with Folder.at(place) as folder:
        yield place, folder


@pytest.mark.parametrize("target", ["../outside", "/proc/self/cwd", "b", "a"])
def test_no_link_on_the_way_is_followed_not_even_one_that_stays_inside(held: tuple[Path, Folder], target: str) -> None:
    place, folder = held
    (place / "link").symlink_to(target)
    for name in ("link/b/file", "link/file"):
        with pytest.raises(NotFolder), folder.opened(name):
            pass
        with pytest.raises(NotFolder):
            folder.remove(name)
        with pytest.raises(NotFolder):
            folder.replace(name, io.BytesIO(b"new"))
        with pytest.raises(NotFolder), folder.created(f"{name}.new"):
            pass
    with pytest.raises(NotFolder):
        folder.folder("link")
    with pytest.raises(NotFolder):
        folder.made("link/new")
    assert (place.parent / "outside/b/file").read_text() == "outside"


def test_a_link_in_the_last_place_is_not_followed_either(held: tuple[Path, Folder]) -> None:
    place, folder = held
    (place / "link").symlink_to("../outside/b/file")
    with pytest.raises(OSError, match=r"."), folder.opened("link"):
        pass
    with pytest.raises(FileExistsError), folder.created("link"):
        pass
    folder.replace("link", io.BytesIO(b"new"))
    assert folder.read("link", 3) == b"new"
    assert (place.parent / "outside/b/file").read_text() == "outside"


@given(st.lists(st.sampled_from(["a", "b", "..", ".", "", "file", "\0"]), min_size=1, max_size=5))
def test_a_name_never_leads_out(tmp_path_factory: pytest.TempPathFactory, parts: list[str]) -> None:
    place = tmp_path_factory.getbasetemp() / "names"
    (place / "in").mkdir(parents=True, exist_ok=True)
    (place / "file").write_text("outside")
    with Folder.at(place / "in") as folder, pytest.raises((OSError, ValueError)), folder.opened("/".join(parts)):
        pass


def test_the_folder_stays_whatever_becomes_of_its_name(held: tuple[Path, Folder]) -> None:
    place, folder = held
    with folder.folder("a/b") as inner:
        (place / "a" / "b").rename(place / "moved")
        (place / "a" / "b").symlink_to(place.parent / "outside" / "b")
        assert inner.read("file", 10) == b"inside"
        assert inner.remove("file")
    assert list((place / "moved").iterdir()) == []
    assert (place.parent / "outside/b/file").exists()


@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_only_regular_files_are_opened_and_a_pipe_is_not_waited_for(held: tuple[Path, Folder], kind: str) -> None:
    place, folder = held
    os.mkfifo(place / "x") if kind == "pipe" else (place / "x").mkdir()
    with pytest.raises((NotRegular, IsADirectoryError)), folder.opened("x"):
        pass


def test_whatever_is_there_is_removed_or_replaced_itself(held: tuple[Path, Folder]) -> None:
    place, folder = held
    (place / "link").symlink_to("a")
    os.mkfifo(place / "pipe")
    assert [folder.remove(name) for name in ("link", "pipe", "nothing", "none/x")] == [True, True, False, False]
    folder.replace("a", io.BytesIO(b"a file now"))
    assert (place / "a").read_text() == "a file now"
    assert (place / "a").stat().st_mode & 0o777 == 0o600
    assert folder.names() == ["a"]
    assert folder.remove("a")
    assert folder.names() == []


def test_a_failed_replacement_leaves_what_was_there_and_nothing_else(held: tuple[Path, Folder]) -> None:
    _, folder = held
    source = io.BytesIO(b"x")
    source.close()
    with pytest.raises(ValueError, match="closed"):
        folder.replace("a", source)
    assert folder.names() == ["a"]


def test_a_file_is_created_once_and_read_up_to_a_limit(held: tuple[Path, Folder]) -> None:
    place, folder = held
    with folder.created("a/new") as stream:
        stream.write(b"1234")
    assert (place / "a/new").stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError), folder.created("a/new"):
        pass
    assert folder.read("a/new", 4) == b"1234"
    with pytest.raises(ValueError, match="more than 3 bytes"):
        folder.read("a/new", 3)
