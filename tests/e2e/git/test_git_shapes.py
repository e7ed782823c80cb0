"""Every shape of reference, of server and of key that people have: the same commit everywhere, or the same refusal."""

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from dulwich.server import FileSystemBackend, TCPGitServer

from magos.git.credentials import ANONYMOUS, Credentials
from magos.git.errors import GitError, GitReason
from magos.git.lsremote import LsRemoteRequest, LsRemotesRequest, Resolution, ls_remote, ls_remotes
from magos.git.tags import Tags
from magos.ids import is_git_sha
from magos.local.servers.gitserver import git_server
from tests.e2e.git.conftest import SCHEMES, Clones
from tests.e2e.git.servers import Repository, git, git_daemon, http_server, of_version_0, ssh_server
from tests.e2e.git.test_git_export import blob, make_tree, publish

SERVERS = ("http v2", "http v0", "git v2", "git v0", "ssh v2", "ssh v0", "dulwich http", "dulwich git", "file")
_MANY = ("http v2", "git v0", "ssh v0", "dulwich http")


class Served:
    """The repository ``app.git`` behind one kind of server."""

    def __init__(self, url: str, credentials: Credentials = ANONYMOUS) -> None:
        self.url = url
        self.credentials = credentials

    def resolved(self, target: str) -> str:
        return ls_remote(LsRemoteRequest(self.url, target, SCHEMES, self.credentials)).sha


@contextmanager
def dulwich_daemon(root: Path) -> Iterator[str]:
    """The Git library's own ``git://`` server."""
    server = TCPGitServer(FileSystemBackend(), "127.0.0.1", port=0)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"git://127.0.0.1:{server.server_address[1]}{root}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def served(kind: str, root: Path, folder: Path) -> Iterator[Served]:
    path = root / "app.git"
    with ExitStack() as stack:
        if kind.startswith("http"):
            server = stack.enter_context(http_server(root))
            server.version_2 = kind == "http v2"
            yield Served(f"{server.url}/app.git")
        elif kind.startswith("ssh"):
            folder.mkdir()
            sshd = stack.enter_context(ssh_server(folder, accept_env=kind == "ssh v2"))
            login = Credentials(ssh_private_key=sshd.private_key, known_hosts=sshd.host_key)
            yield Served(sshd.url(path), login)
        elif kind.startswith("git"):
            base = stack.enter_context(git_daemon(root))
            yield Served(f"{stack.enter_context(of_version_0(base)) if kind == 'git v0' else base}/app.git")
        elif kind == "dulwich http":
            yield Served(stack.enter_context(git_server(root)).clone_url("app.git"))
        elif kind == "dulwich git":
            yield Served(f"{stack.enter_context(dulwich_daemon(root))}/app.git")
        else:
            yield Served(path.as_uri())


def shaped(repository: Repository, history: list[str]) -> dict[str, str]:
    """Give the repository references of every shape; return target revision -> commit."""
    work, bare = repository.work, repository.bare
    git(work, "tag", "light", history[0])
    git(work, "tag", "-a", "-m", "x", "v1", history[1])
    git(work, "tag", "-a", "-m", "x", "signed-off/v1", "v1")  # a tag of a tag
    git(work, "tag", "both", history[0])
    for name, number in (("both", 2), ("feature/ünïcode", 3), ("a@b#c%20d", 4), ("v1.x", 3), ("0" * 39, 4)):
        git(work, "branch", name, history[number])
    repository.push()
    git(bare, "update-ref", "refs/pull/7/head", history[1])
    git(bare, "update-ref", "refs/heads/HEAD", history[2])
    git(bare, "symbolic-ref", "HEAD", "refs/heads/trunk")
    return {
        "light": history[0], "v1": history[1], "signed-off/v1": history[1], "refs/tags/signed-off/v1": history[1],
        "both": history[2], "refs/tags/both": history[0], "feature/ünïcode": history[3], "a@b#c%20d": history[4],
        "v1.x": history[3], "0" * 39: history[4], "refs/pull/7/head": history[1], "HEAD": history[2],
        "refs/heads/trunk": history[5], history[0]: history[0],
    }  # fmt: skip


