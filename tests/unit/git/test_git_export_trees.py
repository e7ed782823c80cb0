"""Any tree, however hostile, is either refused or ends up inside the destination."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from dulwich.object_store import DiskObjectStore
from dulwich.objects import Blob, Commit, ShaFile, Tree
from hypothesis import example, given, settings
from hypothesis import strategies as st

from magos.git.errors import GitError, GitReason
from magos.git.export import TreeBudget, export_tree
from magos.git.stores import Stores
from magos.git.submodules import FetchedRepository
from magos.git.url import parse
from magos.ids import GitSHA

Node = tuple[str, bytes] | list[tuple[bytes, "Node"]]
NAMES = st.sampled_from(
    [b"a", b"b", b"c", b".git", b"..", b".", b"", b"a/b", b"../x", b"GIT~1", b".gitmodules", b"\xff"]
)
TARGETS = st.sampled_from([b"a", b"../a", b"..", b"../../sentinel", b"/etc", b"b/../../c", b".", b"a/b/c", b""])
LEAVES = st.tuples(st.just("file"), st.binary(max_size=4)) | st.tuples(st.just("link"), TARGETS)
TREES = st.recursive(
    st.lists(st.tuples(NAMES, LEAVES), max_size=4),
    lambda children: st.lists(st.tuples(NAMES, LEAVES | children), max_size=4),
    max_leaves=12,
)
BENIGN = st.recursive(
    st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c"]), LEAVES), unique_by=lambda entry: entry[0], max_size=3),
    lambda children: st.lists(
        st.tuples(st.sampled_from([b"a", b"b", b"c"]), LEAVES | children), unique_by=lambda entry: entry[0], max_size=3
    ),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DiskObjectStore]:
    with Stores(tmp_path_factory.mktemp("stores")) as stores:
        yield stores.create()


def add(store: DiskObjectStore, node: object) -> tuple[bytes, ShaFile]:
    """Store a node and return its mode and object; trees are made without the library's checks."""
    if isinstance(node, tuple):
        kind, content = node
        blob = Blob.from_string(content)
        store.add_object(blob)
        return (b"120000" if kind == "link" else b"100644"), blob
    assert isinstance(node, list)
    raw = b""
    for name, child in node:
        mode, item = add(store, child)
        raw += mode + b" " + name + b"\0" + bytes.fromhex(item.id.decode())
    tree = ShaFile.from_raw_string(Tree.type_num, raw)
    store.add_object(tree)
    return b"40000", tree


def commit(store: DiskObjectStore, node: object) -> GitSHA:
    made = Commit()
    made.tree = add(store, node)[1].id
    made.author = made.committer = b"a <a>"
    made.author_time = made.commit_time = made.author_timezone = made.commit_timezone = 0
    made.message = b""
    store.add_object(made)
    return GitSHA(made.id.decode())


def never(*_: object) -> FetchedRepository:
    raise AssertionError("no submodule is recorded")


def export(store: DiskObjectStore, node: object, folder: Path) -> Path:
    destination = folder / "deep" / "tree"
    destination.mkdir(parents=True)
    (folder / "sentinel").write_text("untouched")
    source = FetchedRepository(parse("https://example.org/x"), store)
    export_tree(source, commit(store, node), destination, never, TreeBudget(files=50, content=1000, depth=6))
    return destination


@settings(deadline=None)
@given(TREES | BENIGN)
@example([(b"a", ("link", b"..")), (b"a", [(b"sentinel", ("file", b"x"))])])
@example([(b"a", ("link", b"../../..")), (b"b", ("link", b"a/sentinel"))])
@example([(b"a", [(b"b", ("link", b"../.."))])])
@example([(b"a", ("link", b"b")), (b"b", ("link", b"a"))])
@example([(b"a", ("link", b"../tree/a"))])
@example([(b"a", [(b".GIT", ("file", b""))])])
@example([(b"a\\.git", ("file", b""))])
@example([(b".git\xe2\x80\x8c", [(b"hooks", ("file", b""))])])
@example([(b".gitmodules", ("link", b"a"))])
@example([(b"a", [(b"a", [(b"a", [(b"a", [(b"a", [(b"a", [(b"a", ("file", b""))])])])])])])])
@example([(b"a" * 300, ("file", b""))])
@example([(b"../x", ("file", b""))])
@example([(b"a", []), (b"a/b", ("file", b""))])
@example([(b"..", [(b"x", ("file", b""))])])
@example([(b".", [(b"x", ("file", b""))])])
@example([(b"a", ("file", b"")), (b"a", ("file", b""))])
@example([(b"a", []), (b"a", [])])
def test_nothing_is_written_outside_the_destination(store: DiskObjectStore, node: object) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        try:
            destination = export(store, node, folder)
        except GitError as error:
            reason: GitReason | None = error.reason
            message = error.message
        else:
            reason, message = None, ""
            for base, directories, files in os.walk(os.fsencode(destination)):
                for entry in (*directories, *files):
                    resolved = os.path.realpath(os.path.join(base, entry))  # noqa: PTH118  # names are bytes
                    assert (resolved + b"/").startswith(os.fsencode(destination) + b"/")
                    assert entry.lower() != b".git"
        assert reason in {None, GitReason.GIT_FAILED}
        assert "File exists" not in message, "two entries of one name are refused before anything is written"
        if reason and "cannot be written" not in message:
            assert list((folder / "deep" / "tree").iterdir()) == []
        assert (folder / "sentinel").read_text() == "untouched"
        assert sorted(path.name for path in folder.iterdir()) == ["deep", "sentinel"]
        assert [path.name for path in (folder / "deep").iterdir()] == ["tree"]


@settings(deadline=None)
@given(BENIGN)
def test_a_tree_of_files_is_written_exactly(store: DiskObjectStore, node: list[tuple[bytes, object]]) -> None:
    def files_only(entries: object) -> list[tuple[bytes, object]]:
        assert isinstance(entries, list)
        return [
            (name, files_only(child) if isinstance(child, list) else child)
            for name, child in entries
            if isinstance(child, list) or child[0] == "file"
        ]

    def expected(entries: list[tuple[bytes, object]], base: str) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for name, child in entries:
            path = f"{base}{name.decode()}"
            if isinstance(child, list):
                found |= expected(child, path + "/")
            else:
                assert isinstance(child, tuple)
                found[path] = child[1]
        return found

    wanted = files_only(node)
    with tempfile.TemporaryDirectory() as name:
        destination = export(store, wanted, Path(name))
        written = {
            str(path.relative_to(destination)): path.read_bytes() for path in destination.rglob("*") if path.is_file()
        }
        assert written == expected(wanted, "")
