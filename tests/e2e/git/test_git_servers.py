"""Fetching from real servers: HTTP with v2 and v0, redirects, TLS, ``git daemon`` and local repositories."""

import socket
import ssl
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import trustme

from magos.git.credentials import Credentials
from magos.git.errors import GitError, GitReason
from magos.git.lsremote import LsRemoteRequest, ls_remote
from magos.local.ports import free_ports
from tests.e2e.git.conftest import SCHEMES, Clones
from tests.e2e.git.servers import HTTPServer, Repository, git, git_daemon, http_server

LOGIN = Credentials(username="alice", password="open:sesame")


@pytest.fixture(params=["v2", "v0"])
def version(request: pytest.FixtureRequest, server: HTTPServer) -> str:
    server.version_2 = request.param == "v2"
    return str(request.param)


@pytest.mark.usefixtures("version")
def test_any_branch_tag_or_sha_is_checked_out_without_a_remote_head(
    clone: Clones, repository: Repository, server: HTTPServer, history: list[str]
) -> None:
    git(repository.work, "checkout", "-q", "-b", "release/2024.1", history[1])
    git(repository.work, "tag", "light", history[2])
    git(repository.work, "tag", "-a", "-m", "x", "v1", history[3])
    git(repository.work, "branch", "deadbee", history[4])
    repository.push()
    url = f"{server.url}/app.git"
    expected = {
        "trunk": 5, "release/2024.1": 1, "light": 2, "v1": 3, "refs/tags/v1": 3, "deadbee": 4,
        "refs/heads/release/2024.1": 1, history[0]: 0, history[5]: 5,
    }  # fmt: skip
    for target, number in expected.items():
        export = clone(url, target)
        assert export.revision == history[number], target
        assert clone.read("main.tf") == str(number)
        found = ls_remote(LsRemoteRequest(url, target, SCHEMES))
        assert found.sha == history[number], "the poller and the runner agree"


@pytest.mark.usefixtures("version")
def test_a_pinned_commit_is_fetched_although_the_branch_has_moved_on(
    clone: Clones, server: HTTPServer, history: list[str]
) -> None:
    for number in (0, 2, 5):
        export = clone(f"{server.url}/app.git", "trunk", history[number])
        assert export.revision == history[number]
        assert clone.read("main.tf") == str(number)


@pytest.mark.usefixtures("version")
def test_a_commit_that_was_forced_away_is_not_replaced_by_another(
    clone: Clones, repository: Repository, server: HTTPServer, history: list[str]
) -> None:
    gone = "0123456789" * 4
    error = clone.fails(f"{server.url}/app.git", "trunk", gone)
    assert error.reason is GitReason.REVISION_NOT_FOUND
    assert gone in error.message
    assert "'trunk'" in error.message
    assert f"{server.url}/app.git" in error.message
    git(repository.work, "reset", "-q", "--hard", history[0])
    repository.commit({"main.tf": "other"})
    git(repository.bare, "reflog", "expire", "--expire=now", "--all")
    git(repository.bare, "gc", "-q", "--prune=now")
    assert clone.fails(f"{server.url}/app.git", "trunk", history[5]).reason is GitReason.REVISION_NOT_FOUND