@pytest.mark.parametrize("kind", SERVERS)
def test_every_shape_of_reference_means_the_same_commit_on_every_server(
    clone: Clones, repository: Repository, history: list[str], root: Path, tmp_path: Path, kind: str
) -> None:
    expected = shaped(repository, history)
    with served(kind, root, tmp_path / "sshd") as place:
        for target, sha in expected.items():
            assert place.resolved(target) == sha, target
        for target in ("signed-off/v1", "feature/ünïcode", "refs/pull/7/head", history[0]):
            assert clone(place.url, target, credentials=place.credentials).revision == expected[target], target
        # A branch has moved on since the commit was pinned.
        assert clone(place.url, "trunk", history[1], credentials=place.credentials).revision == history[1]
        assert clone.read("main.tf") == "1"


@pytest.mark.parametrize("kind", _MANY)
def test_a_deleted_branch_is_not_found_and_its_pinned_commit_only_if_it_is_still_there(
    clone: Clones, repository: Repository, history: list[str], root: Path, tmp_path: Path, kind: str
) -> None:
    git(repository.work, "checkout", "-q", "-b", "side", history[2])
    side = repository.commit({"main.tf": "side"})
    git(repository.bare, "update-ref", "-d", "refs/heads/side")
    with served(kind, root, tmp_path / "sshd") as place:
        login = place.credentials
        gone = clone.fails(place.url, "side", credentials=login)
        assert gone.reason is GitReason.REVISION_NOT_FOUND
        assert "'side'" in gone.message
        if kind == "http v2":  # serves whatever it has
            assert clone(place.url, "side", side, credentials=login).revision == side
            assert clone.read("main.tf") == "side"
        else:
            assert clone.fails(place.url, "side", side, credentials=login).reason is GitReason.REVISION_NOT_FOUND
        assert (
            clone.fails(place.url, "side", "0123456789" * 4, credentials=login).reason is GitReason.REVISION_NOT_FOUND
        )


@pytest.mark.parametrize("kind", _MANY)
def test_what_is_no_commit_is_refused_by_its_kind(
    clone: Clones, repository: Repository, history: list[str], root: Path, tmp_path: Path, kind: str
) -> None:
    tree = git(repository.work, "rev-parse", f"{history[0]}^{{tree}}")
    git(repository.bare, "tag", "-a", "-m", "x", "of-a-tree", tree)
    git(repository.bare, "tag", "of-a-blob", blob(repository, "content"))
    with served(kind, root, tmp_path / "sshd") as place:
        for target, what in (("of-a-tree", "tag of a tree"), ("of-a-blob", "blob")):
            told = f"refs/tags/{target} is a {what}, not a commit"
            error = clone.fails(place.url, target, credentials=place.credentials)
            assert error.reason is GitReason.REVISION_NOT_FOUND
            assert told in error.message
            with pytest.raises(GitError, match=told) as polled:
                place.resolved(target)
            assert polled.value.reason is GitReason.REVISION_NOT_FOUND


@pytest.mark.parametrize("version", [0, 2])
def test_tags_mean_commits_on_a_server_that_does_not_announce_what_they_point_to(
    clone: Clones, repository: Repository, history: list[str], root: Path, version: int
) -> None:
    expected = {target: sha for target, sha in shaped(repository, history).items() if not is_git_sha(target)}
    tree = git(repository.work, "rev-parse", f"{history[0]}^{{tree}}")
    git(repository.bare, "tag", "-a", "-m", "x", "of-a-tree", tree)
    tags = Tags()
    with http_server(root) as server:
        server.version_2, server.peels = version == 2, False
        url = f"{server.url}/app.git"
        request = LsRemotesRequest(url, (*expected, "of-a-tree"), SCHEMES, tags=tags)
        for asked_before in (False, True):
            server.seen.clear()
            found = ls_remotes(request)
            assert {target: each.sha for target, each in found.items() if isinstance(each, Resolution)} == expected
            assert "is a tag of a tree" in str(found["of-a-tree"])
            listing = 1 if version == 0 else 2
            assert (len(server.seen) == listing) == asked_before, "what a tag means is asked for once"
        for target in ("v1", "signed-off/v1", "light"):
            assert clone(url, target).revision == expected[target]


