"""What ends up in the tree, and which trees are refused, fetched from a real server."""

import os
import stat
from pathlib import Path

import pytest

from magos.git.credentials import Credentials
from magos.git.errors import GitError, GitReason
from magos.git.export import TreeBudget, export_tree
from magos.git.stores import Stores
from magos.git.submodules import FetchedRepository
from magos.git.url import parse
from magos.ids import GitSHA
from tests.e2e.git.conftest import Clones
from tests.e2e.git.servers import HTTPServer, Repository, git, http_server

LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 12\n"


def make_tree(repository: Repository, entries: list[tuple[str, str, str]]) -> str:
    """Return a tree of (mode, object, name), made without any of Git's checks."""
    import hashlib
    import zlib

    body = b"".join(f"{mode} {name}".encode() + b"\0" + bytes.fromhex(sha) for mode, sha, name in entries)
    raw = b"tree %d\0" % len(body) + body
    sha = hashlib.sha1(raw).hexdigest()  # noqa: S324
    path = repository.bare / "objects" / sha[:2] / sha[2:]
    path.parent.mkdir(exist_ok=True)
    if not path.exists():
        path.write_bytes(zlib.compress(raw))
    return sha


def blob(repository: Repository, content: str) -> str:
    return git(repository.bare, "hash-object", "-w", "--stdin", content=content.encode())


def publish(repository: Repository, tree: str) -> str:
    """Commit ``tree`` as the branch ``trunk``."""
    sha = git(repository.bare, "commit-tree", "-m", "hostile", tree)
    git(repository.bare, "update-ref", "refs/heads/trunk", sha)
    return sha


def test_files_modes_and_inner_links_are_written_as_committed(
    clone: Clones, repository: Repository, server: HTTPServer
) -> None:
    (repository.work / "bin").mkdir()
    (repository.work / "bin" / "run").write_text("#!/bin/sh\n")
    (repository.work / "bin" / "run").chmod(0o755)
    (repository.work / "current").symlink_to("bin/run")
    (repository.work / "bin" / "up").symlink_to("../main.tf")
    os.symlink(b"\xff", os.fsencode(repository.work) + b"/odd-\xfe")  # noqa: PTH211
    sha = repository.commit({"main.tf": "a\r\nb\n", "deep/er/x.tf": ""})
    old = os.umask(0o077)
    try:
        export = clone(f"{server.url}/app.git")
    finally:
        os.umask(old)
    assert (export.revision, export.files, export.warnings) == (sha, 6, ())
    assert stat.S_IMODE((clone.last / "bin/run").stat().st_mode) == 0o755
    assert stat.S_IMODE((clone.last / "main.tf").stat().st_mode) == 0o644
    assert (clone.last / "main.tf").read_bytes() == b"a\r\nb\n"
    assert os.readlink(clone.last / "current") == "bin/run"  # noqa: PTH115
    assert not (clone.last / ".git").exists()
    assert export.bytes == len("#!/bin/sh\n") + 5


@pytest.mark.parametrize("target", ["/etc", "../outside", "sub/../../outside", "/proc/self/environ", "self"])
def test_a_link_out_of_the_tree_is_refused_and_named(
    clone: Clones, repository: Repository, server: HTTPServer, target: str
) -> None:
    (repository.work / "self").symlink_to(target)
    repository.commit({"sub/main.tf": ""})
    error = clone.fails(f"{server.url}/app.git")
    assert error.reason is GitReason.GIT_FAILED
    assert "'self'" in error.message


