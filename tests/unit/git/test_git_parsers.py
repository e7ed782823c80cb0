"""What reads the content of a repository opens no other file and has a limit."""

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from dulwich.object_store import DiskObjectStore
from dulwich.objects import Blob, Commit, ObjectID, ShaFile, Tree, parse_tree
from hypothesis import example, given, settings
from hypothesis import strategies as st

from magos.bounds import (
    COMMIT_OBJECT,
    EXPORT_CONTENT,
    EXPORT_DEPTH,
    EXPORT_FILES,
    EXPORT_WARNINGS,
    GITATTRIBUTES,
    GITMODULES,
    LFS_POINTER,
    LINK_TARGET,
    SUBMODULES,
    TREE_OBJECT,
)
from magos.git import export as exporting
from magos.git.credentials import ANONYMOUS
from magos.git.deadline import Deadline
from magos.git.errors import GitError
from magos.git.export import TreeBudget, Written, export_tree
from magos.git.remote import Access
from magos.git.stores import Stores
from magos.git.submodules import FetchedRepository, declared_urls, make_fetcher
from magos.git.url import parse
from magos.ids import GitSHA
from tests.unit.git.test_git_export_trees import commit, never

URL = parse("https://example.org/x")
_opened: list[str] | None = None


def _note(event: str, arguments: tuple[object, ...]) -> None:
    if _opened is not None and event in {"open", "os.listdir", "subprocess.Popen", "os.system", "socket.connect"}:
        _opened.append(f"{event} {arguments[0]!r}")


sys.addaudithook(_note)  # there is no way to remove one


@contextmanager
def opening_nothing() -> Iterator[None]:
    """Fail if anything in the block opens a file, starts a program or connects."""
    global _opened  # noqa: PLW0603  # the interpreter's hook has no other place to look at
    _opened = []
    try:
        yield
        assert _opened == []
    finally:
        _opened = None


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DiskObjectStore]:
    with Stores(tmp_path) as stores:
        yield stores.create()


def export(store: DiskObjectStore, node: object, limits: TreeBudget | None = None) -> Written:
    with tempfile.TemporaryDirectory() as name:
        return export_tree(FetchedRepository(URL, store), commit(store, node), Path(name), never, limits)


def refused(store: DiskObjectStore, node: object, limits: TreeBudget | None = None) -> str:
    with pytest.raises(GitError) as caught:
        export(store, node, limits)
    return caught.value.message


SECTIONS = st.sampled_from(
    ["[include]", '[includeIf "gitdir:/"]', '[include "x"]', "[INCLUDE]", '[includeIf "hasconfig:submodule.*.url:**"]',
     '[submodule "a"]', '[submodule "include"]']
)  # fmt: skip
SETTINGS = st.sampled_from(["path = {}", "PATH={}", 'path = "{}"', "url = ../x.git", "path = a", "path = {}\\\n"])
FILES = st.lists(SECTIONS | SETTINGS, max_size=8).map("\n".join)


@settings(deadline=None)
@given(FILES | st.binary(max_size=200).map(lambda raw: raw.decode("latin-1")))
@example("[include]\npath = {}\n")
@example('[submodule "a"]\npath = a\nurl = ../x.git\n[includeIf "hasconfig:submodule.*.url:**"]\npath = {}')
def test_gitmodules_opens_no_file_whatever_it_includes(text: str) -> None:
    with tempfile.NamedTemporaryFile(suffix=".included") as included:
        included.write(b'[submodule "foreign"]\npath = foreign\nurl = /etc/passwd\n')
        included.flush()
        content = text.replace("{}", included.name).encode("latin-1")
        with opening_nothing():
            try:
                found = declared_urls(content)
            except ValueError:
                found = {}
    assert b"foreign" not in found


@pytest.mark.parametrize("target", ["/dev/zero", "/proc/self/environ", "fifo"])
def test_an_include_of_a_device_or_a_pipe_is_not_opened(target: str, tmp_path: Path) -> None:
    if target == "fifo":
        os.mkfifo(tmp_path / target)
        target = str(tmp_path / target)
    with opening_nothing():
        assert declared_urls(f'[submodule "a"]\npath=a\nurl=u\n[include]\npath={target}\n'.encode()) == {b"a": "u"}


def test_bound_gitmodules(store: DiskObjectStore) -> None:
    own = b'[submodule "a"]\npath=a\nurl=u\n'
    assert declared_urls(own.ljust(GITMODULES.limit, b"\n")) == {b"a": "u"}
    with pytest.raises(ValueError, match="more than 256 KiB"):
        declared_urls(own.ljust(GITMODULES.limit + 1, b"\n"))
    message = refused(store, [(b".gitmodules", ("file", b"\n" * (GITMODULES.limit + 1)))])
    assert "'.gitmodules' cannot be read: it has more than 256 KiB" in message


def test_bound_submodules(tmp_path: Path) -> None:
    access = Access(URL, ANONYMOUS, ("https",), tmp_path)
    with Stores(tmp_path) as stores:
        store, *_ = [stores.create() for _ in range(SUBMODULES.limit + 1)]
        fetch = make_fetcher(access, stores, Deadline(60, "fetching"))
        with pytest.raises(GitError, match="more than 100 submodules"):
            fetch(FetchedRepository(URL, store), (b"a",), "ext::sh -c true", GitSHA("a" * 40))