def test_the_first_fetch_of_a_commit_takes_no_history(
    clone: Clones, repository: Repository, server: HTTPServer
) -> None:
    repository.commit({"big": bytes(range(256)) * 4096})
    (repository.work / "big").write_bytes(subprocess.check_output(["head", "-c", "3000000", "/dev/urandom"]))
    repository.commit({"x": "1"})
    (repository.work / "big").unlink()
    small = repository.commit({"x": "2"})
    received: list[int] = []
    original = server.run_backend

    def count(request: object, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        answer = original(request, body)  # type: ignore[arg-type]
        received.append(len(answer[2]))
        return answer

    server.run_backend = count  # type: ignore[method-assign]
    assert clone(f"{server.url}/app.git", "trunk", small).files == 1
    assert sum(received) < 20_000


def test_basic_authentication_opens_and_its_absence_is_told(
    clone: Clones, server: HTTPServer, history: list[str]
) -> None:
    server.login = ("alice", "open:sesame")
    url = f"{server.url}/app.git"
    assert clone(url, credentials=LOGIN).revision == history[5]
    anonymous = clone.fails(url)
    assert anonymous.reason is GitReason.GIT_AUTHENTICATION_FAILED
    assert "127.0.0.1 did not accept access without credentials" in anonymous.message
    wrong = clone.fails(url, credentials=Credentials(username="alice", password="wrong-word"))
    assert wrong.reason is GitReason.GIT_AUTHENTICATION_FAILED
    assert "user name and password of the repository Secret" in wrong.message
    assert "wrong-word" not in wrong.message
    server.login = ("jos\u00e9", "\u65e5\u672c")
    assert clone(url, credentials=Credentials(username="jos\u00e9", password="\u65e5\u672c")).revision == history[5]
    server.login = ("git", "token")
    assert clone(url, credentials=Credentials(password="token")).revision == history[5]


def test_the_proxy_of_the_environment_is_used(
    clone: Clones, server: HTTPServer, history: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server.login = ("alice", "open:sesame")
    monkeypatch.setenv("http_proxy", server.url)
    assert clone("http://git.invalid/app.git", credentials=LOGIN).revision == history[5]
    monkeypatch.setenv("no_proxy", "git.invalid")
    assert clone.fails("http://git.invalid/app.git", credentials=LOGIN).reason is GitReason.GIT_FAILED


def test_a_redirect_to_the_same_origin_keeps_the_credentials(
    clone: Clones, server: HTTPServer, history: list[str]
) -> None:
    server.login = ("alice", "open:sesame")
    server.redirects["/app"] = "/app.git"
    assert clone(f"{server.url}/app", credentials=LOGIN).revision == history[5]


def test_credentials_never_follow_a_redirect_to_another_origin(
    clone: Clones, root: Path, server: HTTPServer, history: list[str]
) -> None:
    with http_server(root) as other:
        server.redirects["/org/r"] = f"{other.url}/app.git"
        assert clone(f"{server.url}/org/r", credentials=LOGIN).revision == history[5]
        assert other.seen
        assert {authorization for _, authorization in other.seen} == {None}
        other.login = ("alice", "open:sesame")
        error = clone.fails(f"{server.url}/org/r", credentials=LOGIN)
        assert error.reason is GitReason.GIT_AUTHENTICATION_FAILED
        assert {authorization for _, authorization in other.seen} == {None}
        # and back again: what another origin points to does not get them either
        server.redirects["/org/r"] = f"{other.url}/back"
        other.redirects["/back"] = f"{server.url}/app.git"
        server.seen.clear()
        assert clone(f"{server.url}/org/r", credentials=LOGIN).revision == history[5]
        assert {seen for path, seen in server.seen if path.startswith("/app.git")} == {None}


@pytest.mark.parametrize("target", ["ftp://127.0.0.1/x", "file:///etc", "gopher://h/x"])
def test_a_redirect_to_another_scheme_is_refused(clone: Clones, server: HTTPServer, target: str) -> None:
    server.redirects["/r"] = target
    assert clone.fails(f"{server.url}/r").reason is GitReason.SCHEME_NOT_ALLOWED


def test_a_redirect_loop_ends(clone: Clones, server: HTTPServer) -> None:
    server.redirects["/r"] = f"{server.url}/r"
    assert "redirects" in clone.fails(f"{server.url}/r").message


@pytest.mark.parametrize(
    ("status", "reason", "words"),
    [
        (200, GitReason.GIT_FAILED, "is this the clone URL"),
        (403, GitReason.GIT_AUTHENTICATION_FAILED, "HTTP 403"),
        (404, GitReason.GIT_FAILED, "was not found"),
        (500, GitReason.GIT_FAILED, "HTTP 500"),
    ],
)
def test_every_kind_of_refusal_has_its_reason(
    clone: Clones, server: HTTPServer, status: int, reason: GitReason, words: str
) -> None:
    server.answers["/page/info/refs"] = (status, "text/html", b"<html>log in</html>")
    error = clone.fails(f"{server.url}/page")
    assert error.reason is reason
    assert words in error.message


@pytest.mark.parametrize("content", [b"", b"zzzz", b"0006a\n", b"001e# service=git-upload-pack\n0000", b"ffff"])
def test_an_answer_that_is_no_git_protocol_is_a_git_failure(clone: Clones, server: HTTPServer, content: bytes) -> None:
    server.answers["/odd/info/refs"] = (200, "application/x-git-upload-pack-advertisement", content)
    assert clone.fails(f"{server.url}/odd").reason is GitReason.GIT_FAILED


def test_an_unknown_branch_and_a_short_sha_are_not_found_with_a_hint(
    clone: Clones, server: HTTPServer, history: list[str]
) -> None:
    url = f"{server.url}/app.git"
    unknown = clone.fails(url, "nope")
    assert unknown.reason is GitReason.REVISION_NOT_FOUND
    assert "'nope'" in unknown.message
    short = clone.fails(url, history[0][:7])
    assert short.reason is GitReason.REVISION_NOT_FOUND
    assert "full SHA" in short.message
    head = clone.fails(url, "HEAD")
    assert head.reason is GitReason.REVISION_NOT_FOUND


def test_the_id_of_a_tag_object_is_no_commit(
    clone: Clones, repository: Repository, server: HTTPServer, history: list[str]
) -> None:
    git(repository.work, "tag", "-a", "-m", "x", "v1", history[0])
    repository.push()
    error = clone.fails(f"{server.url}/app.git", git(repository.work, "rev-parse", "v1"))
    assert error.reason is GitReason.REVISION_NOT_FOUND
    assert "is a tag" in error.message


def test_an_unreachable_server_is_named(clone: Clones) -> None:
    port = free_ports(1)[0]
    error = clone.fails(f"http://127.0.0.1:{port}/x")
    assert error.reason is GitReason.GIT_FAILED
    assert f"http://127.0.0.1:{port}/x" in error.message
    assert "refused" in error.message


def test_https_trusts_the_ca_bundle_of_the_secret_and_nothing_unknown(
    clone: Clones, root: Path, history: list[str]
) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    bundle = authority.cert_pem.bytes().decode()
    with http_server(root, context) as secure:
        url = f"{secure.url}/app.git"
        assert clone(url, credentials=Credentials(ca_bundle=bundle)).revision == history[5]
        unknown = clone.fails(url)
        assert unknown.reason is GitReason.GIT_FAILED
        assert "caBundle" in unknown.message
        assert "PEM" in clone.fails(url, credentials=Credentials(ca_bundle="no PEM")).message
        with http_server(root) as plain:
            secure.redirects["/down"] = f"{plain.url}/app.git"
            downgrade = clone.fails(f"{secure.url}/down", credentials=Credentials(ca_bundle=bundle))
            assert downgrade.reason is GitReason.SCHEME_NOT_ALLOWED
            assert plain.seen == []


def test_the_git_protocol_and_local_paths_work_where_allowed(
    clone: Clones, root: Path, repository: Repository, history: list[str]
) -> None:
    git(repository.work, "tag", "-a", "-m", "x", "v1", history[3])
    repository.push()
    git(repository.bare, "symbolic-ref", "HEAD", "refs/heads/trunk")
    with git_daemon(root) as base:
        for url in (f"{base}/app.git", str(repository.bare), f"file://{repository.bare}"):
            assert clone(url).revision == history[5]
            assert clone(url, "v1").revision == history[3]
            assert clone(url, "HEAD").revision == history[5]
            assert clone(url, "trunk", history[1]).revision == history[1]
            assert clone.fails(url, "nope").reason is GitReason.REVISION_NOT_FOUND
    assert clone.fails(str(root / "nothing")).reason is GitReason.GIT_FAILED


def test_a_server_that_goes_silent_uses_up_the_time_budget_and_no_more(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        request = LsRemoteRequest(f"http://127.0.0.1:{port}/x", "trunk", SCHEMES, timeout=0.5, workdir=tmp_path)
        with pytest.raises(GitError, match=r"longer than 0\.5 s") as caught:
            ls_remote(request)
        assert caught.value.reason is GitReason.GIT_FAILED
        with pytest.raises(GitError):
            ls_remote(LsRemoteRequest(f"git://127.0.0.1:{port}/x", "trunk", SCHEMES, timeout=0.5, workdir=tmp_path))
        with pytest.raises(GitError):
            ls_remote(LsRemoteRequest(f"ssh://127.0.0.1:{port}/x", "trunk", SCHEMES, timeout=0.5, workdir=tmp_path))


def test_many_threads_may_ask_at_once(server: HTTPServer, history: list[str], tmp_path: Path) -> None:
    server.login = ("alice", "open:sesame")
    request = LsRemoteRequest(f"{server.url}/app.git", "trunk", SCHEMES, LOGIN, workdir=tmp_path)
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(ls_remote, [request] * 16))
    assert {answer.sha for answer in answers} == {history[5]}
    assert {answer.ref for answer in answers} == {"refs/heads/trunk"}


def test_a_scheme_outside_the_list_is_refused_before_any_connection(tmp_path: Path, server: HTTPServer) -> None:
    with pytest.raises(GitError) as caught:
        ls_remote(LsRemoteRequest(f"{server.url}/app.git", "trunk", ("https", "ssh"), workdir=tmp_path))
    assert caught.value.reason is GitReason.SCHEME_NOT_ALLOWED
    assert server.seen == []