@pytest.mark.parametrize("version", [0, 2])
def test_targets_that_are_branches_have_their_answer_where_tags_cannot_be_looked_up(
    repository: Repository, history: list[str], root: Path, version: int
) -> None:
    shaped(repository, history)
    with http_server(root) as server:
        server.version_2 = version == 2
        server.refused = b"want "
        found = ls_remotes(LsRemotesRequest(f"{server.url}/app.git", ("trunk", "v1"), SCHEMES))
    branch, tag = found["trunk"], found["v1"]
    assert isinstance(branch, Resolution)
    assert branch.sha == history[5]
    assert isinstance(tag, GitError)
    assert tag.retry_after == 7


def test_a_tag_is_looked_up_without_what_belongs_to_its_commit(
    repository: Repository, root: Path, tmp_path: Path
) -> None:
    repository.commit({f"{number}.bin": os.urandom(2**20) for number in range(40)})
    git(repository.work, "tag", "light")
    git(repository.work, "tag", "-a", "-m", "x", "v1")
    repository.push()
    with served("git v0", root, tmp_path) as place:
        assert place.resolved("light") == place.resolved("v1") == git(repository.work, "rev-parse", "HEAD")


@pytest.mark.parametrize("kind", _MANY)
def test_an_empty_repository_has_nothing_to_find(
    clone: Clones, repository: Repository, root: Path, tmp_path: Path, kind: str
) -> None:
    assert repository.bare.is_dir()
    with served(kind, root, tmp_path / "sshd") as place:
        for target in ("trunk", "HEAD"):
            assert clone.fails(place.url, target, credentials=place.credentials).reason is GitReason.REVISION_NOT_FOUND


def test_a_repository_of_another_object_format_is_told_so(clone: Clones, root: Path) -> None:
    git(root, "init", "-q", "--bare", "--object-format=sha256", "-b", "trunk", "app.git")
    git(root, "init", "-q", "--object-format=sha256", "-b", "trunk", "work")
    git(root / "work", "commit", "-q", "--allow-empty", "-m", "x")
    git(root / "work", "push", "-q", str(root / "app.git"), "trunk")
    git(root / "app.git", "config", "http.uploadpack", "true")
    with http_server(root) as server:
        error = clone.fails(f"{server.url}/app.git")
    assert error.reason is GitReason.GIT_FAILED
    assert "sha256" in error.message
    assert "SHA-1" in error.message


@pytest.mark.parametrize(
    "kind",
    [
        ("-t", "rsa", "-b", "2048"),
        ("-t", "rsa", "-b", "2048", "-m", "PEM"),
        ("-t", "ecdsa"),
        ("-t", "ecdsa", "-m", "PEM"),
    ],
    ids=" ".join,
)
def test_keys_of_every_type_and_form_let_in(
    clone: Clones, repository: Repository, history: list[str], tmp_path: Path, kind: tuple[str, ...]
) -> None:
    folder = tmp_path / "sshd"
    folder.mkdir()
    with ssh_server(folder, kind=kind) as sshd:
        login = Credentials(ssh_private_key=sshd.private_key, known_hosts=sshd.host_key)
        assert clone(sshd.url(repository.bare), credentials=login).revision == history[5]
        unknown = clone.fails(sshd.url(repository.bare), credentials=Credentials(ssh_private_key=sshd.private_key))
        assert unknown.reason is GitReason.UNKNOWN_HOST_KEY
        assert sshd.fingerprint in unknown.message


@pytest.mark.parametrize("mode", ["20000", "60000", "10000", "140000", "100666", "170000"])
def test_devices_and_other_modes_become_plain_files_or_are_refused(
    clone: Clones, repository: Repository, root: Path, mode: str
) -> None:
    publish(repository, make_tree(repository, [(mode, blob(repository, "x"), "odd")]))
    with http_server(root) as server:
        url = f"{server.url}/app.git"
        if mode == "100666":
            clone(url)
            assert (clone.last / "odd").is_file()
            assert (clone.last / "odd").stat().st_mode & 0o777 == 0o644
        else:
            error = clone.fails(url)
            assert error.reason is GitReason.GIT_FAILED
            assert "'odd'" in error.message