def test_bound_gitattributes(store: DiskObjectStore) -> None:
    word = b"* eol=crlf"
    inside = b"\n" * (GITATTRIBUTES.limit - len(word)) + word
    assert len(export(store, [(b".gitattributes", ("file", inside))]).warnings) == 1
    assert export(store, [(b".gitattributes", ("file", b"\n" + inside))]).warnings == ()


def test_bound_lfs_pointer(store: DiskObjectStore) -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\n".ljust(LFS_POINTER.limit - 1, b"\n")
    assert len(export(store, [(b"a", ("file", pointer))]).warnings) == 1
    assert export(store, [(b"a", ("file", pointer + b"\n"))]).warnings == ()


def test_bound_link_target(store: DiskObjectStore) -> None:
    target = b"./" * (LINK_TARGET.limit // 2) + b"a"
    assert len(target) == LINK_TARGET.limit
    assert export(store, [(b"a", ("file", b"")), (b"l", ("link", target))]).files == 2
    assert "must not be a link" in refused(store, [(b"a", ("file", b"")), (b"l", ("link", b"." + target))])


def put(store: DiskObjectStore, kind: int, raw: bytes) -> ObjectID:
    made = ShaFile.from_raw_string(kind, raw)
    store.add_object(made)
    return made.id


def test_bound_tree_object(store: DiskObjectStore) -> None:
    blob = bytes.fromhex(put(store, Blob.type_num, b"").decode())
    entry = b"100644 " + b"n" * 200_000 + b"%d\0" + blob
    large = put(store, Tree.type_num, b"".join(entry % number for number in range(TREE_OBJECT.limit // 200_000 + 1)))
    top = put(store, Tree.type_num, b"40000 a\0" + bytes.fromhex(large.decode()))
    sha = put(store, Commit.type_num, b"tree %b\nauthor a <a> 0 +0000\ncommitter a <a> 0 +0000\n\n" % top)
    with pytest.raises(GitError, match="'a' is a directory of more than 32 MiB"):
        export_tree(FetchedRepository(URL, store), GitSHA(sha.decode()), Path("/nonexistent"), never)


def test_directories_that_are_one_object_are_not_all_in_memory_at_once(
    store: DiskObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tree that names one large tree a thousand times is small, and ends at the number of files."""
    parsed: list[int] = []

    def counting(raw: bytes, *rest: Any, **options: Any) -> Any:
        parsed.append(len(raw))
        return parse_tree(raw, *rest, **options)

    monkeypatch.setattr(exporting, "parse_tree", counting)
    inner = [(b"%d" % number, ("file", b"")) for number in range(60)]
    outer = [(b"d%d" % number, inner) for number in range(500)]
    assert "more than 100 files" in refused(store, outer, TreeBudget(files=100))
    assert len(parsed) < 10


def test_bound_commit_object(store: DiskObjectStore) -> None:
    tree = put(store, Tree.type_num, b"")
    head = b"tree %b\nauthor a <a> 0 +0000\ncommitter a <a> 0 +0000\n\n" % tree
    fits = put(store, Commit.type_num, head.ljust(COMMIT_OBJECT.limit, b"x"))
    large = put(store, Commit.type_num, head.ljust(COMMIT_OBJECT.limit + 1, b"x"))
    with tempfile.TemporaryDirectory() as name:
        assert export_tree(FetchedRepository(URL, store), GitSHA(fits.decode()), Path(name), never).files == 0
        with pytest.raises(GitError, match="commit of more than 4 MiB"):
            export_tree(FetchedRepository(URL, store), GitSHA(large.decode()), Path(name), never)


def test_bound_export_files(store: DiskObjectStore) -> None:
    assert TreeBudget().files == EXPORT_FILES.limit
    files = [(b"%d" % number, ("file", b"")) for number in range(6)]
    assert export(store, files, TreeBudget(files=6)).files == 6
    assert "more than 5 files" in refused(store, files, TreeBudget(files=5))
    directories: object = [(b"%d" % number, []) for number in range(6)]
    assert "more than 5 files or directories" in refused(store, directories, TreeBudget(files=5))


def test_bound_export_content(store: DiskObjectStore) -> None:
    assert TreeBudget().content == EXPORT_CONTENT.limit
    files = [(b"a", ("file", b"xx")), (b"b", ("file", b"yy"))]
    assert export(store, files, TreeBudget(content=4)).content == 4
    assert "MiB (reached at" in refused(store, files, TreeBudget(content=3))


def test_bound_export_depth(store: DiskObjectStore) -> None:
    assert TreeBudget().depth == EXPORT_DEPTH.limit
    node: object = [(b"f", ("file", b""))]
    for _ in range(3):
        node = [(b"d", node)]
    assert export(store, node, TreeBudget(depth=4)).files == 1
    assert "deeper than 3 directories" in refused(store, node, TreeBudget(depth=3))


def test_bound_export_warnings(store: DiskObjectStore) -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\n"
    files = [(b"%03d" % number, ("file", pointer)) for number in range(EXPORT_WARNINGS.limit + 5)]
    warnings = export(store, files).warnings
    assert len(warnings) == EXPORT_WARNINGS.limit + 1
    assert re.search(r"and 5 more warnings", warnings[-1])
