"""Objects of any content, as a hostile server may send them: refused, or written inside the destination."""

import hashlib
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from dulwich.object_store import DiskObjectStore
from dulwich.objects import Commit, ObjectID
from hypothesis import example, given, settings
from hypothesis import strategies as st

from magos.git.errors import GitError, GitReason
from magos.git.export import TreeBudget, export_tree
from magos.git.stores import Stores
from magos.git.submodules import FetchedRepository, declared_urls
from magos.git.url import parse
from magos.ids import GitSHA

SHA = bytes(range(20))
MODES = st.sampled_from(
    [b"100644", b"100755", b"120000", b"40000", b"040000", b"160000", b"0", b"7", b"-1", b"", b"9" * 30]
)
ENTRIES = st.builds(
    lambda mode, name, sha: mode + b" " + name + b"\0" + sha,
    MODES,
    st.binary(max_size=6),
    st.sampled_from([SHA, SHA[:7], b""]) | st.binary(max_size=21),
)
RAW_TREES = st.lists(ENTRIES, max_size=4).map(b"".join) | st.binary(max_size=60)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DiskObjectStore]:
    with Stores(tmp_path_factory.mktemp("stores")) as stores:
        yield stores.create()


def never(*_: object) -> FetchedRepository:
    raise GitError(GitReason.GIT_FAILED, "no submodule can be fetched here")


def put_tree(store: DiskObjectStore, raw: bytes) -> ObjectID:
    """Store a tree as it is: the library refuses to make a malformed one."""
    content = b"tree %d\0" % len(raw) + raw
    sha = hashlib.sha1(content, usedforsecurity=False).hexdigest()
    path = Path(store.path) / sha[:2] / sha[2:]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(zlib.compress(content))
    return ObjectID(sha.encode())


def commit_of(store: DiskObjectStore, raw: bytes) -> GitSHA:
    made = Commit()
    made.tree = put_tree(store, raw)
    made.author = made.committer = b"a <a>"
    made.author_time = made.commit_time = made.author_timezone = made.commit_timezone = 0
    made.message = b""
    store.add_object(made)
    return GitSHA(made.id.decode())


@settings(deadline=None)
@given(RAW_TREES)
@example(b"100644 a\0")
@example(b"100644")
@example(b"-1 a\0" + SHA)
@example(b"9" * 5000 + b" a\0" + SHA)
@example(b"100644 \0" + SHA)
def test_a_tree_of_any_bytes_is_written_inside_or_refused(store: DiskObjectStore, raw: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        destination = Path(name) / "tree"
        destination.mkdir()
        with suppress(GitError):
            export_tree(
                FetchedRepository(parse("https://example.org/x"), store),
                commit_of(store, raw),
                destination,
                never,
                TreeBudget(files=50, content=1000, depth=6),
            )
        assert [entry.name for entry in Path(name).iterdir()] == ["tree"]


@settings(deadline=None)
@given(st.binary(max_size=80))
@example(b"\xff")
@example(b'[submodule "a"]\n\tpath = ..\n\turl = ../x\n')
@example(b'[submodule "a"]\n\tpath = a\n\turl = \xff\n')
@example(b'[submodule "a"')
def test_any_gitmodules_is_read_or_refused_as_value_error(content: bytes) -> None:
    with suppress(ValueError):
        found = declared_urls(content)
        assert not [path for path in found if path.startswith(b"/")]