def test_an_entry_below_a_link_is_refused_and_nothing_is_written_outside(
    clone: Clones, repository: Repository, server: HTTPServer, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    link = blob(repository, str(outside))
    inner = make_tree(repository, [("100644", blob(repository, "evil"), "x")])
    publish(repository, make_tree(repository, [("120000", link, "d"), ("40000", inner, "d")]))
    error = clone.fails(f"{server.url}/app.git")
    assert error.reason is GitReason.GIT_FAILED
    assert "'d'" in error.message
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("name", [".git", ".GIT", "git~1", ".git.", "..", ".", "a/b", "../x", ".g\u200cit"])
def test_names_that_are_no_names_are_refused(
    clone: Clones, repository: Repository, server: HTTPServer, name: str
) -> None:
    publish(repository, make_tree(repository, [("100644", blob(repository, "evil"), name)]))
    error = clone.fails(f"{server.url}/app.git")
    assert error.reason is GitReason.GIT_FAILED
    assert "entry" in error.message


def test_an_unknown_mode_a_long_name_and_a_link_as_gitmodules_are_refused(
    clone: Clones, repository: Repository, server: HTTPServer
) -> None:
    content = blob(repository, "x")
    for entry in (("10644", content, "fifo"), ("100644", content, "n" * 300), ("120000", content, ".gitmodules")):
        publish(repository, make_tree(repository, [entry]))
        assert clone.fails(f"{server.url}/app.git").reason is GitReason.GIT_FAILED


def test_the_budgets_are_enforced(tmp_path: Path, repository: Repository) -> None:
    from dulwich.objects import Blob, Commit, ObjectID, Tree

    with Stores(tmp_path) as stores:
        store = stores.create()
        content = Blob.from_string(b"0123456789")
        deep = Tree()
        deep.add(b"file", 0o100644, content.id)
        objects = [content, deep]
        for _ in range(4):
            outer = Tree()
            outer.add(b"d", 0o40000, deep.id)
            outer.add(b"file", 0o100644, content.id)
            objects.append(outer)
            deep = outer
        commit = Commit()
        commit.tree = deep.id
        commit.author = commit.committer = b"a <a>"
        commit.author_time = commit.commit_time = 0
        commit.author_timezone = commit.commit_timezone = 0
        commit.message = b""
        for item in (*objects, commit):
            store.add_object(item)
        source = FetchedRepository(parse(str(repository.bare)), store)
        sha = GitSHA(ObjectID(commit.id).decode())

        def never(*_: object) -> FetchedRepository:
            raise AssertionError

        def run(limits: TreeBudget, name: str) -> int:
            (tmp_path / name).mkdir()
            return export_tree(source, sha, tmp_path / name, never, limits).files

        assert run(TreeBudget(files=5, content=50, depth=5), "fits") == 5
        for number, limits in enumerate((TreeBudget(files=4), TreeBudget(content=49), TreeBudget(depth=4))):
            with pytest.raises(GitError) as caught:
                run(limits, f"over-{number}")
            assert caught.value.reason is GitReason.GIT_FAILED


def test_submodules_are_checked_out_at_their_recorded_commits(
    clone: Clones, root: Path, repository: Repository, server: HTTPServer
) -> None:
    inner = Repository(root, "inner.git")
    inner.commit({"deep.tf": "deep"})
    net = Repository(root, "net.git")
    git(net.work, "-c", "protocol.file.allow=always", "clone", "-q", str(inner.work), "inner")
    (net.work / ".gitmodules").write_text('[submodule "inner"]\n\tpath = inner\n\turl = ../inner.git\n')
    recorded = net.commit({"net.tf": "old"})
    git(repository.work, "clone", "-q", str(net.work), "modules/net")
    (repository.work / ".gitmodules").write_text('[submodule "net"]\n\tpath = modules/net\n\turl = ../net.git\n')
    repository.commit({"main.tf": ""})
    net.commit({"net.tf": "new"})
    server.login = ("alice", "secret-word")
    clone(f"{server.url}/app.git", credentials=Credentials(username="alice", password="secret-word"))
    assert clone.read("modules/net/net.tf") == "old", recorded
    assert clone.read("modules/net/inner/deep.tf") == "deep"
    assert not list(clone.last.rglob(".git"))


def test_a_submodule_elsewhere_gets_no_credentials_and_its_failure_names_it(
    clone: Clones, root: Path, repository: Repository, server: HTTPServer
) -> None:
    net = Repository(root, "net.git")
    net.commit({"net.tf": ""})
    git(repository.work, "clone", "-q", str(net.work), "net")
    server.login = ("alice", "secret-word")
    login = Credentials(username="alice", password="secret-word")
    with http_server(root) as other:
        (repository.work / ".gitmodules").write_text(f'[submodule "net"]\n\tpath = net\n\turl = {other.url}/net.git\n')
        repository.commit({"main.tf": ""})
        assert clone(f"{server.url}/app.git", credentials=login).files == 3
        other.login = server.login
        error = clone.fails(f"{server.url}/app.git", credentials=login)
        assert error.reason is GitReason.GIT_AUTHENTICATION_FAILED
        assert error.message.startswith("submodule net: ")
        assert {authorization for _, authorization in other.seen} == {None}


def test_a_submodule_without_url_or_with_a_forbidden_one_fails_the_run(
    clone: Clones, root: Path, repository: Repository, server: HTTPServer
) -> None:
    net = Repository(root, "net.git")
    net.commit({"net.tf": ""})
    git(repository.work, "clone", "-q", str(net.work), "net")
    repository.commit({"main.tf": ""})
    error = clone.fails(f"{server.url}/app.git")
    assert "'net'" in error.message
    for url, reason in (("ext::sh -c id", GitReason.GIT_FAILED), ("ftp://h/x", GitReason.SCHEME_NOT_ALLOWED),
                        ("../gone.git", GitReason.GIT_FAILED), ("--upload-pack=x", GitReason.GIT_FAILED)):  # fmt: skip
        (repository.work / ".gitmodules").write_text(f'[submodule "net"]\n\tpath = net\n\turl = "{url}"\n')
        repository.commit({})
        assert clone.fails(f"{server.url}/app.git").reason is reason


def test_lfs_pointers_and_line_end_conversions_are_warned_about(
    clone: Clones, repository: Repository, server: HTTPServer
) -> None:
    repository.commit({"files/a.zip": LFS, ".gitattributes": "*.zip filter=lfs -text\n*.bat text eol=crlf\n"})
    warnings = clone(f"{server.url}/app.git").warnings
    assert any("files/a.zip is a Git LFS pointer" in warning for warning in warnings)
    assert any(".gitattributes asks for line-end" in warning for warning in warnings)


def test_a_directory_that_is_not_fresh_is_refused(clone: Clones, repository: Repository, server: HTTPServer) -> None:
    repository.commit({"main.tf": ""})
    clone.count += 1
    stale = clone.folder / f"tree-{clone.count}"
    clone.count -= 1
    stale.mkdir()
    (stale / "extra.tf").write_text("left over")
    with pytest.raises(GitError, match="not empty"):
        clone(f"{server.url}/app.git")
    assert (stale / "extra.tf").exists()
